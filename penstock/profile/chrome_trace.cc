#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

#include "penstock/base/json_dump.h"
#include "penstock/profile/trace_files.h"

namespace penstock::profile {
namespace {

// Position of a track: process and thread numbers from 1, in order of creation.
struct Place {
  size_t process = 0, thread = 0;
};

std::vector<Place> PlaceTracks(const base::TraceRecording& recording,
                               std::vector<std::string>& groups) {
  std::vector<Place> places;
  std::vector<size_t> sizes;
  for (const auto& track : recording.tracks) {
    size_t group = 0;
    while (group < groups.size() && groups[group] != track.group) ++group;
    if (group == groups.size()) {
      groups.push_back(track.group);
      sizes.push_back(0);
    }
    places.push_back({group + 1, ++sizes[group]});
  }
  return places;
}

}  // namespace

std::string ChromeTrace(const base::TraceRecording& recording) {
  std::vector<std::string> groups, names;
  const std::vector<Place> places = PlaceTracks(recording, groups);
  for (const std::string& name : recording.names) names.push_back(base::DumpJson(name));

  std::string out = absl::StrFormat(
      "{\"displayTimeUnit\": \"ms\",\n\"otherData\": {\"began_unix_seconds\": \"%.6f\", "
      "\"dropped_spans\": \"%d\"},\n\"traceEvents\": [",
      recording.began_unix_seconds, recording.dropped);
  const char* separator = "\n";
  const auto event = [&](absl::string_view text) {
    absl::StrAppend(&out, separator, text);
    separator = ",\n";
  };
  for (size_t i = 0; i < groups.size(); ++i) {
    const std::string begin = absl::StrCat("{\"ph\": \"M\", \"pid\": ", i + 1, ", \"name\": ");
    event(absl::StrCat(begin, "\"process_name\", \"args\": {\"name\": ", base::DumpJson(groups[i]),
                       "}}"));
    event(absl::StrCat(begin, "\"process_sort_index\", \"args\": {\"sort_index\": ", i, "}}"));
  }
  for (size_t i = 0; i < places.size(); ++i) {
    const std::string begin = absl::StrCat("{\"ph\": \"M\", \"pid\": ", places[i].process,
                                           ", \"tid\": ", places[i].thread, ", \"name\": ");
    event(absl::StrCat(begin, "\"thread_name\", \"args\": {\"name\": ",
                       base::DumpJson(recording.tracks[i].name), "}}"));
    event(absl::StrCat(begin, "\"thread_sort_index\", \"args\": {\"sort_index\": ", i, "}}"));
  }
  for (const auto& span : recording.spans) {
    const Place& place = places[span.track];
    std::string text = absl::StrFormat(
        "{\"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f, \"name\": %s",
        place.process, place.thread, (span.begin - recording.began) * 1e6,
        (span.end - span.begin) * 1e6, names[span.name]);
    if (span.argument.name != nullptr) {
      absl::StrAppend(&text, ", \"args\": {\"", span.argument.name, "\": ", span.argument.value,
                      "}");
    }
    event(absl::StrCat(text, "}"));
  }
  return out + "\n]}\n";
}

}  // namespace penstock::profile
