#include <gtest/gtest.h>

#include "penstock/ir/gradients.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/rewrite.h"
#include "penstock/kernels/kernels.h"
#include "penstock/kernels/testing/compare.h"

namespace penstock::kernels {
namespace small_dot_test {

using base::DType;
using base::Shape;
using ir::Value;
using ir::Values;

struct Setting {
  const char* name;
  Shape lhs, rhs;
  ir::DotDimensions dimensions;
};

const Setting kSettings[] = {
    {"matrices", {5, 4}, {4, 3}, {.lhs_contracting = {1}, .rhs_contracting = {0}}},
    {"transposed", {4, 5}, {3, 4}, {.lhs_contracting = {0}, .rhs_contracting = {1}}},
    {"batches",
     {2, 5, 4},
     {4, 2, 3},
     {.lhs_contracting = {2}, .rhs_contracting = {0}, .lhs_batch = {0}, .rhs_batch = {1}}},
    {"two sums", {3, 4, 5}, {5, 4, 2}, {.lhs_contracting = {2, 1}, .rhs_contracting = {0, 1}}},
    {"vectors", {7}, {7}, {.lhs_contracting = {0}, .rhs_contracting = {0}}},
    {"outer", {3}, {4}, {}},
    {"one", {1, 1}, {1, 1}, {.lhs_contracting = {1}, .rhs_contracting = {0}}},
};

// The product and both gradients.
void Fill(ir::Graph& graph, const Setting& s, DType dtype) {
  const Value a = graph.Parameter({dtype, s.lhs}, "a"), b = graph.Parameter({dtype, s.rhs}, "b");
  const Value y = ir::DotGeneral(a, b, s.dimensions);
  const Values gradients = ir::Gradients(y, {a, b}, graph.Parameter(y.type(), "cotangent"));
  graph.SetResults({y, gradients[0], gradients[1]});
}

int Dots(const ir::Graph& graph) {
  int dots = 0;
  for (int id = 0; id < graph.num_nodes(); ++id) {
    dots += ir::OpName(graph.node(id)) == "stablehlo.dot_general";
  }
  return dots;
}

TEST(SmallDot, MatchesXla) {
  const Lowering lowering = Lowering::For(TestClient());
  ASSERT_TRUE(lowering.uses_kernels()) << lowering.reason();
  for (const Setting& s : kSettings) {
    for (const DType dtype : {DType::kF32, DType::kF64}) {
      SCOPED_TRACE(s.name);
      ir::Graph graph("dot");
      Fill(graph, s, dtype);
      EXPECT_EQ(Dots(graph), 3);
      EXPECT_EQ(Dots(*lowering.Lower(graph)), 0);
      ExpectSameWithAndWithout(graph, {.calls = 0, .tolerance = 1e-6});
    }
  }
}

// Large products, and products in bf16. (In f32 a large product is a call of a kernel.)
TEST(SmallDot, LeavesLargeProductsToXla) {
  const Lowering lowering = Lowering::For(TestClient());
  const ir::DotDimensions dimensions{.lhs_contracting = {1}, .rhs_contracting = {0}};
  const Setting large{"large", {64, 64}, {64, 64}, dimensions},
      narrow{"", {2, 3}, {3, 2}, dimensions};
  for (const auto& [setting, dtype] :
       {std::pair(large, DType::kF64), std::pair(narrow, DType::kBF16)}) {
    ir::Graph graph("dot");
    Fill(graph, setting, dtype);
    EXPECT_EQ(Dots(*lowering.Lower(graph)), 3);
  }
}

}  // namespace small_dot_test
}  // namespace penstock::kernels
