#include "penstock/session/run/loop_graph.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/ir/ops.h"
#include "penstock/ir/testing/checks.h"
#include "penstock/ir/testing/run.h"

namespace penstock::session {
namespace loop_graph_test {

using base::Array;
using base::DType;
using ir::testing::Doubles;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// state' = state * factor + batch, fetches: state' * count + seed, and the batch.
std::unique_ptr<ir::Graph> Step() {
  auto step = std::make_unique<ir::Graph>("step");
  const ir::Value state = step->Parameter({DType::kF32, {2}}, "state");
  const ir::Value factor = step->Parameter({DType::kF32, {}}, "factor");
  const ir::Value counter = step->Parameter({DType::kU32, {1, 2}}, "random");
  const ir::Value batch = step->Parameter({DType::kF32, {2}}, "batch");
  const ir::Value next = state * factor + batch;
  const auto number = [&](int64_t column) {
    return ir::Convert(ir::Reshape(ir::SliceAxis(counter, 1, column, column + 1), {}), DType::kF32);
  };
  step->SetResults({next * number(1) + number(0), next, batch}, {"product", "state", "batch"});
  return step;
}

const std::vector<LoopParameter>& Parameters() {
  static const std::vector<LoopParameter> parameters = {{LoopParameter::kState, 1},
                                                        {LoopParameter::kInvariant},
                                                        {LoopParameter::kRandom},
                                                        {LoopParameter::kBatch}};
  return parameters;
}

TEST(LoopGraph, RunsStepsOverStacksAndReturnsTheLastFetches) {
  const auto step = Step();
  const auto loop = LoopGraph(*step, Parameters(), /*depth=*/4);
  ASSERT_TRUE(loop.ok()) << loop.status();
  EXPECT_THAT((*loop)->result_names(), ElementsAre("product", "state", "batch"));
  const Array stack = Array::Of<float>({4, 2}, {1, 10, 2, 20, 3, 30, 4, 40});
  for (const int32_t steps : {1, 3, 4}) {
    const auto results = ir::testing::Run(
        **loop, {Array::Of<float>({2}, {1, 1}), Array::Scalar<float>(2),
                 Array::Of<uint32_t>({1, 2}, {9, 5}), stack, Array::Scalar<int32_t>(steps)});
    ASSERT_TRUE(results.ok()) << results.status();
    double a = 1, b = 1;
    for (int i = 0; i < steps; ++i) a = 2 * a + (i + 1), b = 2 * b + 10 * (i + 1);
    const double count = 5 + steps - 1;
    EXPECT_THAT(Doubles((*results)[0]), ElementsAre(a * count + 9, b * count + 9));
    EXPECT_THAT(Doubles((*results)[1]), ElementsAre(a, b));
    EXPECT_THAT(Doubles((*results)[2]), ElementsAre(steps, 10 * steps));
  }
}

TEST(LoopGraph, RejectsStackWithTooManyAxes) {
  ir::Graph step("step");
  base::Shape shape;
  for (int i = 0; i < base::kMaxRank; ++i) shape = shape.Prepend(1);
  step.SetResults({step.Parameter({DType::kF32, shape}, "image")});
  const auto loop = LoopGraph(step, {{LoopParameter::kBatch}}, 2);
  EXPECT_THAT(std::string(loop.status().message()), HasSubstr("'image'"));
}

TEST(LoopDepthThatFits, LimitsStacksToTheFreeMemory) {
  EXPECT_EQ(LoopDepthThatFits(100, 1000, int64_t{1} << 30), 100);
  EXPECT_EQ(LoopDepthThatFits(100, 1000, 80000), 10);
  EXPECT_EQ(LoopDepthThatFits(100, 1000, 0), 1);
  EXPECT_EQ(LoopDepthThatFits(100, 0, 1000), 100);
}

TEST(LoopGraph, ReturnsErrorOfTheStep) {
  ir::Graph step("step");
  step.Fail(absl::InvalidArgumentError("shapes differ"));
  EXPECT_THAT(std::string(LoopGraph(step, {}, 2).status().message()), HasSubstr("shapes differ"));
}

}  // namespace loop_graph_test
}  // namespace penstock::session
