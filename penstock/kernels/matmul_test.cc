#include "penstock/kernels/matmul.h"

#include <memory>

#include <gtest/gtest.h>

#include "penstock/ir/gradients.h"
#include "penstock/ir/ops.h"
#include "penstock/kernels/testing/compare.h"

namespace penstock::kernels {
namespace matmul_test {

using base::DType;
using base::Shape;
using ir::Value;
using ir::Values;

struct Setting {
  const char* name;
  Shape lhs, rhs;
  ir::DotDimensions dimensions = {.lhs_contracting = {1}, .rhs_contracting = {0}};
};

// All supported positions of the axes of a product.
const Setting kSettings[] = {
    {"matrices", {64, 48}, {48, 80}},
    {"odd sizes", {37, 29}, {29, 53}},
    {"two pieces", {131, 127}, {127, 139}},
    {"wide, two pieces", {3, 521}, {521, 1021}},
    {"few columns", {4099, 67}, {67, 3}},
    {"one row", {1, 300}, {300, 17}},
    {"one column", {300, 17}, {17, 1}},
    {"rhs transposed", {33, 41}, {57, 41}, {.lhs_contracting = {1}, .rhs_contracting = {1}}},
    {"lhs transposed", {41, 33}, {41, 57}, {.lhs_contracting = {0}, .rhs_contracting = {0}}},
    {"both transposed", {41, 133}, {157, 41}, {.lhs_contracting = {0}, .rhs_contracting = {1}}},
    {"rows of two axes", {5, 7, 30}, {30, 20}, {.lhs_contracting = {2}, .rhs_contracting = {0}}},
    {"two sums", {20, 3, 11}, {11, 3, 24}, {.lhs_contracting = {2, 1}, .rhs_contracting = {0, 1}}},
    {"two sums that are one",
     {20, 3, 11},
     {3, 11, 24},
     {.lhs_contracting = {2, 1}, .rhs_contracting = {1, 0}}},
    {"batches",
     {6, 19, 13},
     {6, 13, 21},
     {.lhs_contracting = {2}, .rhs_contracting = {1}, .lhs_batch = {0}, .rhs_batch = {0}}},
    {"large batches, an odd number",
     {3, 129, 65},
     {3, 65, 130},
     {.lhs_contracting = {2}, .rhs_contracting = {1}, .lhs_batch = {0}, .rhs_batch = {0}}},
    {"many batches",
     {67, 32, 32},
     {67, 32, 33},
     {.lhs_contracting = {2}, .rhs_contracting = {1}, .lhs_batch = {0}, .rhs_batch = {0}}},
    {"batches, all transposed",
     {5, 13, 19},
     {5, 21, 13},
     {.lhs_contracting = {1}, .rhs_contracting = {2}, .lhs_batch = {0}, .rhs_batch = {0}}},
    {"batches of one",
     {1, 19, 13},
     {1, 13, 21},
     {.lhs_contracting = {2}, .rhs_contracting = {1}, .lhs_batch = {0}, .rhs_batch = {0}}},
    // Attention scores and weighted values, with [batch, sequence, head, feature].
    {"scores of heads",
     {3, 40, 5, 16},
     {3, 40, 5, 16},
     {.lhs_contracting = {3}, .rhs_contracting = {3}, .lhs_batch = {0, 2}, .rhs_batch = {0, 2}}},
    {"values of heads",
     {3, 5, 40, 40},
     {3, 40, 5, 16},
     {.lhs_contracting = {3}, .rhs_contracting = {1}, .lhs_batch = {0, 1}, .rhs_batch = {0, 2}}},
    {"batch axes in another order",
     {3, 5, 20, 16},
     {5, 3, 16, 20},
     {.lhs_contracting = {3}, .rhs_contracting = {2}, .lhs_batch = {0, 1}, .rhs_batch = {1, 0}}},
};

// The product and both gradients.
std::unique_ptr<ir::Graph> GraphOf(const Setting& s, DType dtype, int replicas = 1) {
  auto graph = std::make_unique<ir::Graph>("product", replicas);
  const Value a = graph->Parameter({dtype, s.lhs}, "a"), b = graph->Parameter({dtype, s.rhs}, "b");
  const Value y = ir::DotGeneral(a, b, s.dimensions);
  const Values gradients = ir::Gradients(y, {a, b}, graph->Parameter(y.type(), "cotangent"));
  graph->SetResults({y, gradients[0], gradients[1]});
  return graph;
}

TEST(Matmul, MatchesXla) {
  for (const Setting& s : kSettings) {
    SCOPED_TRACE(s.name);
    // Vectors in f32 are left to XLA. Tolerance: sums of hundreds of numbers of 24 bits.
    ExpectSameWithAndWithout(*GraphOf(s, DType::kF32), {.calls = -2, .tolerance = 1e-6});
  }
}

TEST(Matmul, MatchesXlaInBf16) {
  for (const Setting& s : kSettings) {
    SCOPED_TRACE(s.name);
    // One rounding of the result to 8 bits in both.
    ExpectSameWithAndWithout(*GraphOf(s, DType::kBF16), {.calls = -2, .tolerance = 1.0 / 128});
  }
}

// The products that the kernel exists for must not be left to XLA.
TEST(Matmul, HandlesProductsOfTrainingSteps) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    if (dtype == DType::kBF16 && !Uses(dnnl::cpu_isa::avx512_core)) continue;
    for (const Setting& s : {kSettings[0], Setting{"dense", {128, 512}, {512, 300}}}) {
      ExpectSameWithAndWithout(*GraphOf(s, dtype),
                               {.calls = 3, .tolerance = dtype == DType::kF32 ? 1e-6 : 1.0 / 128});
    }
  }
}

TEST(Matmul, Bf16IsRoundedOnce) {
  // 1 and 511 times 2^-9: accumulation in bf16 would lose the small terms.
  ir::Graph graph("sum");
  Values parts{ir::Splat(graph, {DType::kBF16, {8, 1}}, 1),
               ir::Splat(graph, {DType::kBF16, {8, 511}}, 1.0 / 512)};
  const Value a = ir::Concatenate(parts, 1);
  const Value b = ir::Splat(graph, {DType::kBF16, {512, 16}}, 1);
  ir::Graph wide("sum");
  graph.SetResults({ir::MatMul(a, b)});
  wide.SetResults({ir::Splat(wide, {DType::kBF16, {8, 16}}, 2)});  // 1 + 511 / 512 in 8 bits
  ExpectSame(graph, wide, {.calls = Uses(dnnl::cpu_isa::avx512_core) ? 1 : 0, .tolerance = 0});
}

TEST(Matmul, IsDeterministic) {
  // The same product twice in one program, in a way that prevents XLA from merging them.
  ir::Graph graph("twice"), zeros("zeros");
  for (ir::Graph* g : {&graph, &zeros}) {
    g->Parameter({DType::kF32, {257, 300}}, "a");
    g->Parameter({DType::kF32, {300, 129}}, "b");
  }
  const Value a = graph.parameters()[0], b = graph.parameters()[1];
  const Values twice = ir::For(2, {ir::MatMul(a, b), ir::SplatLike(ir::MatMul(a, b), 0), a, b},
                               [](ir::Graph&, Value, const Values& in) {
                                 const Value again = ir::MatMul(in[2], in[3]);
                                 return Values{again, again - in[0], in[2], in[3]};
                               });
  graph.SetResults({twice[1]});
  zeros.SetResults({ir::Splat(zeros, {DType::kF32, {257, 129}}, 0)});
  ExpectSame(graph, zeros, {.tolerance = 0});
}

// Eight replicas run the same kernel concurrently on their own threads.
TEST(Matmul, ConcurrentReplicasAgree) {
  const Setting s{"replicas", {130, 200}, {200, 140}};
  for (uint64_t seed = 0; seed < 5; ++seed) {
    ExpectSameWithAndWithout(*GraphOf(s, DType::kF32, /*replicas=*/8),
                             {.calls = 3, .tolerance = 1e-6, .seed = seed});
  }
}

TEST(Matmul, SecondDerivativesMatchXla) {
  ir::Graph graph("second");
  const Value a = graph.Parameter({DType::kF32, {30, 20}}, "a");
  const Value b = graph.Parameter({DType::kF32, {20, 40}}, "b");
  const Values first = ir::Gradients(ir::ReduceSum(ir::Tanh(ir::MatMul(a, b))), {a, b});
  graph.SetResults(ir::Gradients(
      ir::ReduceSum(ir::Square(first[0])) + ir::ReduceSum(ir::Square(first[1])), {a, b}));
  ExpectSameWithAndWithout(graph, {.tolerance = 1e-5});
}

TEST(Matmul, LeavesFasterCasesToXla) {
  ir::Graph graph("left");
  const auto input = [&](DType dtype, const Shape& shape) {
    return graph.Parameter({dtype, shape}, "x");
  };
  const DType f32 = DType::kF32, bf16 = DType::kBF16;
  graph.SetResults({
      ir::MatMul(input(bf16, {8, 8}), input(bf16, {8, 8})),      // tiny
      ir::MatMul(input(bf16, {64, 1}), input(bf16, {1, 64})),    // no reduction
      ir::MatMul(input(f32, {1, 256}), input(f32, {256, 64})),   // a vector
      ir::MatMul(input(f32, {8192, 64}), input(f32, {64, 96})),  // many rows
      ir::MatMul(input(DType::kF64, {32, 32}), input(DType::kF64, {32, 32})),
      ir::MatMul(input(f32, {32, 0}), input(f32, {0, 64})),
      ir::MatMul(input(bf16, {0, 32}), input(bf16, {32, 64})),
      // The batch is the only axis with contiguous elements.
      ir::DotGeneral(
          input(f32, {16, 16, 16}), input(f32, {16, 16, 16}),
          {.lhs_contracting = {1}, .rhs_contracting = {0}, .lhs_batch = {2}, .rhs_batch = {2}}),
      // The rows span two axes, with the contracted axis between them.
      ir::DotGeneral(input(f32, {16, 8, 16}), input(f32, {8, 16}),
                     {.lhs_contracting = {1}, .rhs_contracting = {0}}),
  });
  ExpectSameWithAndWithout(graph, {.calls = 0, .tolerance = 0});
}

TEST(Matmul, ReadsAxesAsStrides) {
  // Attention scores, [batch, sequence, head, feature] with batch and head as batch axes.
  const auto shape = ReadMatmul(
      DType::kF32, {2, 40, 3, 16}, {2, 50, 3, 16},
      {.lhs_contracting = {3}, .rhs_contracting = {3}, .lhs_batch = {0, 2}, .rhs_batch = {0, 2}});
  ASSERT_TRUE(shape.has_value());
  const auto steps = [](const MatmulAxis& axis) {
    return std::vector<int64_t>{axis.size, axis.of_lhs, axis.of_rhs, axis.of_out};
  };
  using Ints = std::vector<int64_t>;
  ASSERT_EQ(shape->batch.size(), 2u);
  EXPECT_EQ(steps(shape->batch[0]), (Ints{2, 40 * 48, 50 * 48, 3 * 2000}));
  EXPECT_EQ(steps(shape->batch[1]), (Ints{3, 16, 16, 2000}));
  EXPECT_EQ(steps(shape->rows), (Ints{40, 48, 0, 50}));
  EXPECT_EQ(steps(shape->columns), (Ints{50, 0, 48, 1}));
  EXPECT_EQ(steps(shape->depth), (Ints{16, 1, 1, 0}));
  EXPECT_EQ(shape->Multiplications(), 2 * 3 * 40 * 50 * 16);
}

}  // namespace matmul_test
}  // namespace penstock::kernels
