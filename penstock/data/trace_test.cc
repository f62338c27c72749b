#include "penstock/base/trace.h"

#include <map>

#include "gtest/gtest.h"

#include "penstock/base/testing/ticking_clock.h"
#include "penstock/data/dataset.h"
#include "penstock/data/testing/source.h"

namespace penstock::data {
namespace trace_test {

using base::NamedArrays;

absl::Status Negate(const NamedArrays& in, NamedArrays* out) {
  out->Set("x", base::Array::Scalar(-in.Find("x")->item<int64_t>()));
  return absl::OkStatus();
}

// Number of spans by name in the trace of a full pass.
std::map<std::string, int> CountSpans(const Dataset& dataset) {
  base::TickingClock clock;
  base::Trace trace({.clock = &clock});
  {
    base::ThreadPool pool(2, "data");
    auto iterator = dataset.MakeIterator({.pool = &pool, .clock = &clock, .trace = &trace});
    EXPECT_TRUE(iterator.ok()) << iterator.status();
    NamedArrays element;
    for (bool more = iterator.ok(); more;) {
      const auto next = (*iterator)->Next(&element);
      EXPECT_TRUE(next.ok()) << next.status();
      more = next.ok() && *next;
    }
  }
  std::map<std::string, int> counts;
  const base::TraceRecording recording = trace.TakeRecording();
  for (const auto& span : recording.spans) {
    ++counts[recording.names[span.name]];
    EXPECT_LT(span.begin, span.end);
  }
  return counts;
}

TEST(PipelineTrace, NamesStagesWithoutParameters) {
  const Dataset dataset =
      testing::TestSource({.rows = 40})
          .Map(Negate, {.name = "negate", .reads = {"x"}, .makes = {{"x", base::DType::kI64, {}}}})
          .Batch(10);
  const auto counts = CountSpans(dataset);
  EXPECT_GE(counts.at("TestSource"), 1);
  EXPECT_GE(counts.at("Map"), 4) << "at least once a batch";
  EXPECT_GE(counts.at("Batch"), 4);
}

TEST(PipelineTrace, StagesWithinAnInterleaveAreTraced) {
  const Dataset dataset =
      Dataset::Range(0, 3).Interleave([](const NamedArrays& in) -> absl::StatusOr<Dataset> {
        return Dataset::Range(0, in.Find("value")->item<int64_t>() + 1).Take(5);
      });
  const auto counts = CountSpans(dataset);
  EXPECT_GE(counts.at("Interleave"), 1);
  EXPECT_GE(counts.at("Take"), 3);
}

}  // namespace trace_test
}  // namespace penstock::data
