#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/gradients.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/testing/checks.h"

namespace penstock::ir {
namespace sorting_test {

using testing::Checks;
using testing::ErrorOf;
using testing::GradientChecks;
using ::testing::HasSubstr;
using testing::Make;
using testing::RandomArray;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(Sorting, SortsAlongEachAxisBothWays) {
  Checks checks;
  const Value x = checks.Input(Make(DType::kF32, {2, 3}, {3, 1, 2, 0, 5, 4}));
  checks.Expect("rows", Sort(x), Make(DType::kF32, {2, 3}, {1, 2, 3, 0, 4, 5}));
  checks.Expect("rows, largest first", Sort(x, 1, true),
                Make(DType::kF32, {2, 3}, {3, 2, 1, 5, 4, 0}));
  checks.Expect("columns", Sort(x, 0), Make(DType::kF32, {2, 3}, {0, 1, 2, 3, 5, 4}));
  checks.Expect("order", ArgSort(x), Make(DType::kI32, {2, 3}, {1, 2, 0, 0, 2, 1}));
  const Value u = checks.Input(Make(DType::kU8, {3}, {200, 5, 100}));  // compared as unsigned
  checks.Expect("bytes", Sort(u), Make(DType::kU8, {3}, {5, 100, 200}));
  const Value n = checks.Input(Make(DType::kI8, {3}, {-3, 5, -4}));
  checks.Expect("signed", Sort(n), Make(DType::kI8, {3}, {-4, -3, 5}));
  const Value p = checks.Input(Make(DType::kBool, {3}, {1, 0, 1}));
  checks.Expect("booleans", Sort(p), Make(DType::kBool, {3}, {0, 1, 1}));
  checks.Expect("one", Sort(checks.Input(Make(DType::kBF16, {1}, {7}))),
                Make(DType::kBF16, {1}, {7}));
  checks.Expect("none", Sort(checks.Input(Make(DType::kF32, {2, 0}, {}))),
                Make(DType::kF32, {2, 0}, {}));
  checks.Run();
}

TEST(Sorting, IsStableAndSortsNaNsLast) {
  Checks checks;
  const Value key = checks.Input(Make(DType::kF32, {6}, {1, 0.0, kNaN, -0.0, -kInf, 1}));
  const Value place = checks.Input(Make(DType::kI32, {6}, {0, 1, 2, 3, 4, 5}));
  const Values up = Sort({key, place}), down = Sort({key, place}, 0, true);
  checks.Expect("up", up[0], Make(DType::kF32, {6}, {-kInf, 0, 0, 1, 1, kNaN}));
  checks.Expect("up, places", up[1], Make(DType::kI32, {6}, {4, 1, 3, 0, 5, 2}));
  checks.Expect("down", down[0], Make(DType::kF32, {6}, {kNaN, 1, 1, 0, 0, -kInf}));
  checks.Expect("down, places", down[1], Make(DType::kI32, {6}, {2, 0, 5, 1, 3, 4}));
  checks.Run();
}

TEST(Sorting, TopKReturnsLargestAndTheirIndices) {
  Checks checks;
  const Value x = checks.Input(Make(DType::kF32, {2, 4}, {3, 9, 9, 2, -1, -5, -1, -2}));
  const TopKResult two = TopK(x, 2);
  checks.Expect("values", two.values, Make(DType::kF32, {2, 2}, {9, 9, -1, -1}));
  checks.Expect("indices", two.indices, Make(DType::kI32, {2, 2}, {1, 2, 0, 2}));
  checks.Expect("columns", TopK(x, 1, 0).values, Make(DType::kF32, {1, 4}, {3, 9, 9, 2}));
  checks.Expect("none", TopK(x, 0).values, Make(DType::kF32, {2, 0}, {}));
  checks.Expect("gradient", Gradients(ReduceSum(two.values * two.values), {x})[0],
                Make(DType::kF32, {2, 4}, {0, 18, 18, 0, -2, 0, -2, 0}));
  checks.Run();
}

TEST(Sorting, GradientsMatchFiniteDifferences) {
  GradientChecks checks;
  for (const int64_t axis : {0, 1}) {
    for (const bool descending : {false, true}) {
      const auto sort = [=](const Values& v) {
        const Values sorted = Sort({v[0], v[1]}, axis, descending);
        return sorted[0] * sorted[1];
      };
      checks.Add("sort", {RandomArray({3, 4}), RandomArray({3, 4}, 2)}, sort);
      checks.AddSecond("sort", {RandomArray({2, 2}), RandomArray({2, 2}, 2)}, sort);
    }
    const auto top = [=](const Values& v) { return Square(TopK(v[0], 2, axis).values); };
    checks.Add("top_k", {RandomArray({3, 4})}, top);
    checks.AddSecond("top_k", {RandomArray({3, 4})}, top);
  }
  checks.Run();
  testing::ExpectAllCovered(SortingOps(), checks.ops());
}

TEST(Sorting, ErrorsStateActualAndExpected) {
  struct Wrong {
    std::function<Value(Value)> build;  // input: f32[2,3]
    const char* message;
  };
  const Wrong wrongs[] = {
      {[](Value x) { return TopK(x, 4).values; },
       "top_k: there are no 4 elements along axis 1 of f32[2,3]"},
      {[](Value x) { return Sort(x, 2); }, "sort: there is no axis 2 in f32[2,3]"},
      {[](Value x) {
         return Sort({x, ReduceSum(x)})[1];
       },
       "sort: expects numbers of one shape, got f32[2,3] and f32[]"},
  };
  for (const Wrong& wrong : wrongs) {
    Graph graph("wrong");
    EXPECT_FALSE(wrong.build(graph.Parameter({DType::kF32, {2, 3}}, "x")).valid());
    EXPECT_THAT(ErrorOf(graph), HasSubstr(wrong.message));
  }
}

}  // namespace sorting_test
}  // namespace penstock::ir
