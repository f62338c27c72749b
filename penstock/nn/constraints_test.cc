// Constraints compared with their formulas; tests/parity compares values and gradients with Keras.
#include "penstock/nn/constraints.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/ir/testing/checks.h"

namespace penstock::nn {
namespace constraints_test {

using base::DType;
using ir::Value;
using ir::testing::Checks;
using ir::testing::Make;
using ::testing::HasSubstr;

TEST(Constraints, MatchFormulas) {
  Checks checks;
  // Columns of norm 5, 0.5, and 0.
  const Value w = checks.Input(Make(DType::kF32, {2, 3}, {3, 0.3, 0, -4, 0.4, 0}));
  const auto expect = [&](const char* name, const std::vector<double>& want) {
    checks.Expect(name, Constrain(name, w), Make(DType::kF32, {2, 3}, want), 1e-6);
  };
  expect("max_norm", {1.2, 0.3, 0, -1.6, 0.4, 0});
  expect("MaxNorm(1, axis=[0])", {0.6, 0.3, 0, -0.8, 0.4, 0});
  expect("max_norm(25.25)", {3, 0.3, 0, -4, 0.4, 0});
  expect("non_neg", {3, 0.3, 0, 0, 0.4, 0});
  expect("unit_norm", {0.6, 0.6, 0, -0.8, 0.8, 0});
  expect("min_max_norm(1, 3)", {1.8, 0.6, 0, -2.4, 0.8, 0});
  expect("min_max_norm(1, 3, rate=0.5)", {2.4, 0.45, 0, -3.2, 0.6, 0});
  const Value all = checks.Input(Make(DType::kBF16, {2, 2}, {3, 0, 0, 4}));
  checks.Expect("over both axes, in 16 bits", Constrain("unit_norm([0, 1])", all * 1.0),
                Make(DType::kBF16, {2, 2}, {0.6, 0, 0, 0.8}), 1e-2);
  checks.Run();
}

TEST(Constraints, InvalidArgumentsFailTheGraph) {
  const auto error = [](const char* constraint) {
    ir::Graph graph("test");
    EXPECT_FALSE(Constrain(constraint, graph.Parameter({DType::kF32, {2, 2}}, "w")).valid());
    return std::string(graph.status().message());
  };
  EXPECT_THAT(error("max"), HasSubstr("unknown constraint 'max'; available: max_norm, non_neg"));
  EXPECT_THAT(error("non_neg(1)"), HasSubstr("non_neg takes no arguments"));
  EXPECT_THAT(error("unit_norm(2)"), HasSubstr("axis"));
  EXPECT_THAT(error("unit_norm(axis=first)"), HasSubstr("an integer or a list"));
}

}  // namespace constraints_test
}  // namespace penstock::nn
