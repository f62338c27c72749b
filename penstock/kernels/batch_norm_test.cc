#include "penstock/kernels/batch_norm.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/gradients.h"
#include "penstock/ir/ops.h"
#include "penstock/kernels/kernels.h"
#include "penstock/kernels/testing/compare.h"

namespace penstock::kernels {
namespace batch_norm_test {

using base::DType;
using base::Shape;
using ir::Value;
using ir::Values;
using ::testing::HasSubstr;
using ::testing::Not;

struct Setting {
  Shape shape;
  DType dtype = DType::kF32;  // type of the parameters
  bool relu = false;
  int masked = 0;  // number of masked examples at the end
  int replicas = 1;
  bool wide = false;  // computes in f32, whatever `dtype` is
};

Value Mask(ir::Graph& graph, int64_t examples, int masked) {
  if (masked == 0) return Value();
  const Value place = ir::Iota(graph, {DType::kI32, {examples}}, 0);
  return ir::Convert(ir::Less(place, ir::SplatLike(place, static_cast<double>(examples - masked))),
                     DType::kF32);
}

std::unique_ptr<ir::Graph> GraphOf(const Setting& s) {
  auto graph = std::make_unique<ir::Graph>("batch_norm", s.replicas);
  const Shape features{s.shape.dim(-1)};
  const auto parameter = [&](const char* name) {
    const Value given = graph->Parameter({s.dtype, s.shape}, name);
    return s.wide ? ir::Convert(given, DType::kF32) : given;
  };
  const Value x = parameter("x");
  const Value scale = graph->Parameter({DType::kF32, features}, "scale");
  const Value offset = graph->Parameter({DType::kF32, features}, "offset");
  const Value mask = Mask(*graph, s.shape.dim(0), s.masked);
  const ir::BatchNormResult out = ir::BatchNormTraining(x, scale, offset, mask, {.epsilon = 1e-3});
  const Value y = s.relu ? ir::Relu(out.y) : out.y;
  // Centered, to avoid cancellation in its sums. Exact in bf16 for numbers in [2, 8).
  const Value cotangent = parameter("cotangent") - 5.0;
  const Values gradients = ir::Gradients(y, {x, scale, offset}, cotangent);
  graph->SetResults({y, out.mean, out.variance, gradients[0], gradients[1], gradients[2]});
  return graph;
}

struct ResidualSetting {
  DType dtype = DType::kF32;
  bool projected = false;  // the shortcut has its own normalization
  bool other_first = false;
  int masked = 0;
  bool wide = false;
};

// The end of a residual block: normalization, addition, and ReLU.
std::unique_ptr<ir::Graph> GraphOf(const ResidualSetting& s) {
  auto graph = std::make_unique<ir::Graph>("residual");
  const auto parameter = [&](const char* name) {
    const Value given = graph->Parameter({s.dtype, {5, 6, 7, 24}}, name);
    return s.wide ? ir::Convert(given, DType::kF32) : given;
  };
  const Value x = parameter("x"), other = parameter("other");
  const Value mask = Mask(*graph, 5, s.masked);
  const Value scale = graph->Parameter({DType::kF32, {24}}, "scale");
  const ir::BatchNormResult inner = ir::BatchNormTraining(x, scale, Value(), mask);
  const Value shortcut = s.projected ? ir::BatchNormTraining(other, Value(), scale, mask).y : other;
  const Value y = ir::Relu(s.other_first ? shortcut + inner.y : inner.y + shortcut);
  Values results = ir::Gradients(y, {x, other, scale}, parameter("cotangent"));
  results.insert(results.end(), {y, inner.mean, inner.variance});
  graph->SetResults(results);
  return graph;
}

TEST(BatchNormKernels, MatchXla) {
  for (bool relu : {false, true}) {
    for (int masked : {0, 2}) {
      for (const Shape& shape :
           {Shape{4, 8, 8, 16}, Shape{3, 5, 7, 33}, Shape{5, 40, 41, 8}, Shape{7, 3},
            Shape{3, 2, 1}, Shape{16, 4, 64}, Shape{3, 9, 9, 256}}) {
        SCOPED_TRACE(absl::StrCat(shape.ToString(), relu ? " relu" : "", " masked ", masked));
        // Values far from zero expose cancellation in the variance. Up to 6,000 numbers of 24 bits
        // are summed in a different order.
        ExpectSameWithAndWithout(*GraphOf({.shape = shape, .relu = relu, .masked = masked}),
                                 {.calls = 2, .tolerance = 1e-4, .low = 2, .high = 8});
      }
    }
  }
}

// Compared with XLA in f32 on the same bf16 inputs, because XLA in bf16 omits roundings between
// fused operations, and so its ReLU may mask other elements. The remaining difference is one
// rounding of the result to 8 bits.
TEST(BatchNormKernels, InBf16OnlyTheResultIsRounded) {
  for (bool relu : {false, true}) {
    for (const Shape& shape : {Shape{4, 8, 8, 16}, Shape{3, 5, 7, 33}, Shape{7, 3}}) {
      SCOPED_TRACE(absl::StrCat(shape.ToString(), relu ? " relu" : ""));
      Setting setting{.shape = shape, .dtype = DType::kBF16, .relu = relu};
      const auto graph = GraphOf(setting);
      setting.wide = true;
      ExpectSame(*graph, *GraphOf(setting),
                 {.calls = 2, .tolerance = 1.0 / 256, .low = 2, .high = 8});
    }
  }
}

// With a cotangent of ones, the gradient of a feature's offset counts the elements that ReLU
// passed.
TEST(BatchNormKernels, GradientMasksTheSameElementsAsForward) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    SCOPED_TRACE(base::DTypeName(dtype));
    const Shape shape{9, 16, 16, 40};
    ir::Graph graph("cut"), nothing("cut");
    const Value x = graph.Parameter({dtype, shape}, "x");
    const Value offset = graph.Parameter({DType::kF32, {40}}, "offset");
    const Value y = ir::Relu(ir::BatchNormTraining(x, Value(), offset * 1e-3, Value()).y);
    const Value through =
        ir::ReduceSum(ir::Convert(ir::Greater(y, ir::SplatLike(y, 0)), DType::kF32), {0, 1, 2});
    const Value of_offset = ir::Gradients(y, {offset}, ir::SplatLike(y, 1))[0] * 1e3;
    graph.SetResults({ir::Round(of_offset) - through});
    nothing.Parameter({dtype, shape}, "x");
    nothing.Parameter({DType::kF32, {40}}, "offset");
    nothing.SetResults({ir::Splat(nothing, {DType::kF32, {40}}, 0)});
    ExpectSame(graph, nothing, {.calls = 2, .tolerance = 0});
  }
}

TEST(BatchNormKernels, FuseAdditionAtTheEndOfAResidualBlock) {
  for (bool projected : {false, true}) {
    for (bool other_first : {false, true}) {
      SCOPED_TRACE(absl::StrCat("projected ", projected, ", other first ", other_first));
      const auto graph = GraphOf(ResidualSetting{
          .projected = projected, .other_first = other_first, .masked = projected ? 1 : 0});
      EXPECT_THAT(Lowering::For(TestClient()).Print(*graph)->text,
                  HasSubstr(kBatchNormAddReluTarget));
      ExpectSameWithAndWithout(*graph, {.calls = projected ? 5 : 3, .tolerance = 1e-4});
    }
  }
  ResidualSetting bf16{.dtype = DType::kBF16};
  const auto graph = GraphOf(bf16);
  bf16.wide = true;
  ExpectSame(*graph, *GraphOf(bf16), {.calls = 3, .tolerance = 1.0 / 256});
}

TEST(BatchNormKernels, DoNotFuseAdditionWithOtherConsumers) {
  ir::Graph graph("read");
  const Value x = graph.Parameter({DType::kF32, {4, 4, 4, 16}}, "x");
  const Value y = ir::BatchNormTraining(x, Value(), Value(), Value()).y;
  const Value sum = x + y, twice = y + y;
  graph.SetResults({ir::Relu(sum), sum, ir::Relu(twice)});
  ExpectSameWithAndWithout(graph, {.calls = 1, .tolerance = 1e-4});
}

TEST(BatchNormKernels, AreFiniteForFullyMaskedBatch) {
  ExpectSameWithAndWithout(*GraphOf({.shape = {2, 4, 4, 16}, .masked = 2}),
                           {.calls = 2, .tolerance = 1e-3});
}

// A constant channel, and a masked-out example far from it: its deviation, divided by the tiny
// variance, is multiplied by x - mean = 0 for the others, for which the gradient is that of a
// constant channel.
TEST(BatchNormKernels, GradientOfConstantChannelDoesNotCancel) {
  ir::Graph graph("constant");
  const base::Shape shape{3, 2, 2, 16};
  const Value x = graph.Parameter({DType::kF32, shape}, "x");
  const Value mask = graph.Parameter({DType::kF32, {3}}, "mask");
  const Value cotangent = graph.Parameter({DType::kF32, shape}, "cotangent");
  const double epsilon = 1e-5;
  const Value y = ir::BatchNormTraining(x, Value(), Value(), mask, {.epsilon = epsilon}).y;
  graph.SetResults({ir::Gradients(ir::ReduceSum(y * cotangent), {x})[0]});
  const int64_t n = shape.num_elements(), example = n / 3;
  std::vector<float> xs(n, 1000), cotangents(n);
  std::fill(xs.begin() + 2 * example, xs.end(), 996.0f);
  for (int64_t i = 0; i < n; ++i) cotangents[i] = static_cast<float>(i % 7) - 2;
  const auto lowered = TestLowering().Print(graph);
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  const auto got = RunProgram(
      *lowered, {base::Array::Of<float>(shape, xs), base::Array::Of<float>({3}, {1, 1, 0}),
                 base::Array::Of<float>(shape, cotangents)});
  ASSERT_TRUE(got.ok()) << got.status();
  for (int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (int64_t k = i % 16; k < n; k += 16) sum += cotangents[k];
    const double centered = i < 2 * example ? cotangents[i] - sum / 8 : cotangents[i];
    ASSERT_NEAR((*got)[0].data<float>()[i], centered / std::sqrt(epsilon), 1e-3) << i;
  }
}

TEST(BatchNormKernels, ConcurrentReplicasAgree) {
  ExpectSameWithAndWithout(
      *GraphOf({.shape = {7, 16, 16, 16}, .relu = true, .masked = 1, .replicas = 8}),
      {.calls = 2, .tolerance = 1e-4});
}

TEST(BatchNormKernels, FuseRelu) {
  const auto lowering = Lowering::For(TestClient());
  const std::string text = lowering.Print(*GraphOf({.shape = {4, 8, 8, 16}, .relu = true}))->text;
  EXPECT_THAT(text, Not(HasSubstr("stablehlo.select")));
  EXPECT_THAT(text, Not(HasSubstr("relu = false")));
}

TEST(BatchNormKernels, DoNotFuseReluWithOtherConsumers) {
  ir::Graph graph("both");
  const Value x = graph.Parameter({DType::kF32, {4, 4, 4, 16}}, "x");
  const ir::BatchNormResult out = ir::BatchNormTraining(x, Value(), Value(), Value());
  const Value sum =
      ir::ReduceSum(ir::Relu(out.y) * ir::Relu(out.y)) + ir::ReduceSum(ir::Square(out.y));
  graph.SetResults({sum, ir::Gradients(sum, {x})[0]});
  ExpectSameWithAndWithout(graph, {.calls = 2, .tolerance = 1e-4});
}

TEST(BatchNormKernels, OtherAxesAndTypesAreLeftToXla) {
  ir::Graph graph("left");
  const Value x = graph.Parameter({DType::kF32, {4, 3, 5}}, "x");
  const Value wide = graph.Parameter({DType::kF64, {4, 3}}, "wide");
  graph.SetResults({ir::BatchNormTraining(x, Value(), Value(), Value(), {.axis = 1}).y,
                    ir::BatchNormTraining(wide, Value(), Value(), Value()).y});
  ExpectSameWithAndWithout(graph, {.calls = 0, .tolerance = 0});
}

}  // namespace batch_norm_test
}  // namespace penstock::kernels
