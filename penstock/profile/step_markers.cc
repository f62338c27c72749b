#include "penstock/profile/step_markers.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

#include "penstock/profile/trace_files.h"

namespace penstock::profile {
namespace {

using Recording = base::TraceRecording;

constexpr const char* kExecution = "execution";
constexpr const char* kWait = "IteratorGetNext";

// Work of the first device, or the host's wait for input while that device was idle.
struct Stretch {
  const char* name = nullptr;
  double begin = 0, end = 0;
};

std::vector<Recording::Span> SpansOf(const Recording& recording, int track) {
  std::vector<Recording::Span> spans;
  for (const Recording::Span& span : recording.spans) {
    if (span.track == track) spans.push_back(span);
  }
  return spans;
}

// The first track of a group, or that of a name; -1: none.
int FindTrack(const Recording& recording, absl::string_view group, absl::string_view name = {}) {
  const auto found = std::find_if(
      recording.tracks.begin(), recording.tracks.end(), [&](const Recording::Track& track) {
        return track.group == group && (name.empty() || track.name == name);
      });
  if (found == recording.tracks.end()) return -1;
  return static_cast<int>(found - recording.tracks.begin());
}

// In the order of their begin; they do not overlap, as the spans of a device do not.
std::vector<Stretch> Stretches(const Recording& recording) {
  std::vector<Stretch> stretches;
  const int device = FindTrack(recording, kDevices);
  if (device < 0) return stretches;
  const std::vector<Recording::Span> executions = SpansOf(recording, device);
  for (const Recording::Span& span : executions) {
    stretches.push_back({kExecution, span.begin, span.end});
  }
  for (const Recording::Span& span : recording.spans) {
    if (span.track == device || recording.names[span.name] != kTakeBatch) continue;
    // The first execution that ends after the wait has begun.
    auto next = std::partition_point(executions.begin(), executions.end(),
                                     [&](const auto& other) { return other.end <= span.begin; });
    double begin = span.begin;
    for (; next != executions.end() && next->begin < span.end; ++next) {
      if (begin < next->begin) stretches.push_back({kWait, begin, next->begin});
      begin = next->end;
    }
    if (begin < span.end) stretches.push_back({kWait, begin, span.end});
  }
  std::sort(stretches.begin(), stretches.end(),
            [](const Stretch& a, const Stretch& b) { return a.begin < b.begin; });
  return stretches;
}

// When the device began with the execution that ended with `steps`.
double Began(const std::vector<Stretch>& stretches, const Recording::Span& steps) {
  auto after = std::partition_point(stretches.begin(), stretches.end(),
                                    [&](const Stretch& other) { return other.begin < steps.end; });
  while (after != stretches.begin()) {
    const Stretch& last = *--after;
    if (last.end <= steps.begin) break;
    if (last.name == kExecution) return std::max(last.begin, steps.begin);
  }
  return steps.begin;
}

// Reads "17" or "33-64".
bool ReadSteps(absl::string_view name, int64_t& first, int64_t& last) {
  const std::pair<absl::string_view, absl::string_view> range = absl::StrSplit(name, '-');
  if (!absl::SimpleAtoi(range.first, &first)) return false;
  last = first;
  return (range.second.empty() || absl::SimpleAtoi(range.second, &last)) && last >= first;
}

}  // namespace

std::vector<StepMarker> StepMarkers(const Recording& recording, size_t max_markers) {
  std::vector<StepMarker> markers;
  const int track = FindTrack(recording, kTraining, kSteps);
  if (track < 0) return markers;
  const std::vector<Stretch> stretches = Stretches(recording);
  auto stretch = stretches.begin();
  for (const Recording::Span& span : SpansOf(recording, track)) {
    int64_t first = 0, last = 0;
    if (!ReadSteps(recording.names[span.name], first, last)) continue;
    // An execution of several steps: the first one also has the time before the execution.
    const double began = Began(stretches, span);
    const double seconds = (span.end - began) / static_cast<double>(last - first + 1);
    for (int64_t step = first; step <= last; ++step) {
      const double begin =
          step == first ? span.begin : began + static_cast<double>(step - first) * seconds;
      const double end =
          step == last ? span.end : began + static_cast<double>(step + 1 - first) * seconds;
      std::vector<StepMarker> inside;
      while (stretch != stretches.end() && stretch->end <= begin) ++stretch;
      for (auto next = stretch; next != stretches.end() && next->begin < end; ++next) {
        inside.push_back({next->name, std::max(next->begin, begin), std::min(next->end, end)});
      }
      if (markers.size() + 1 + inside.size() > max_markers) return markers;
      markers.push_back({"train", begin, end, step});
      markers.insert(markers.end(), inside.begin(), inside.end());
    }
  }
  return markers;
}

}  // namespace penstock::profile
