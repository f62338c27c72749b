#include "penstock/base/trace.h"

#include "gtest/gtest.h"

#include "penstock/base/thread_pool.h"

namespace penstock::base {
namespace trace_test {

// Formats a trace's spans in order, e.g. "host/loop: step [1, 3]".
std::vector<std::string> Lines(const TraceRecording& recording) {
  std::vector<std::string> lines;
  for (const auto& span : recording.spans) {
    const auto& track = recording.tracks[span.track];
    lines.push_back(absl::StrCat(track.group, "/", track.name, ": ", recording.names[span.name],
                                 " [", span.begin, ", ", span.end, "]"));
  }
  return lines;
}

TEST(Trace, SpansOfThreadNest) {
  FakeClock clock;
  Trace trace({.clock = &clock});
  trace.NameThread("host", "loop");
  {
    const Trace::Span outer(&trace, "outer");
    {
      const Trace::Span first(&trace, "first");  // begins at the same time as the outer span
      clock.Advance(1);
    }
    const Trace::Span second(&trace, "second", {"step", 7});
    clock.Advance(2);
  }
  const TraceRecording recording = trace.TakeRecording();
  EXPECT_EQ(Lines(recording),
            (std::vector<std::string>{"host/loop: outer [0, 3]", "host/loop: first [0, 1]",
                                      "host/loop: second [1, 3]"}));
  EXPECT_STREQ(recording.spans[2].argument.name, "step");
  EXPECT_EQ(recording.spans[2].argument.value, 7);
  EXPECT_TRUE(trace.TakeRecording().spans.empty());
}

TEST(Trace, SortsOuterSpanBeforeEqualInnerSpan) {
  FakeClock clock;
  Trace trace({.clock = &clock});
  trace.NameThread("host", "loop");
  {
    const Trace::Span outer(&trace, "outer");
    const Trace::Span inner(&trace, "inner");
    clock.Advance(1);
  }
  EXPECT_EQ(Lines(trace.TakeRecording()),
            (std::vector<std::string>{"host/loop: outer [0, 1]", "host/loop: inner [0, 1]"}));
}

TEST(Trace, SameNameIsSameTrack) {
  FakeClock clock;
  Trace trace({.clock = &clock});
  const int device = trace.Track("devices", "cpu 0");
  EXPECT_NE(trace.Track("devices", "cpu 1"), device);
  EXPECT_EQ(trace.Track("devices", "cpu 0"), device);
  trace.Add(device, "train_step", 1, 2);
  trace.Add(device, "train_step", 0.5, 1);
  EXPECT_EQ(Lines(trace.TakeRecording()),
            (std::vector<std::string>{"devices/cpu 0: train_step [0.5, 1]",
                                      "devices/cpu 0: train_step [1, 2]"}));
}

TEST(Trace, CountsSpansBeyondLimitAsDropped) {
  FakeClock clock;
  Trace trace({.clock = &clock, .max_spans = 3});
  for (int i = 0; i < 10; ++i) trace.Add(absl::StrCat("span ", i), i, i + 1);
  const TraceRecording recording = trace.TakeRecording();
  EXPECT_EQ(recording.spans.size(), 3u);
  EXPECT_EQ(recording.dropped, 7);
}

TEST(Trace, DoesNotRecordWhilePaused) {
  FakeClock clock;
  Trace trace({.clock = &clock});
  trace.Pause();
  { const Trace::Span span(&trace, "not seen"); }
  trace.Add("nor this", 0, 1);
  trace.Resume();
  trace.Add("seen", 1, 2);
  const TraceRecording recording = trace.TakeRecording();
  ASSERT_EQ(recording.spans.size(), 1u);
  EXPECT_EQ(recording.names[recording.spans[0].name], "seen");
  EXPECT_EQ(recording.dropped, 0);
}

TEST(Trace, NullTraceIsNoOp) { const Trace::Span span(nullptr, "nothing"); }

TEST(Trace, ThreadsHaveOwnTracksNamedAfterThem) {
  constexpr int kSpans = 1000;
  Trace trace({});
  {
    ThreadPool pool(2, "data"), io(1, "data-io");
    for (int i = 0; i < kSpans; ++i) {
      pool.Schedule([&] {
        const Trace::Span outer(&trace, "decode");
        const Trace::Span inner(&trace, "inside");
      });
      io.Schedule([&] { const Trace::Span span(&trace, "read"); });
    }
  }
  const TraceRecording recording = trace.TakeRecording();
  EXPECT_EQ(recording.spans.size(), 3u * kSpans);
  for (const auto& track : recording.tracks) {
    EXPECT_EQ(track.group, "threads");
    EXPECT_TRUE(track.name == "data 1" || track.name == "data 2" || track.name == "data-io 1")
        << track.name;
  }
  // The spans of each track are sorted and properly nested.
  for (size_t i = 1; i < recording.spans.size(); ++i) {
    const auto &before = recording.spans[i - 1], &span = recording.spans[i];
    if (before.track != span.track) continue;
    EXPECT_LE(before.begin, span.begin);
    EXPECT_TRUE(span.begin >= before.end || span.end <= before.end);
  }
}

}  // namespace trace_test
}  // namespace penstock::base
