#include "penstock/kernels/call_flops.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "penstock/ir/flops.h"
#include "penstock/ir/gradients.h"
#include "penstock/ir/ops.h"
#include "penstock/kernels/testing/compare.h"

namespace penstock::kernels {
namespace call_flops_test {

using base::DType;
using ir::Value;
using ir::Values;

struct Counted {
  double calls, total;     // with kernels: those of the calls, and all of the program
  double without_kernels;  // XLA's count of the same graph without kernels
  int64_t number = 0;
};

Counted Count(const ir::Graph& graph) {
  const auto cost = [](const ir::Program& program) {
    const auto executable = TestClient().Compile(program);
    EXPECT_TRUE(executable.ok()) << executable.status();
    return (*executable)->Cost()->flops;
  };
  const ir::Program with = *TestLowering().Print(graph);
  const CallFlops calls = FlopsOfCalls(with.text);
  EXPECT_GT(calls.number, 0) << with.text;
  return {.calls = calls.flops,
          .total = cost(with) + static_cast<double>(calls.number) + calls.flops,
          .without_kernels = cost(*ir::PrintStableHlo(graph)),
          .number = calls.number};
}

Value Parameter(ir::Graph& graph, std::vector<int64_t> dims, const char* name) {
  return graph.Parameter({DType::kF32, base::Shape(dims)}, name);
}

TEST(CallFlops, OfProductAre2MNK) {
  ir::Graph graph("product");
  const Value a = Parameter(graph, {96, 200}, "a"), b = Parameter(graph, {200, 64}, "b");
  graph.SetResults({ir::MatMul(a, b)});
  const Counted got = Count(graph);
  EXPECT_EQ(got.calls, 2.0 * 96 * 200 * 64);
  EXPECT_EQ(got.calls, ir::Flops(graph));
  EXPECT_EQ(got.total, got.without_kernels);
}

TEST(CallFlops, OfBatchedProductWithTransposedSidesAreThoseOfEachProduct) {
  ir::Graph graph("products");
  const Value a = Parameter(graph, {6, 80, 32}, "a"), b = Parameter(graph, {6, 80, 48}, "b");
  graph.SetResults({ir::DotGeneral(
      a, b, {.lhs_contracting = {1}, .rhs_contracting = {1}, .lhs_batch = {0}, .rhs_batch = {0}})});
  const Counted got = Count(graph);
  EXPECT_EQ(got.calls, 2.0 * 6 * 32 * 80 * 48);
  EXPECT_EQ(got.total, got.without_kernels);
}

TEST(CallFlops, OfConvolutionAreTheFormulaAndOfItsGradientsTheSame) {
  ir::Graph graph("convolution");
  const Value x = Parameter(graph, {4, 18, 18, 16}, "x"), w = Parameter(graph, {3, 3, 16, 32}, "w");
  const Value y = ir::Convolution(x, w);
  constexpr double kOnce = 2.0 * 4 * 16 * 16 * 3 * 3 * 16 * 32;
  graph.SetResults({y});
  const Counted forward = Count(graph);
  EXPECT_EQ(forward.calls, kOnce);
  EXPECT_EQ(forward.total, forward.without_kernels) << "no padding: XLA counts every position, too";
  const Values gradients = ir::Gradients(ir::ReduceSum(ir::Square(y)), {x, w});
  graph.SetResults({gradients[0], gradients[1]});
  const Counted all = Count(graph);
  EXPECT_EQ(all.calls, 3 * kOnce);
  EXPECT_EQ(all.calls, ir::Flops(graph));
  // XLA leaves out the positions in the padding, which only the input's gradient has here.
  EXPECT_NEAR(all.total / all.without_kernels, 1, 0.1);
}

TEST(CallFlops, OfGroupedAndBiasedConvolutions) {
  ir::Graph graph("convolution");
  const Value x = Parameter(graph, {4, 16, 16, 32}, "x"), w = Parameter(graph, {3, 3, 1, 32}, "w");
  graph.SetResults(
      {ir::Convolution(x, w, {.padding = {{1, 1}, {1, 1}}, .feature_group_count = 32})});
  EXPECT_EQ(Count(graph).calls, 2.0 * 4 * 16 * 16 * 3 * 3 * 32);
  const Value full = Parameter(graph, {3, 3, 32, 16}, "k"), bias = Parameter(graph, {16}, "b");
  const Value y = ir::Convolution(x, full, {.padding = {{1, 1}, {1, 1}}});
  graph.SetResults({y + ir::BroadcastInDim(bias, y.shape(), {3})});
  const double elements = 4 * 16 * 16 * 16;
  EXPECT_EQ(Count(graph).calls, elements * (2 * 3 * 3 * 32 + 1));
}

// Elementwise kernels: near XLA's count of the same formula, which its simplifications change.
TEST(CallFlops, OfElementwiseKernelsAreNearTheCompilersCount) {
  ir::Graph graph("norm");
  const Value x = Parameter(graph, {8, 16, 16, 32}, "x"), scale = Parameter(graph, {32}, "scale"),
              offset = Parameter(graph, {32}, "offset");
  const Value y = ir::Relu(ir::BatchNormTraining(x, scale, offset, Value()).y);
  const Value pooled = ir::ReduceWindow(y, ir::WindowReducer::kMax,
                                        {.size = {1, 2, 2, 1},
                                         .strides = {1, 2, 2, 1},
                                         .dilation = {1, 1, 1, 1},
                                         .padding = {{0, 0}, {0, 0}, {0, 0}, {0, 0}}});
  graph.SetResults(ir::Gradients(ir::ReduceSum(ir::Square(pooled)), {x, scale, offset}));
  const Counted got = Count(graph);
  EXPECT_GT(got.calls, 8.0 * 16 * 16 * 32 * 15);
  EXPECT_NEAR(got.total / got.without_kernels, 1, 0.5);
}

TEST(CallFlops, CountBodyOfLoopOnceAsTheCompilerDoes) {
  ir::Graph graph("loop");
  const Value a = Parameter(graph, {64, 64}, "a");
  const Value zero = ir::Splat(graph, {DType::kI32, {}}, 0);
  const Values end = ir::While(
      {zero, a},
      [](ir::Graph& inside, const Values& at) {
        return ir::Less(at[0], ir::Splat(inside, {DType::kI32, {}}, 10));
      },
      [](ir::Graph&, const Values& at) {
        return Values{at[0] + 1.0, ir::MatMul(at[1], at[1])};
      });
  graph.SetResults({end[1]});
  EXPECT_EQ(Count(graph).calls, 2.0 * 64 * 64 * 64);
}

// Every kernel that a program may call has a cost; one that only copies has none.
TEST(CallFlops, AreKnownOfEveryKernel) {
  for (const std::string& name : KernelNames()) {
    const std::string text = absl::StrCat(
        "%0 = \"stablehlo.custom_call\"(%1) {backend_config = {ranges = array<i64: 0, 0, 8>, size "
        "= array<i64: 2, 2>}, call_target_name = \"",
        name, "\"} : (", "tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>, tensor<2xf32>",
        ") -> tensor<1x2x2x2xf32> loc(#x)\n");
    const double flops = FlopsOfCalls(text).flops;
    EXPECT_EQ(flops > 0, name != "penstock.in_memory") << name;
  }
}

TEST(CallFlops, OfTextThatIsNoProgramAreZero) {
  for (const char* text :
       {"", "\"stablehlo.custom_call\"(", "\"stablehlo.custom_call\"() {call_target_name = \"a",
        "\"stablehlo.custom_call\"() {call_target_name = \"penstock.matmul\"} : () -> ()",
        "\"stablehlo.custom_call\"() {call_target_name = \"penstock.matmul\"} : (tensor<",
        "\"stablehlo.custom_call\"() {call_target_name = \"penstock.convolution\"} : (tensor<f32>, "
        "tensor<2xf32>) -> tensor<f32>"}) {
    EXPECT_EQ(FlopsOfCalls(text).flops, 0) << text;
  }
}

}  // namespace call_flops_test
}  // namespace penstock::kernels
