// Fields written, of tsl/profiler/protobuf/xplane.proto:
//   XSpace { 1: repeated XPlane planes, 3: repeated string warnings, 4: repeated string hostnames }
//   XPlane { 1: int64 id, 2: string name, 3: repeated XLine lines,
//            4: map<int64, XEventMetadata> event_metadata, 5: map<int64, XStatMetadata> ... }
//   XLine  { 1: int64 id, 2: string name, 3: int64 timestamp_ns, 4: repeated XEvent events }
//   XEvent { 1: int64 metadata_id, 2: int64 offset_ps, 3: int64 duration_ps, 4: repeated XStat }
//   XStat  { 1: int64 metadata_id, 4: int64 int64_value }
//   XEventMetadata, XStatMetadata { 1: int64 id, 2: string name }
#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"

#include "penstock/profile/step_markers.h"
#include "penstock/profile/trace_files.h"

namespace penstock::profile {
namespace {

// A message under construction.
class Message {
 public:
  void Number(int field, int64_t value) {
    Varint(static_cast<uint64_t>(field) << 3);
    Varint(static_cast<uint64_t>(value));
  }
  void Bytes(int field, absl::string_view bytes) {
    Varint(static_cast<uint64_t>(field) << 3 | 2);
    Varint(bytes.size());
    out_.append(bytes.data(), bytes.size());
  }
  const std::string& bytes() const { return out_; }

 private:
  void Varint(uint64_t value) {
    for (; value >= 128; value >>= 7) out_ += static_cast<char>(value | 128);
    out_ += static_cast<char>(value);
  }

  std::string out_;
};

int64_t Picoseconds(double seconds) {
  return std::max<int64_t>(0, static_cast<int64_t>(std::llround(seconds * 1e12)));
}

class Plane {
  using Names = std::map<std::string, int64_t>;  // to their ids, from 1

 public:
  Plane(const base::TraceRecording& recording, int64_t id, absl::string_view name)
      : recording_(recording) {
    plane_.Number(1, id);
    plane_.Bytes(2, name);
  }

  // Adds the spans of `track`: those from `begin` to `end`.
  void AddLine(int track, const base::TraceRecording::Span* begin,
               const base::TraceRecording::Span* end) {
    Message line = NewLine(track + 1, recording_.tracks[track].name);
    for (const auto* span = begin; span != end; ++span) {
      Message event = NewEvent(recording_.names[span->name], span->begin, span->end);
      if (span->argument.name != nullptr) {
        AddStat(event, span->argument.name, span->argument.value);
      }
      line.Bytes(4, event.bytes());
    }
    plane_.Bytes(3, line.bytes());
  }

  void AddStepMarkers(const std::vector<StepMarker>& markers) {
    Message line = NewLine(static_cast<int64_t>(recording_.tracks.size()) + 1, "step markers");
    for (const StepMarker& marker : markers) {
      Message event = NewEvent(marker.name, marker.begin, marker.end);
      if (marker.step >= 0) {
        AddStat(event, "_r", 1);
        AddStat(event, "step_num", marker.step);
      }
      line.Bytes(4, event.bytes());
    }
    plane_.Bytes(3, line.bytes());
  }

  std::string Finish() {
    const auto add_names = [this](int field, const Names& names) {
      for (const auto& [name, id] : names) {
        Message metadata, entry;
        metadata.Number(1, id);
        metadata.Bytes(2, name);
        entry.Number(1, id);  // a map is a repeated message of key and value
        entry.Bytes(2, metadata.bytes());
        plane_.Bytes(field, entry.bytes());
      }
    };
    add_names(4, names_);
    add_names(5, stats_);
    return plane_.bytes();
  }

 private:
  Message NewLine(int64_t id, absl::string_view name) const {
    Message line;
    line.Number(1, id);
    line.Bytes(2, name);
    line.Number(3, static_cast<int64_t>(std::llround(recording_.began_unix_seconds * 1e9)));
    return line;
  }

  Message NewEvent(const std::string& name, double begin, double end) {
    // Both are rounded, so that an event inside another one stays inside.
    const int64_t began = Picoseconds(begin - recording_.began);
    Message event;
    event.Number(1, Id(names_, name));
    event.Number(2, began);
    event.Number(3, Picoseconds(end - recording_.began) - began);
    return event;
  }

  void AddStat(Message& event, const std::string& name, int64_t value) {
    Message stat;
    stat.Number(1, Id(stats_, name));
    stat.Number(4, value);
    event.Bytes(4, stat.bytes());
  }

  static int64_t Id(Names& names, const std::string& name) {
    return names.try_emplace(name, static_cast<int64_t>(names.size()) + 1).first->second;
  }

  const base::TraceRecording& recording_;
  Message plane_;
  Names names_, stats_;
};

// A bound for executions of thousands of steps: as many as spans (base::TraceOptions).
constexpr size_t kMaxStepMarkers = 200'000;

}  // namespace

std::string XSpace(const base::TraceRecording& recording, absl::string_view host) {
  Message space;
  Plane host_plane(recording, 1, "/host:CPU");
  const auto* const end = recording.spans.data() + recording.spans.size();
  const auto* span = recording.spans.data();
  for (int track = 0; track < static_cast<int>(recording.tracks.size()); ++track) {
    const auto* const begin = span;
    while (span != end && span->track == track) ++span;
    if (recording.tracks[track].group == kDevices) {
      Plane device(recording, track + 2,
                   absl::StrCat("/device:CUSTOM:", recording.tracks[track].name));
      device.AddLine(track, begin, span);
      space.Bytes(1, device.Finish());
    } else {
      host_plane.AddLine(track, begin, span);
    }
  }
  const std::vector<StepMarker> markers = StepMarkers(recording, kMaxStepMarkers);
  if (!markers.empty()) host_plane.AddStepMarkers(markers);
  space.Bytes(1, host_plane.Finish());
  if (recording.dropped > 0) {
    space.Bytes(3, absl::StrCat(recording.dropped, " spans were dropped: the trace was full"));
  }
  space.Bytes(4, host);
  return space.bytes();
}

}  // namespace penstock::profile
