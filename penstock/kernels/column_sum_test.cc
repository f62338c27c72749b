#include "penstock/kernels/column_sum.h"

#include <gtest/gtest.h>

#include "penstock/ir/ops.h"
#include "penstock/kernels/kernels.h"
#include "penstock/kernels/testing/compare.h"

namespace penstock::kernels {
namespace column_sum_test {

using base::DType;
using base::Shape;
using ir::Value;

// A sum over all but the last axis of a value that has another consumer.
void Fill(ir::Graph& graph, const Shape& shape, DType dtype) {
  const Value y = ir::Tanh(graph.Parameter({dtype, shape}, "x"));
  ir::Axes leading;
  for (int64_t axis = 0; axis + 1 < y.rank(); ++axis) leading.push_back(axis);
  graph.SetResults({ir::ReduceSum(y, leading), y});
}

TEST(ColumnSum, MatchesXla) {
  // Numbers of features that fill vectors, do not, or are 1; rows that divide evenly among threads
  // or do not.
  for (const Shape& shape : {Shape{16, 14, 14, 64}, Shape{7, 31, 33, 5}, Shape{40000, 1},
                             Shape{129, 17, 19}, Shape{3, 70, 160}}) {
    SCOPED_TRACE(shape.ToString());
    ir::Graph graph("sum");
    Fill(graph, shape, DType::kF32);
    ExpectSameWithAndWithout(graph, {.calls = 1, .tolerance = 1e-5});
    ir::Graph narrow("sum");
    Fill(narrow, shape, DType::kBF16);
    // One rounding of a sum to 8 bits in both; XLA may also round y differently.
    ExpectSameWithAndWithout(narrow, {.calls = 1, .tolerance = 1.0 / 64});
  }
}

TEST(ColumnSum, ConcurrentReplicasAgree) {
  ir::Graph graph("sum", /*num_replicas=*/8);
  Fill(graph, {16, 14, 14, 64}, DType::kF32);
  ExpectSameWithAndWithout(graph, {.calls = 1, .tolerance = 1e-5});
}

// A profile measures the operation in isolation.
TEST(ColumnSum, SumsAProgramParameter) {
  ir::Graph graph("sum");
  graph.SetResults({ir::ReduceSum(graph.Parameter({DType::kF32, {64, 32, 32}}, "x"), {0, 1})});
  ExpectSameWithAndWithout(graph, {.calls = 1, .tolerance = 1e-5});
}

TEST(ColumnSum, LeavesFasterCasesToXla) {
  ir::Graph graph("sums");
  const Value x = graph.Parameter({DType::kF32, {64, 32, 32}}, "x");
  const Value small = graph.Parameter({DType::kF32, {8, 8}}, "small");
  const Value wide = graph.Parameter({DType::kF64, {64, 32, 32}}, "wide");
  graph.SetResults({ir::ReduceSum(ir::Exp(x), {0, 1}),  // computed in the same loop
                    ir::ReduceSum(x, {1, 2}), ir::ReduceSum(x), ir::ReduceMax(x, {0, 1}),
                    ir::ReduceSum(small, {0}), small, ir::ReduceSum(wide, {0, 1}), wide});
  ExpectSameWithAndWithout(graph, {.calls = 0, .tolerance = 0});
}

}  // namespace column_sum_test
}  // namespace penstock::kernels
