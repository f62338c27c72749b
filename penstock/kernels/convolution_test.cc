#include "penstock/kernels/convolution.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <oneapi/dnnl/dnnl.hpp>

#include "penstock/ir/gradients.h"
#include "penstock/ir/ops.h"
#include "penstock/kernels/testing/compare.h"

namespace penstock::kernels {
namespace convolution_test {

using base::DType;
using base::Shape;
using ir::Value;
using ir::Values;

struct Setting {
  const char* name;
  Shape input, kernel;
  ir::ConvolutionOptions options = {};
};

std::vector<Setting> Settings() {
  return {
      {"plain", {4, 9, 7, 16}, {3, 3, 16, 32}},
      {"same padding", {5, 8, 8, 16}, {3, 3, 16, 16}, {.padding = {{1, 1}, {1, 1}}}},
      {"one pixel, one filter", {3, 1, 1, 1}, {1, 1, 1, 1}},
      {"first layer", {4, 17, 19, 3}, {3, 3, 3, 16}, {.padding = {{1, 1}, {1, 1}}}},
      {"odd channels", {2, 6, 5, 5}, {3, 2, 5, 7}, {.padding = {{1, 0}, {0, 1}}}},
      {"tiles", {7, 14, 13, 32}, {3, 3, 32, 48}, {.padding = {{1, 1}, {1, 1}}}},
      {"tiles, padded unevenly", {8, 11, 16, 48}, {3, 3, 48, 16}, {.padding = {{0, 1}, {2, 0}}}},
      {"tiles, not padded", {9, 18, 10, 16}, {3, 3, 16, 64}},
      {"tiles, padded to the last", {5, 10, 10, 16}, {3, 3, 16, 32}, {.padding = {{2, 2}, {2, 2}}}},
      {"tiles, many features", {6, 8, 7, 96}, {3, 3, 96, 160}, {.padding = {{1, 1}, {1, 1}}}},
      {"stride", {3, 9, 10, 8}, {3, 3, 8, 16}, {.strides = {2, 2}, .padding = {{0, 1}, {1, 1}}}},
      {"stride that leaves pixels", {3, 10, 11, 16}, {3, 3, 16, 16}, {.strides = {3, 2}}},
      {"projection", {4, 8, 8, 16}, {1, 1, 16, 32}, {.strides = {2, 2}}},
      {"pixels", {6, 9, 10, 256}, {1, 1, 256, 320}},
      {"pixels, strided", {4, 9, 11, 640}, {1, 1, 640, 128}, {.strides = {2, 3}}},
      {"stem", {2, 33, 31, 3}, {7, 7, 3, 32}, {.strides = {2, 2}, .padding = {{3, 3}, {2, 3}}}},
      {"dilation",
       {2, 12, 13, 16},
       {3, 3, 16, 16},
       {.padding = {{2, 2}, {3, 3}}, .rhs_dilation = {2, 3}}},
      {"dilation and stride",
       {2, 13, 12, 8},
       {3, 2, 8, 8},
       {.strides = {2, 1}, .padding = {{2, 1}, {1, 1}}, .rhs_dilation = {2, 2}}},
      {"groups",
       {3, 8, 8, 32},
       {3, 3, 8, 64},
       {.padding = {{1, 1}, {1, 1}}, .feature_group_count = 4}},
      {"odd groups", {2, 6, 6, 6}, {3, 3, 2, 9}, {.feature_group_count = 3}},
      {"depthwise",
       {3, 9, 9, 32},
       {3, 3, 1, 32},
       {.padding = {{1, 1}, {1, 1}}, .feature_group_count = 32}},
      {"depthwise, odd",
       {2, 9, 8, 19},
       {5, 3, 1, 19},
       {.strides = {2, 2}, .padding = {{2, 2}, {1, 1}}, .feature_group_count = 19}},
      {"depthwise, multiplied", {2, 7, 7, 16}, {3, 3, 1, 32}, {.feature_group_count = 16}},
      {"depthwise, dilated",
       {2, 11, 11, 16},
       {3, 3, 1, 16},
       {.padding = {{2, 2}, {2, 2}}, .rhs_dilation = {2, 2}, .feature_group_count = 16}},
      {"kernel as large as the image", {4, 6, 6, 16}, {6, 6, 16, 10}},
  };
}

// The result and both gradients of the convolution.
std::unique_ptr<ir::Graph> GraphOf(const Setting& s, DType dtype, int replicas = 1) {
  auto graph = std::make_unique<ir::Graph>("convolution", replicas);
  const Value x = graph->Parameter({dtype, s.input}, "x");
  const Value w = graph->Parameter({dtype, s.kernel}, "w");
  const Value y = ir::Convolution(x, w, s.options);
  const Value cotangent = graph->Parameter(y.type(), "cotangent");
  const Values gradients = ir::Gradients(y, {x, w}, cotangent);
  graph->SetResults({y, gradients[0], gradients[1]});
  return graph;
}

TEST(ConvolutionKernels, MatchXla) {
  for (const Setting& s : Settings()) {
    SCOPED_TRACE(s.name);
    ExpectSameWithAndWithout(*GraphOf(s, DType::kF32), {.tolerance = 2e-5});
  }
}

TEST(ConvolutionKernels, MatchXlaInBf16) {
  for (const Setting& s : Settings()) {
    SCOPED_TRACE(s.name);
    // One rounding of the result to 8 bits in both.
    ExpectSameWithAndWithout(*GraphOf(s, DType::kBF16), {.calls = -2, .tolerance = 1.0 / 64});
  }
}

// The bias is fused into the convolution's call; there remain one call for the result and one for
// each of its gradients.
TEST(ConvolutionKernels, FuseBias) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    for (const Setting& s : Settings()) {
      if (s.input.num_elements() > 12000) continue;
      SCOPED_TRACE(s.name);
      ir::Graph graph("biased");
      const Value x = graph.Parameter({dtype, s.input}, "x");
      const Value w = graph.Parameter({dtype, s.kernel}, "w");
      const Value bias = graph.Parameter({dtype, {s.kernel.dim(3)}}, "bias");
      const Value y = bias + ir::Convolution(x, w, s.options);
      const Value cotangent = graph.Parameter(y.type(), "cotangent");
      Values results = ir::Gradients(y, {x, w}, cotangent);
      results.push_back(y);
      graph.SetResults(results);
      ExpectSameWithAndWithout(graph, {.calls = dtype == DType::kF32 ? 3 : -2,
                                       .tolerance = dtype == DType::kF32 ? 2e-5 : 1.0 / 64});
    }
  }
}

// A kernel as HWIO in the order of OIHW.
base::Array FiltersFirst(const base::Array& kernel) {
  const Shape& from = kernel.shape();
  base::Array to =
      base::Array::Uninitialized(DType::kF32, {from.dim(3), from.dim(2), from.dim(0), from.dim(1)});
  const int64_t pixels = from.dim(0) * from.dim(1), channels = from.dim(2), filters = from.dim(3);
  for (int64_t p = 0; p < pixels; ++p) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t f = 0; f < filters; ++f) {
        to.mutable_data<float>()[(f * channels + c) * pixels + p] =
            kernel.data<float>()[(p * channels + c) * filters + f];
      }
    }
  }
  return to;
}

// The result, with a bias or without, and all gradients of a convolution in f32 or bf16, with the
// kernel `w` as it is or, with `filters_first`, transposed.
ir::Program WithBias(const Setting& s, DType dtype, bool bias, bool filters_first) {
  ir::Graph graph("biased");
  const auto parameter = [&](const Shape& shape, const char* name) {
    return graph.Parameter({DType::kF32, shape}, name);
  };
  const Shape& k = s.kernel;
  const Value x = parameter(s.input, "x");
  const Value w = parameter(filters_first ? Shape{k.dim(3), k.dim(2), k.dim(0), k.dim(1)} : k, "w");
  const Value narrow = ir::Convert(w, dtype);
  const Value kernel = filters_first ? ir::Transpose(narrow, {2, 3, 1, 0}) : narrow;
  Value y = ir::Convolution(ir::Convert(x, dtype), kernel, s.options);
  if (bias) y = y + ir::Convert(parameter({k.dim(3)}, "bias"), dtype);
  const Value cotangent = ir::Convert(parameter(y.shape(), "cotangent"), dtype);
  Values results = ir::Gradients(y, {x, w}, cotangent);
  results.push_back(ir::Convert(y, DType::kF32));
  graph.SetResults(results);
  return *TestLowering().Print(graph);
}

// Kernels in PyTorch's order are read and written where they are, with the same bits, except where
// the other order is faster.
TEST(ConvolutionKernels, ReadAndWriteKernelsWithFiltersFirst) {
  for (const Setting& s : Settings()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const bool bias = s.kernel.dim(0) != 1;
      SCOPED_TRACE(absl::StrCat(s.name, " ", base::DTypeName(dtype)));
      const ir::Program plain = WithBias(s, dtype, bias, false);
      const ir::Program turned = WithBias(s, dtype, bias, true);
      std::vector<base::Array> arguments;
      std::mt19937 random(7);
      for (const ir::TensorType& type : plain.parameters) {
        arguments.push_back(base::Array::Uninitialized(type.dtype, type.shape));
        float* const data = arguments.back().mutable_data<float>();
        std::generate_n(data, arguments.back().num_elements(),
                        [&] { return static_cast<float>(random()) / (1u << 31) - 1; });
      }
      const auto want = RunProgram(plain, arguments);
      arguments[1] = FiltersFirst(arguments[1]);
      const auto got = RunProgram(turned, arguments);
      ASSERT_TRUE(want.ok()) << want.status();
      ASSERT_TRUE(got.ok()) << got.status();
      for (size_t i = 0; i < want->size(); ++i) {
        // Which sums XLA rounds to bf16 between depends on the order.
        if (i == 1 && plain.text.find("convolution_kernel_gradient") == std::string::npos) continue;
        const base::Array expected = i == 1 ? FiltersFirst((*want)[i]) : (*want)[i];
        ASSERT_EQ(expected.num_bytes(), (*got)[i].num_bytes());
        EXPECT_EQ(
            std::memcmp(expected.raw(), (*got)[i].raw(), static_cast<size_t>(expected.num_bytes())),
            0)
            << "result " << i;
      }
      if (dtype == DType::kF32 && s.name != absl::string_view("pixels") &&
          s.name != absl::string_view("pixels, strided")) {
        EXPECT_EQ(turned.text.find("stablehlo.transpose"), std::string::npos) << turned.text;
      }
    }
  }
}

// Another consumer of the gradient gets it in its own order.
TEST(ConvolutionKernels, WriteGradientAsHwioForOtherConsumers) {
  ir::Graph graph("both");
  const Value x = graph.Parameter({DType::kF32, {2, 8, 8, 16}}, "x");
  const Value w = graph.Parameter({DType::kF32, {3, 3, 16, 32}}, "w");
  const Value y = ir::Convolution(x, w, {});
  const Value gradient = ir::Gradients(y, {w}, graph.Parameter(y.type(), "cotangent"))[0];
  graph.SetResults({ir::Tanh(gradient), ir::Transpose(gradient, {3, 2, 0, 1})});
  ExpectSameWithAndWithout(graph, {.calls = 1, .tolerance = 2e-5});
}

// A consumer of the convolution without the bias must not get the bias.
TEST(ConvolutionKernels, DoNotFuseBiasWithOtherConsumers) {
  ir::Graph graph("read twice");
  const Value x = graph.Parameter({DType::kF32, {2, 8, 8, 16}}, "x");
  const Value w = graph.Parameter({DType::kF32, {3, 3, 16, 16}}, "w");
  const Value bias = graph.Parameter({DType::kF32, {16}}, "bias");
  const Value y = ir::Convolution(x, w, {});
  graph.SetResults({y + bias, ir::Tanh(y)});
  ExpectSameWithAndWithout(graph, {.calls = 1, .tolerance = 2e-5});
}

TEST(ConvolutionKernels, SecondDerivativesMatchXla) {
  for (const Setting& s : Settings()) {
    if (s.input.num_elements() > 2000) continue;
    SCOPED_TRACE(s.name);
    ir::Graph graph("second");
    const Value x = graph.Parameter({DType::kF32, s.input}, "x");
    const Value w = graph.Parameter({DType::kF32, s.kernel}, "w");
    const Value y = ir::ReduceSum(ir::Tanh(ir::Convolution(x, w, s.options)));
    const Values first = ir::Gradients(y, {x, w});
    graph.SetResults(ir::Gradients(
        ir::ReduceSum(ir::Square(first[0])) + ir::ReduceSum(ir::Square(first[1])), {x, w}));
    ExpectSameWithAndWithout(graph, {.tolerance = 1e-4});
  }
}

// Eight replicas run the same kernels concurrently on their own threads.
TEST(ConvolutionKernels, ConcurrentReplicasAgree) {
  const Setting s{"replicas", {7, 16, 16, 16}, {3, 3, 16, 16}, {.padding = {{1, 1}, {1, 1}}}};
  for (uint64_t seed = 0; seed < 5; ++seed) {
    ExpectSameWithAndWithout(*GraphOf(s, DType::kF32, /*replicas=*/8),
                             {.tolerance = 2e-5, .seed = seed});
  }
}

// bf16 gradients that oneDNN miscomputes, some of them from uninitialized memory. Each is paired
// with a similar shape that it computes correctly.
TEST(ConvolutionKernels, LeaveMiscomputedCasesToXla) {
  struct Wrong {
    Setting setting;
    int calls;  // number of kernels used for the result and both gradients
  };
  const ir::ConvolutionOptions dilated{.padding = {{2, 2}, {1, 1}}, .rhs_dilation = {2, 1}};
  ir::ConvolutionOptions depthwise = dilated, across = dilated;
  depthwise.feature_group_count = 40;
  across.padding = {{1, 1}, {2, 2}};
  across.rhs_dilation = {1, 2};
  // Processors with AMX have another implementation of 1x1 convolutions, which is right.
  const int odd_1x1 = Uses(dnnl::cpu_isa::avx512_core_amx) ? 3 : 2;
  const Wrong settings[] = {
      {{"vertical dilation", {2, 11, 65, 39}, {3, 3, 39, 32}, dilated}, 2},
      {{"vertical dilation of sixteens", {2, 11, 65, 32}, {3, 3, 32, 39}, dilated}, 3},
      {{"horizontal dilation", {2, 11, 65, 39}, {3, 3, 39, 32}, across}, 3},
      {{"dilated, depthwise", {2, 11, 65, 40}, {3, 3, 1, 40}, depthwise}, 2},
      {{"a column that meets only padding",
        {3, 9, 1, 20},
        {1, 3, 20, 32},
        {.strides = {1, 3}, .padding = {{0, 0}, {1, 1}}}},
       2},
      {{"1x1 with an odd number of filters", {3, 5, 12, 38}, {1, 1, 38, 141}, {}}, odd_1x1},
      {{"1x1 with an even number of filters", {3, 5, 12, 38}, {1, 1, 38, 142}, {}}, 3}};
  for (const auto& [setting, calls] : settings) {
    SCOPED_TRACE(setting.name);
    ExpectSameWithAndWithout(
        *GraphOf(setting, DType::kBF16),
        {.calls = Uses(dnnl::cpu_isa::avx512_core) ? calls : 0, .tolerance = 1.0 / 64});
  }
}

TEST(ConvolutionKernels, LeaveReferenceCodeToXla) {
  // A kernel larger than its input, or this much padding, has only slow reference code.
  ConvolutionShape shape{.batch = 1,
                         .channels = 16,
                         .filters = 16,
                         .input = {8, 8},
                         .kernel = {3, 3},
                         .output = {6, 6}};
  EXPECT_TRUE(HasFastConvolution(shape));
  shape.output = {7, 7};  // not a convolution
  shape.strides = {0, 0};
  EXPECT_FALSE(HasFastConvolution(shape));
}

}  // namespace convolution_test
}  // namespace penstock::kernels
