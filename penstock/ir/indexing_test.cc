#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/gradients.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/testing/checks.h"

namespace penstock::ir {
namespace {

using testing::Checks;
using testing::ErrorOf;
using testing::GradientChecks;
using ::testing::HasSubstr;
using testing::Make;
using testing::RandomArray;

TEST(Indexing, TakesAlongEachAxis) {
  const Array x = RandomArray({3, 4, 2});
  const std::vector<double> v = testing::Doubles(x);
  Checks checks;
  const Value value = checks.Input(x);
  const std::vector<int64_t> picks{2, 0, 1, 2};
  for (DType dtype : {DType::kI32, DType::kI64, DType::kU8, DType::kU32}) {
    const Value indices = checks.Input(Make(dtype, {2, 2}, {2, 0, 1, 2}));
    for (int axis = 0; axis < 3; ++axis) {
      if (axis == 2) continue;
      std::vector<int64_t> dims{3, 4, 2};
      dims.erase(dims.begin() + axis);
      dims.insert(dims.begin() + axis, {2, 2});
      std::vector<double> want;
      const int64_t outer = axis == 0 ? 1 : 3, extent = x.dim(axis), inner = axis == 0 ? 8 : 2;
      for (int64_t o = 0; o < outer; ++o)
        for (int64_t pick : picks)
          for (int64_t i = 0; i < inner; ++i) want.push_back(v[(o * extent + pick) * inner + i]);
      checks.Expect("take", Take(value, indices, axis), Make(DType::kF64, Shape(dims), want));
    }
  }
  const Value last = checks.Input(Make(DType::kI32, {}, {1}));
  checks.Expect("a scalar index", Take(value, last, -1), [&] {
    std::vector<double> want;
    for (size_t i = 1; i < v.size(); i += 2) want.push_back(v[i]);
    return Make(DType::kF64, {3, 4}, want);
  }());
  checks.Run();
}

TEST(Indexing, ClampsIndicesAndTheirGradient) {
  Checks checks;
  const Value x = checks.Input(Make(DType::kF32, {3}, {10, 20, 30}));
  const Value indices = checks.Input(Make(DType::kI32, {4}, {-5, 7, 1, 1}));
  checks.Expect("take", Take(x, indices, 0), Make(DType::kF32, {4}, {10, 30, 20, 20}));
  const Value weights = checks.Input(Make(DType::kF32, {4}, {1, 2, 4, 8}));
  checks.Expect("gradient", Gradients(ReduceSum(Take(x, indices, 0) * weights), {x})[0],
                Make(DType::kF32, {3}, {1, 12, 2}));
  // A byte cannot name more than 256 rows, and wraps nowhere.
  const Value wide = checks.Input(RandomArray({300}, 3, -2, 2, DType::kF32));
  const Value bytes = checks.Input(Make(DType::kU8, {2}, {255, 0}));
  checks.Expect("bytes", Take(wide, bytes, 0) - Take(wide, Convert(bytes, DType::kI32), 0),
                Make(DType::kF32, {2}, {0, 0}));
  checks.Run();
}

TEST(Indexing, OneHotLeavesOutWhatIsOutside) {
  Checks checks;
  const Value indices = checks.Input(Make(DType::kI64, {2, 2}, {0, 2, -1, 3}));
  checks.Expect("one_hot", OneHot(indices, 3, DType::kF32),
                Make(DType::kF32, {2, 2, 3}, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0}));
  const Value bytes = checks.Input(Make(DType::kU8, {1}, {200}));
  std::vector<double> want(300);
  want[200] = 1;
  checks.Expect("bytes and a large depth", OneHot(bytes, 300, DType::kBF16),
                Make(DType::kBF16, {1, 300}, want));
  checks.Run();
}

TEST(Indexing, GradientsAgreeWithDifferences) {
  GradientChecks checks;
  const Array x = RandomArray({3, 4, 2});
  struct Case {
    const char* name;
    Array indices;
    int64_t axis;
  };
  const Case cases[] = {
      {"first axis, repeated", Make(DType::kI32, {4}, {2, 0, 2, 2}), 0},
      {"middle axis, a table", Make(DType::kI64, {2, 2}, {3, 0, 1, 3}), 1},
      {"last axis, a scalar", Make(DType::kU8, {}, {1}), 2},
      {"outside", Make(DType::kI32, {2}, {-1, 9}), 1},
      {"none", Make(DType::kI32, {0}, {}), 0},
  };
  for (const Case& c : cases) {
    const auto function = [&](const Values& v) { return Take(v[0], v[1], c.axis); };
    checks.Add(c.name, {x, c.indices}, function);
    checks.AddSecond(c.name, {x, c.indices}, [&](const Values& v) { return Square(function(v)); });
  }
  const auto add_to_slice = [](const Values& v) { return AddToSlice(v[0], v[1], {v[2], v[3]}); };
  const std::vector<Array> of_slice{RandomArray({4, 3}), RandomArray({2, 2}, 2),
                                    Array::Scalar<int32_t>(1), Array::Scalar<int32_t>(9)};
  checks.Add("add to slice", of_slice, add_to_slice);
  checks.AddSecond("add to slice", of_slice, add_to_slice);
  checks.Run();
  testing::ExpectAllCovered(IndexingOps(), checks.ops());
}

TEST(Indexing, ErrorsSayWhatWasMetAndWanted) {
  struct Wrong {
    std::function<Value(Value, Value)> build;  // from f32[2,3] and i32[2]
    const char* message;
  };
  const Wrong wrongs[] = {
      {[](Value x, Value) { return Take(x, x, 0); },
       "take: wants elements along axis 0 and integer indices, got f32[2,3] and f32[2,3]"},
      {[](Value x, Value i) { return Take(x, i, 2); }, "take: there is no axis 2 in f32[2,3]"},
      {[](Value x, Value i) { return Take(SliceAxis(x, 0, 0, 0), i, 0); },
       "take: wants elements along axis 0"},
      {[](Value x, Value) { return OneHot(x, 3, DType::kF32); },
       "one_hot: wants integers of less than 8 axes"},
  };
  for (const Wrong& wrong : wrongs) {
    Graph graph("wrong");
    const Value x = graph.Parameter({DType::kF32, {2, 3}}, "x"),
                i = graph.Parameter({DType::kI32, {2}}, "i");
    EXPECT_FALSE(wrong.build(x, i).valid()) << wrong.message;
    EXPECT_THAT(ErrorOf(graph), HasSubstr(wrong.message));
  }
}

}  // namespace
}  // namespace penstock::ir
