#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/gradients.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/stablehlo.h"
#include "penstock/ir/testing/checks.h"

namespace penstock::ir {
namespace indexing_test {

using testing::Checks;
using ::testing::ContainsRegex;
using testing::ErrorOf;
using testing::GradientChecks;
using ::testing::HasSubstr;
using testing::Make;
using ::testing::Not;
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
  // A uint8 index addresses at most 256 rows and must not wrap around.
  const Value wide = checks.Input(RandomArray({300}, 3, -2, 2, DType::kF32));
  const Value bytes = checks.Input(Make(DType::kU8, {2}, {255, 0}));
  checks.Expect("bytes", Take(wide, bytes, 0) - Take(wide, Convert(bytes, DType::kI32), 0),
                Make(DType::kF32, {2}, {0, 0}));
  checks.Run();
}

TEST(Indexing, TakesAlongAxisWithSeparateIndices) {
  Checks checks;
  const Value x = checks.Input(Make(DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6}));
  const Value columns = checks.Input(Make(DType::kI32, {2, 2}, {2, 0, 1, 1}));
  checks.Expect("columns", TakeAlongAxis(x, columns, 1), Make(DType::kF32, {2, 2}, {3, 1, 5, 5}));
  const Value rows = checks.Input(Make(DType::kU8, {1, 3}, {1, 0, 1}));
  checks.Expect("rows", TakeAlongAxis(x, rows, 0), Make(DType::kF32, {1, 3}, {4, 2, 6}));
  const Value outside = checks.Input(Make(DType::kI64, {1, 2}, {-4, 9}));
  checks.Expect("clamped, one row of indices", TakeAlongAxis(x, outside, -1),
                Make(DType::kF32, {2, 2}, {1, 3, 4, 6}));
  checks.Expect("one row of x", TakeAlongAxis(SliceAxis(x, 0, 0, 1), columns, 1),
                Make(DType::kF32, {2, 2}, {3, 1, 2, 2}));
  const Value vector = checks.Input(Make(DType::kI32, {4}, {0, 2, 1, 2}));
  const Array numbers = Make(DType::kF64, {3}, {7, 8, 9});
  const Value none = SliceAxis(x, 0, 0, 0), no_columns = SliceAxis(columns, 0, 0, 0);
  checks.Expect("of no rows", TakeAlongAxis(none, no_columns, 1), Make(DType::kF32, {0, 2}, {}));
  checks.Expect("of no rows by one row of indices",
                TakeAlongAxis(none, SliceAxis(columns, 0, 0, 1), 1), Make(DType::kF32, {0, 2}, {}));
  checks.Expect("no columns", TakeAlongAxis(x, SliceAxis(columns, 1, 0, 0), 1),
                Make(DType::kF32, {2, 0}, {}));
  checks.Expect("of a vector", TakeAlongAxis(checks.Input(numbers), vector, 0),
                Make(DType::kF64, {4}, {7, 9, 8, 9}));
  checks.Expect("none", TakeAlongAxis(x, SliceAxis(columns, 1, 0, 0), 1),
                Make(DType::kF32, {2, 0}, {}));
  checks.Run();
}

// Windows [2, 1] of a 4 x 3 matrix at (row, column), clamped; the column axis is collapsed.
const GatherDimensions kWindows{.offset_dims = {1},
                                .collapsed_slice_dims = {1},
                                .start_index_map = {1, 0},
                                .index_vector_dim = 1};
// The corresponding dimensions for scatter.
const ScatterDimensions kUpdates{.update_window_dims = {1},
                                 .inserted_window_dims = {1},
                                 .scatter_dims_to_operand_dims = {1, 0},
                                 .index_vector_dim = 1};

TEST(Indexing, GathersWindows) {
  Checks checks;
  std::vector<double> numbers(12);
  for (int i = 0; i < 12; ++i) numbers[i] = i;
  const Value x = checks.Input(Make(DType::kF32, {4, 3}, numbers));
  // (column, row); rows are clamped to 2, the last one at which a window fits.
  const Value at = checks.Input(Make(DType::kI32, {3, 2}, {0, 1, 2, 9, -1, -1}));
  checks.Expect("windows", Gather(x, at, kWindows, {2, 1}),
                Make(DType::kF32, {3, 2}, {3, 6, 8, 11, 0, 3}));
  // Index components on the first axis; offset dimensions on the first axis of the result.
  checks.Expect("turned",
                Gather(x, Transpose(at, {1, 0}),
                       {.offset_dims = {0},
                        .collapsed_slice_dims = {1},
                        .start_index_map = {1, 0},
                        .index_vector_dim = 0},
                       {2, 1}),
                Make(DType::kF32, {2, 3}, {3, 8, 0, 6, 11, 3}));
  checks.Run();
}

TEST(Indexing, ScattersAndDropsOutOfRangeUpdates) {
  Checks checks;
  const Array tens = Make(DType::kF32, {4, 3}, std::vector<double>(12, 10));
  const Value x = checks.Input(tens);
  // The third is partly out of bounds; the fourth overlaps the first.
  const Value at = checks.Input(Make(DType::kI32, {4, 2}, {0, 1, 2, 2, 1, 3, 0, 2}));
  const Value updates = checks.Input(Make(DType::kF32, {4, 2}, {1, 2, 3, 4, 5, 6, 20, 8}));
  const auto put = [&](ScatterReducer reducer) {
    return Scatter(x, at, updates, reducer, kUpdates);
  };
  const auto want = [](double a, double b, double c, double d, double e) {
    return Make(DType::kF32, {4, 3}, {10, 10, 10, a, 10, 10, b, 10, d, c, 10, e});
  };
  checks.Expect("replace", put(ScatterReducer::kReplace), want(1, 20, 8, 3, 4));
  checks.Expect("sum", put(ScatterReducer::kSum), want(11, 32, 18, 13, 14));
  checks.Expect("product", put(ScatterReducer::kProduct), want(10, 400, 80, 30, 40));
  checks.Expect("minimum", put(ScatterReducer::kMin), want(1, 2, 8, 3, 4));
  checks.Expect("maximum", put(ScatterReducer::kMax), want(10, 20, 10, 10, 10));
  // 1 + 300 * 2^-8 is 2.17; accumulated in bf16, it would remain 1.
  const Value one = checks.Input(Make(DType::kBF16, {1}, {1}));
  const Value nowhere = checks.Input(Make(DType::kI32, {300}, std::vector<double>(300)));
  const Value small = checks.Input(Make(DType::kBF16, {300}, std::vector<double>(300, 1 / 256.0)));
  checks.Expect("many small",
                Scatter(one, nowhere, small, ScatterReducer::kSum,
                        {.inserted_window_dims = {0},
                         .scatter_dims_to_operand_dims = {0},
                         .index_vector_dim = 1}),
                Make(DType::kBF16, {1}, {2.171875}));
  checks.Run();
}

TEST(Indexing, LookupInLargeTableNeedsNoProduct) {
  Graph graph("embedding");
  const Value table = graph.Parameter({DType::kF32, {50000, 8}}, "table");
  const Value ids = graph.Parameter({DType::kI32, {4, 7}}, "ids");
  const Value twice = Take(table, ids, 0) * Take(table, ids + 1.0, 0);
  graph.SetResults(Gradients(ReduceSum(Sin(twice)), {table}));
  const auto program = PrintStableHlo(graph);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT(program->text, Not(HasSubstr("dot_general")));
  // Both lookups scatter into one table; there is no sum of two tables.
  EXPECT_THAT(program->text, Not(ContainsRegex("stablehlo.add [^\n]*tensor<50000x8xf32>")));
}

TEST(Indexing, OneHotIsZeroForOutOfRangeIndices) {
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

TEST(Indexing, GradientsMatchFiniteDifferences) {
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
  const auto along = [](const Values& v) { return TakeAlongAxis(v[0], v[1], 1); };
  const std::vector<Array> of_along{RandomArray({2, 3, 2}, 6),
                                    Make(DType::kI32, {2, 2, 1}, {2, 2, -1, 7})};
  checks.Add("along an axis", of_along, along);
  checks.AddSecond("along an axis", of_along, along);
  const auto windows = [](const Values& v) { return Gather(v[0], v[1], kWindows, {2, 1}); };
  const std::vector<Array> of_windows{RandomArray({4, 3}, 6),
                                      Make(DType::kI32, {4, 2}, {0, 1, 2, 9, -1, -1, 0, 2})};
  checks.Add("windows", of_windows, windows);
  checks.AddSecond("windows", of_windows, windows);
  for (const ScatterReducer reducer :
       {ScatterReducer::kReplace, ScatterReducer::kSum, ScatterReducer::kProduct,
        ScatterReducer::kMin, ScatterReducer::kMax}) {
    const bool unique = reducer == ScatterReducer::kProduct;
    const auto scatter = [=](const Values& v) {
      return Scatter(v[0], v[1], v[2], reducer, kUpdates, unique);
    };
    // Some are out of bounds; some overlap, where that is allowed.
    const std::vector<double> at{0, 1, 2, 2, 1, 3, 0, unique ? 9.0 : 2.0};
    const std::vector<Array> inputs{RandomArray({4, 3}, 6), Make(DType::kI32, {4, 2}, at),
                                    RandomArray({4, 2}, 7)};
    checks.Add("scatter", inputs, scatter);
    checks.AddSecond("scatter", inputs, scatter);
  }
  const auto add_to_slice = [](const Values& v) { return AddToSlice(v[0], v[1], {v[2], v[3]}); };
  const std::vector<Array> of_slice{RandomArray({4, 3}), RandomArray({2, 2}, 2),
                                    Array::Scalar<int32_t>(1), Array::Scalar<int32_t>(9)};
  checks.Add("add to slice", of_slice, add_to_slice);
  checks.AddSecond("add to slice", of_slice, add_to_slice);
  checks.Run();
  testing::ExpectAllCovered(IndexingOps(), checks.ops());
}

TEST(Indexing, ErrorsStateActualAndExpected) {
  struct Wrong {
    std::function<Value(Value, Value)> build;  // inputs: f32[2,3] and i32[2]
    const char* message;
  };
  const Wrong wrongs[] = {
      {[](Value x, Value) { return Take(x, x, 0); },
       "take: expects elements along axis 0 and integer indices, got f32[2,3] and f32[2,3]"},
      {[](Value x, Value i) { return Take(x, i, 2); }, "take: there is no axis 2 in f32[2,3]"},
      {[](Value x, Value i) { return Take(SliceAxis(x, 0, 0, 0), i, 0); },
       "take: expects elements along axis 0"},
      {[](Value x, Value i) { return TakeAlongAxis(x, i, 1); },
       "take_along_axis: but for axis 1 the extents must be the same (or 1), got f32[2,3] and "
       "i32[2]"},
      {[](Value x, Value i) {
         return Gather(x, i,
                       {.offset_dims = {0},
                        .collapsed_slice_dims = {0},
                        .start_index_map = {0},
                        .index_vector_dim = 1},
                       {2, 3});
       },
       "gather: windows of [2, 3] without axes [0], put on axes [0] of the result, do not fit "
       "f32[2,3] and i32[2]"},
      {[](Value x, Value i) {
         return Gather(x, i, {.start_index_map = {0}, .index_vector_dim = 0}, {1, 1});
       },
       "gather: an index has 2 components, which axes [0] of f32[2,3] do not name once"},
      {[](Value x, Value i) {
         return Scatter(x, i, x, ScatterReducer::kSum,
                        {.update_window_dims = {1},
                         .inserted_window_dims = {0},
                         .scatter_dims_to_operand_dims = {0},
                         .index_vector_dim = 2});
       },
       "scatter_add: there is no axis 2 in i32[2] for an index's components"},
      {[](Value x, Value i) {
         return Scatter(x, i, SliceAxis(x, 0, 0, 1), ScatterReducer::kMax,
                        {.update_window_dims = {1},
                         .inserted_window_dims = {0},
                         .scatter_dims_to_operand_dims = {0},
                         .index_vector_dim = 1});
       },
       "scatter: expects one update of x's type for each index, got f32[2,3], i32[2] and f32[1,3]"},
      {[](Value x, Value i) {
         const Value y = Scatter(x, i, x, ScatterReducer::kProduct,
                                 {.update_window_dims = {1},
                                  .inserted_window_dims = {0},
                                  .scatter_dims_to_operand_dims = {0},
                                  .index_vector_dim = 1});
         return Gradients(ReduceSum(y), {x})[0];
       },
       "scatter: a product has a gradient only where indices are unique, and declared as such"},
      {[](Value x, Value) { return OneHot(x, 3, DType::kF32); },
       "one_hot: expects integers of less than 8 axes"},
  };
  for (const Wrong& wrong : wrongs) {
    Graph graph("wrong");
    const Value x = graph.Parameter({DType::kF32, {2, 3}}, "x"),
                i = graph.Parameter({DType::kI32, {2}}, "i");
    EXPECT_FALSE(wrong.build(x, i).valid()) << wrong.message;
    EXPECT_THAT(ErrorOf(graph), HasSubstr(wrong.message));
  }
}

}  // namespace indexing_test
}  // namespace penstock::ir
