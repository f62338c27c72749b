#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/gradients.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/stablehlo.h"
#include "penstock/ir/testing/checks.h"

namespace penstock::ir {
namespace convolution_test {

using testing::Checks;
using ::testing::ContainsRegex;
using testing::ErrorOf;
using testing::GradientChecks;
using ::testing::HasSubstr;
using testing::Make;
using ::testing::Not;
using testing::RandomArray;

// A convolution with dimensions in the default order NHWC, HWIO (with one spatial dimension or
// none, too).
struct Setting {
  const char* name;
  Shape input, kernel;
  ConvolutionOptions options;
};

std::vector<Setting> Settings() {
  return {
      {"3x3 valid", {1, 5, 4, 3}, {3, 3, 3, 2}, {}},
      {"1x1", {2, 3, 3, 2}, {1, 1, 2, 3}, {}},
      {"same", {1, 5, 5, 2}, {3, 3, 2, 2}, {.padding = {{1, 1}, {1, 1}}}},
      {"even kernel, same, stride 2",
       {1, 5, 6, 2},
       {2, 4, 2, 2},
       {.strides = {2, 2}, .padding = {SamePadding(5, 2, 2), SamePadding(6, 4, 2)}}},
      {"stride that skips the end", {1, 6, 7, 1}, {2, 3, 1, 2}, {.strides = {3, 2}}},
      {"stride above the kernel", {1, 7, 7, 1}, {2, 1, 1, 2}, {.strides = {4, 3}}},
      {"dilated kernel",
       {1, 6, 5, 2},
       {3, 2, 2, 1},
       {.padding = {{2, 1}, {0, 1}}, .rhs_dilation = {2, 3}}},
      {"dilated kernel and stride",
       {1, 8, 7, 1},
       {2, 3, 1, 2},
       {.strides = {2, 3}, .padding = {{1, 0}, {2, 2}}, .rhs_dilation = {3, 2}}},
      {"dilated input",
       {1, 3, 4, 2},
       {3, 2, 2, 2},
       {.padding = {{1, 2}, {0, 0}}, .lhs_dilation = {2, 3}}},
      {"everything dilated",
       {1, 4, 4, 1},
       {2, 2, 1, 1},
       {.strides = {2, 1},
        .padding = {{2, 1}, {1, 2}},
        .lhs_dilation = {3, 2},
        .rhs_dilation = {2, 3}}},
      {"negative padding", {1, 5, 6, 2}, {2, 2, 2, 2}, {.padding = {{-1, 0}, {-2, -1}}}},
      {"negative padding and stride",
       {1, 7, 6, 1},
       {3, 2, 1, 1},
       {.strides = {2, 2}, .padding = {{-1, 1}, {2, -1}}}},
      {"negative padding and dilated input",
       {1, 6, 5, 2},
       {2, 2, 2, 1},
       {.padding = {{-1, -2}, {-4, 3}}, .lhs_dilation = {2, 3}}},
      {"negative padding beyond the input",
       {1, 4, 3, 1},
       {2, 2, 1, 1},
       {.padding = {{-5, 8}, {0, 0}}}},
      {"negative padding between dilated elements",
       {1, 2, 3, 1},
       {1, 2, 1, 1},
       {.padding = {{-1, -1}, {0, 0}}, .lhs_dilation = {4, 1}}},
      {"padding far beyond the kernel", {1, 5, 4, 2}, {2, 3, 2, 1}, {.padding = {{5, 0}, {4, 1}}}},
      {"more padding than kernel", {1, 2, 2, 1}, {2, 1, 1, 1}, {.padding = {{3, 2}, {2, 3}}}},
      {"groups",
       {1, 4, 4, 4},
       {3, 3, 2, 6},
       {.padding = {{1, 1}, {1, 1}}, .feature_group_count = 2}},
      {"groups, stride and dilation",
       {1, 5, 4, 6},
       {2, 2, 2, 3},
       {.strides = {2, 1}, .rhs_dilation = {1, 2}, .feature_group_count = 3}},
      {"depthwise",
       {1, 4, 5, 3},
       {3, 3, 1, 3},
       {.padding = {{1, 1}, {1, 1}}, .feature_group_count = 3}},
      {"depthwise, two each, stride 2",
       {1, 4, 5, 3},
       {3, 2, 1, 6},
       {.strides = {2, 2}, .padding = {{1, 1}, {0, 0}}, .feature_group_count = 3}},
      {"batch groups", {4, 3, 3, 2}, {2, 3, 2, 6}, {.batch_group_count = 2}},
      {"batch groups and stride",
       {6, 4, 3, 1},
       {2, 2, 1, 3},
       {.strides = {2, 1}, .batch_group_count = 3}},
      {"one axis", {2, 7, 3}, {3, 3, 2}, {.strides = {2}, .padding = {{1, 1}}}},
      {"three axes",
       {1, 3, 4, 3, 2},
       {2, 2, 3, 2, 2},
       {.strides = {1, 2, 1}, .padding = {{0, 1}, {1, 0}, {1, 1}}}},
      {"no axis", {3, 2}, {2, 4}, {}},
      {"kernel as large as the input", {2, 3, 3, 2}, {3, 3, 2, 2}, {}},
      {"kernel larger than the input", {1, 2, 2, 1}, {3, 3, 1, 2}, {}},
      {"empty batch", {0, 4, 4, 2}, {3, 3, 2, 2}, {}},
  };
}

template <typename T>
T At(const std::vector<T>& list, size_t i, T otherwise) {
  return list.empty() ? otherwise : list[i];
}

// Reference implementation of the definition, index by index.
Array Expected(const Setting& s, const Array& input, const Array& kernel, const Shape& out_shape) {
  const int spatial = s.input.rank() - 2;
  const std::vector<double> x = testing::Doubles(input), k = testing::Doubles(kernel);
  std::vector<double> out(out_shape.num_elements());
  const int64_t channels = s.input.dim(-1), filters = s.kernel.dim(-1),
                of_kernel = s.kernel.dim(-2);
  const int64_t feature_groups = s.options.feature_group_count,
                batch_groups = s.options.batch_group_count;
  const int64_t positions = Shape(out_shape.dims().subspan(1, spatial)).num_elements();
  const int64_t taps = Shape(s.kernel.dims().subspan(0, spatial)).num_elements();
  for (int64_t n = 0; n < out_shape.dim(0); ++n) {
    for (int64_t p = 0; p < positions; ++p) {
      for (int64_t f = 0; f < filters; ++f) {
        double sum = 0;
        for (int64_t t = 0; t < taps; ++t) {
          // Position of this kernel element in the input.
          int64_t rest_p = p, rest_t = t, at = 0, scale = 1;
          bool inside = true;
          for (int i = spatial; i-- > 0;) {
            const int64_t o = rest_p % out_shape.dim(1 + i), tap = rest_t % s.kernel.dim(i);
            rest_p /= out_shape.dim(1 + i);
            rest_t /= s.kernel.dim(i);
            const int64_t dilation = At<int64_t>(s.options.lhs_dilation, i, 1);
            const int64_t place =
                o * At<int64_t>(s.options.strides, i, 1) +
                tap * At<int64_t>(s.options.rhs_dilation, i, 1) -
                At<std::pair<int64_t, int64_t>>(s.options.padding, i, {0, 0}).first;
            inside = inside && place >= 0 && place % dilation == 0 &&
                     place / dilation < s.input.dim(1 + i);
            at += place / dilation * scale;
            scale *= s.input.dim(1 + i);
          }
          if (!inside) continue;
          const int64_t image =
              batch_groups == 1 ? n : f / (filters / batch_groups) * out_shape.dim(0) + n;
          const int64_t first = f / (filters / feature_groups) * of_kernel;
          for (int64_t c = 0; c < of_kernel; ++c) {
            sum += x[(image * scale + at) * channels + first + c] *
                   k[(t * of_kernel + c) * filters + f];
          }
        }
        out[(n * positions + p) * filters + f] = sum;
      }
    }
  }
  return Make(input.dtype(), out_shape, out);
}

TEST(Convolution, ComputesItsDefinition) {
  Checks checks;
  for (const Setting& s : Settings()) {
    const Array input = RandomArray(s.input, 1), kernel = RandomArray(s.kernel, 2);
    const Value y = Convolution(checks.Input(input), checks.Input(kernel), s.options);
    ASSERT_TRUE(y.valid()) << s.name << ": " << checks.graph().status();
    checks.Expect(s.name, y, Expected(s, input, kernel, y.shape()), 1e-12);
  }
  checks.Run();
}

// XLA:CPU would read out of bounds.
TEST(Convolution, IsNotPrintedWithNegativeLowPadding) {
  for (const Setting& s : Settings()) {
    Graph graph("convolution");
    const Value x = graph.Parameter({DType::kF32, s.input}, "x"),
                k = graph.Parameter({DType::kF32, s.kernel}, "k");
    const Value y = Convolution(x, k, s.options);
    const Values gradients = Gradients(ReduceSum(Square(y)), {x, k});
    graph.SetResults({y, gradients[0], gradients[1]});
    const auto program = PrintStableHlo(graph);
    ASSERT_TRUE(program.ok()) << s.name << ": " << program.status();
    EXPECT_THAT(program->text, Not(ContainsRegex("pad = \\[(\\[[0-9]+, -?[0-9]+\\], )*\\[-")))
        << s.name;
  }
}

TEST(Convolution, GradientsMatchFiniteDifferences) {
  GradientChecks checks;
  for (const Setting& s : Settings()) {
    checks.Add(s.name, {RandomArray(s.input, 1), RandomArray(s.kernel, 2)},
               [&](const Values& x) { return Convolution(x[0], x[1], s.options); });
  }
  checks.Run();
}

TEST(Convolution, SecondDerivativesMatchFiniteDifferences) {
  GradientChecks checks;
  for (const Setting& s : Settings()) {
    if (s.input.num_elements() > 45) continue;
    checks.AddSecond(s.name,
                     {RandomArray(s.input, 1, -0.5, 0.5), RandomArray(s.kernel, 2, -0.5, 0.5)},
                     [&](const Values& x) { return Tanh(Convolution(x[0], x[1], s.options)); });
  }
  checks.Run();
  testing::ExpectAllCovered(ConvolutionOps(), checks.ops());
}

TEST(Convolution, AcceptsDimensionsInAnyOrder) {
  // The same convolution as NHWC, and as NCHW with an OIHW kernel.
  Checks checks;
  const Array input = RandomArray({2, 5, 4, 3}), kernel = RandomArray({3, 2, 3, 4}, 2);
  const Value x = checks.Input(input), k = checks.Input(kernel);
  const ConvolutionOptions plain{.strides = {2, 1}};
  ConvolutionOptions nchw = plain;
  nchw.dimensions = {.input_batch = 0,
                     .input_feature = 1,
                     .input_spatial = {2, 3},
                     .kernel_input_feature = 1,
                     .kernel_output_feature = 0,
                     .kernel_spatial = {2, 3},
                     .output_batch = 0,
                     .output_feature = 1,
                     .output_spatial = {2, 3}};
  const auto as_nchw = [&](Value v, Value w) {
    return Transpose(Convolution(Transpose(v, {0, 3, 1, 2}), Transpose(w, {3, 2, 0, 1}), nchw),
                     {0, 2, 3, 1});
  };
  const Value a = Convolution(x, k, plain), b = as_nchw(x, k);
  checks.Expect("values", a - b, Array::Zeros(DType::kF64, a.shape()), 1e-12);
  const Values da = Gradients(ReduceSum(Square(a)), {x, k}),
               db = Gradients(ReduceSum(Square(b)), {x, k});
  for (int i = 0; i < 2; ++i) {
    checks.Expect("gradients", da[i] - db[i], Array::Zeros(DType::kF64, da[i].shape()), 1e-12);
  }
  checks.Run();
}

TEST(Convolution, SamePaddingMatchesKeras) {
  using P = std::pair<int64_t, int64_t>;
  EXPECT_EQ(SamePadding(32, 3, 1), P(1, 1));
  EXPECT_EQ(SamePadding(32, 3, 2), P(0, 1));
  EXPECT_EQ(SamePadding(224, 7, 2), P(2, 3));
  EXPECT_EQ(SamePadding(5, 2, 1), P(0, 1));
  EXPECT_EQ(SamePadding(7, 1, 3), P(0, 0));
  EXPECT_EQ(SamePadding(10, 3, 1, 2), P(2, 2));
}

TEST(Convolution, ErrorsStateActualAndExpected) {
  struct Wrong {
    Shape input, kernel;
    ConvolutionOptions options;
    const char* message;
  };
  ConvolutionOptions twice;
  twice.dimensions = {.input_batch = 0,
                      .input_feature = 3,
                      .input_spatial = {1, 1},
                      .kernel_input_feature = 2,
                      .kernel_output_feature = 3,
                      .kernel_spatial = {0, 1},
                      .output_batch = 0,
                      .output_feature = 3,
                      .output_spatial = {1, 2}};
  const Wrong wrongs[] = {
      {{1, 4, 4, 3},
       {3, 3, 2, 8},
       {},
       "convolution: the kernel expects 2 channels, the input has 3; input f32[1,4,4,3]"},
      {{1, 4, 4, 3}, {3, 3, 8}, {}, "input and kernel must have one element type and as many axes"},
      {{1, 4, 4, 3},
       {3, 3, 1, 8},
       {.feature_group_count = 2},
       "groups must divide channels, filters and batch"},
      {{1, 4, 4, 3},
       {3, 3, 3, 8},
       {.strides = {1}},
       "strides expects one number for each of 2 spatial axes, got 1"},
      {{1, 4, 4, 3}, {3, 3, 3, 8}, {.strides = {0, 1}}, "strides and dilations must be above 0"},
      {{1, 4, 4, 3},
       {3, 3, 3, 8},
       twice,
       "input dimensions [0, 3, 1, 1] do not name each of 4 axes once"},
      {{4}, {4}, {}, "convolution: expects a batch and features, got f32[4]"},
  };
  for (const Wrong& wrong : wrongs) {
    Graph graph("wrong");
    const Value input = graph.Parameter({DType::kF32, wrong.input}, "input");
    const Value kernel = graph.Parameter({DType::kF32, wrong.kernel}, "kernel");
    EXPECT_FALSE(Convolution(input, kernel, wrong.options).valid()) << wrong.message;
    EXPECT_THAT(ErrorOf(graph), HasSubstr(wrong.message));
  }
}

}  // namespace convolution_test
}  // namespace penstock::ir
