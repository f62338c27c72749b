// Regularizers compared with their formulas; tests/parity compares values and gradients with Keras.
#include "penstock/nn/regularizers.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/ir/testing/checks.h"

namespace penstock::nn {
namespace regularizers_test {

using base::DType;
using ir::Value;
using ir::testing::Checks;
using ir::testing::Make;
using ::testing::HasSubstr;

TEST(Regularizers, MatchFormulas) {
  Checks checks;
  const Value x = checks.Input(Make(DType::kF32, {2, 2}, {3, -4, 0, 2}));
  const auto expect = [&](const char* name, double want) {
    checks.Expect(name, Regularize(name, x), Make(DType::kF32, {}, {want}), 1e-6);
  };
  expect("l1", 0.09);
  expect("L1(0.5)", 4.5);
  expect("l2(l2=0.1)", 2.9);
  expect("l1_l2(0.5, 0.1)", 7.4);
  expect("L1L2", 0);
  // The cosine of the rows is -0.8, that of the columns -12 / (3 sqrt(20)).
  expect("orthogonal_regularizer(10)", 8);
  expect("orthogonal_regularizer(10, columns)", 10 * 12 / (3 * std::sqrt(20)));
  checks.Expect("of 16 bits", Regularize("l1(1)", ir::Convert(x, DType::kBF16)),
                Make(DType::kF32, {}, {9}));
  checks.Run();
}

std::string ErrorOf(const char* regularizer, const base::Shape& shape = {2, 2}) {
  ir::Graph graph("test");
  EXPECT_FALSE(Regularize(regularizer, graph.Parameter({DType::kF32, shape}, "x")).valid());
  return std::string(graph.status().message());
}

TEST(Regularizers, InvalidArgumentsFailTheGraph) {
  EXPECT_THAT(ErrorOf("l3"), HasSubstr("unknown regularizer 'l3'; available: l1, l2, l1_l2"));
  EXPECT_THAT(ErrorOf("l1(-1)"), HasSubstr("non-negative numbers, got -1"));
  EXPECT_THAT(ErrorOf("l1(0.1, 0.2)"), HasSubstr("l1 takes l1; it was given 2"));
  EXPECT_THAT(ErrorOf("orthogonal_regularizer(0.1, diagonals)"), HasSubstr("rows or columns"));
  EXPECT_THAT(ErrorOf("orthogonal_regularizer", {2, 2, 2}), HasSubstr("takes a matrix, got f32"));
}

}  // namespace regularizers_test
}  // namespace penstock::nn
