#include "penstock/base/trace.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include <pthread.h>

#include "penstock/base/status.h"

namespace penstock::base {

int Trace::FindTrack(absl::string_view group, absl::string_view name) {
  for (size_t i = 0; i < tracks_.size(); ++i) {
    if (tracks_[i].group == group && tracks_[i].name == name) return static_cast<int>(i);
  }
  tracks_.push_back({std::string(group), std::string(name)});
  return static_cast<int>(tracks_.size()) - 1;
}

int Trace::Track(absl::string_view group, absl::string_view name) {
  std::lock_guard lock(mutex_);
  return FindTrack(group, name);
}

void Trace::NameThread(absl::string_view group, absl::string_view name) {
  std::lock_guard lock(mutex_);
  track_of_thread_[std::this_thread::get_id()] = FindTrack(group, name);
}

int Trace::TrackOfThread() {
  const auto [it, is_new] = track_of_thread_.try_emplace(std::this_thread::get_id(), 0);
  if (is_new) {
    char name[16] = "thread";
    pthread_getname_np(pthread_self(), name, sizeof(name));
    constexpr char kGroup[] = "threads";
    int64_t number = 1;
    for (const TraceRecording::Track& track : tracks_) {
      if (track.group == kGroup && track.name == absl::StrCat(name, " ", number)) ++number;
    }
    it->second = FindTrack(kGroup, absl::StrCat(name, " ", number));
  }
  return it->second;
}

void Trace::Add(absl::string_view name, double begin, double end, TraceArgument argument) {
  if (!recording()) return;
  std::lock_guard lock(mutex_);
  AddLocked(TrackOfThread(), name, begin, end, argument);
}

void Trace::Add(int track, absl::string_view name, double begin, double end,
                TraceArgument argument) {
  if (!recording()) return;
  std::lock_guard lock(mutex_);
  PENSTOCK_CHECK(track >= 0 && track < static_cast<int>(tracks_.size()));
  AddLocked(track, name, begin, end, argument);
}

void Trace::AddLocked(int track, absl::string_view name, double begin, double end,
                      TraceArgument argument) {
  if (static_cast<int64_t>(spans_.size()) >= options_.max_spans) {
    ++dropped_;
    return;
  }
  auto it = names_.find(name);
  if (it == names_.end()) {
    it = names_.emplace(std::string(name), static_cast<int>(names_in_order_.size())).first;
    names_in_order_.emplace_back(name);
  }
  spans_.push_back({track, it->second, begin, end, argument});
}

TraceRecording Trace::TakeRecording() {
  TraceRecording recording;
  {
    std::lock_guard lock(mutex_);
    recording = {.tracks = tracks_,
                 .names = names_in_order_,
                 .spans = {spans_.begin(), spans_.end()},
                 .dropped = dropped_,
                 .began = began_,
                 .began_unix_seconds = began_unix_seconds_};
    spans_.clear();
    dropped_ = 0;
  }
  // A stable sort after reversal: of two spans with equal times the inner one was added first, and
  // the outer one must come first.
  std::reverse(recording.spans.begin(), recording.spans.end());
  std::stable_sort(recording.spans.begin(), recording.spans.end(),
                   [](const auto& a, const auto& b) {
                     return std::tie(a.track, a.begin, b.end) < std::tie(b.track, b.begin, a.end);
                   });
  return recording;
}

}  // namespace penstock::base
