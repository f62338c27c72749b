#include "penstock/profile/step_markers.h"

#include <string>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/profile/trace_files.h"

namespace penstock::profile {
namespace step_markers_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Span {
  int track;
  std::string name;
  double begin, end;
};
constexpr int kStepsTrack = 0, kLoop = 1, kFirst = 2, kSecond = 3;

base::TraceRecording Record(const std::vector<Span>& spans) {
  base::TraceRecording recording;
  recording.tracks = {
      {kTraining, kSteps}, {"host", "training loop"}, {kDevices, "cpu 0"}, {kDevices, "cpu 1"}};
  for (const Span& span : spans) {
    recording.spans.push_back({.track = span.track,
                               .name = static_cast<int>(recording.names.size()),
                               .begin = span.begin,
                               .end = span.end,
                               .argument = {}});
    recording.names.push_back(span.name);
  }
  return recording;
}

std::vector<std::string> Lines(const base::TraceRecording& recording, size_t max_markers = 100) {
  std::vector<std::string> lines;
  for (const StepMarker& marker : StepMarkers(recording, max_markers)) {
    lines.push_back(
        absl::StrFormat("%s %g-%g %d", marker.name, marker.begin, marker.end, marker.step));
  }
  return lines;
}

TEST(StepMarkers, WaitsForInputCountWhileTheDeviceIsIdle) {
  EXPECT_THAT(Lines(Record({{kStepsTrack, "7", 0, 10},
                            {kStepsTrack, "8", 10, 16},
                            {kLoop, kTakeBatch, 1, 4},   // the device is idle
                            {kLoop, kTakeBatch, 6, 11},  // it computes until 10
                            {kLoop, "dispatch", 4, 5},
                            {kFirst, "train_step", 5, 10},
                            {kFirst, "train_step", 12, 16},
                            {kSecond, "train_step", 0, 16}})),
              ElementsAre("train 0-10 7", "IteratorGetNext 1-4 -1", "execution 5-10 -1",
                          "train 10-16 8", "IteratorGetNext 10-11 -1", "execution 12-16 -1"));
}

TEST(StepMarkers, ExecutionOfSeveralStepsIsAsManyEqualSteps) {
  EXPECT_THAT(Lines(Record({{kStepsTrack, "3-5", 0, 7},
                            {kLoop, kTakeBatch, 0, 0.5},
                            {kFirst, "train_step x3", 1, 7}})),
              ElementsAre("train 0-3 3", "IteratorGetNext 0-0.5 -1", "execution 1-3 -1",
                          "train 3-5 4", "execution 3-5 -1", "train 5-7 5", "execution 5-7 -1"));
}

TEST(StepMarkers, AreBounded) {
  EXPECT_THAT(Lines(Record({{kStepsTrack, "1-1000000000000", 0, 6}}), 2),
              ElementsAre("train 0-6e-12 1", "train 6e-12-1.2e-11 2"));
}

TEST(StepMarkers, NeedATrackOfSteps) {
  base::TraceRecording other = Record({{kStepsTrack, "1", 0, 1}, {kStepsTrack, "epoch", 1, 2}});
  EXPECT_THAT(Lines(other), ElementsAre("train 0-1 1"));
  other.tracks[0].group = "other";
  EXPECT_THAT(Lines(other), IsEmpty());
}

}  // namespace step_markers_test
}  // namespace penstock::profile
