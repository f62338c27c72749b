#include "penstock/kernels/pooling.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/gradients.h"
#include "penstock/ir/ops.h"
#include "penstock/kernels/kernels.h"
#include "penstock/kernels/testing/compare.h"

namespace penstock::kernels {
namespace pooling_test {

using base::DType;
using base::Shape;
using ir::Value;
using ir::WindowReducer;
using ::testing::HasSubstr;

struct Setting {
  const char* name;
  Shape input;
  std::pair<int64_t, int64_t> size, strides = {1, 1}, dilation = {1, 1};
  std::pair<int64_t, int64_t> height = {0, 0}, width = {0, 0};  // padding
};

std::vector<Setting> Settings() {
  return {
      {"halves", {3, 8, 6, 16}, {2, 2}, {2, 2}},
      {"overlapping, padded", {5, 15, 16, 64}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
      {"few features", {2, 7, 9, 3}, {3, 2}, {1, 2}, {1, 1}, {0, 1}, {1, 0}},
      {"odd features", {2, 6, 5, 37}, {2, 3}, {2, 1}},
      {"dilated", {2, 11, 10, 16}, {3, 2}, {2, 1}, {2, 3}, {2, 1}, {0, 3}},
      {"gaps between windows", {2, 9, 9, 16}, {2, 1}, {4, 3}},
      {"windows within the padding", {2, 3, 3, 16}, {2, 2}, {1, 1}, {1, 1}, {2, 2}, {3, 0}},
      {"the whole image", {4, 7, 7, 32}, {7, 7}},
  };
}

// The result of pooling and its gradient. Values are rounded so that many are tied.
std::unique_ptr<ir::Graph> GraphOf(const Setting& s, WindowReducer reducer, DType dtype,
                                   bool wide = false) {
  auto graph = std::make_unique<ir::Graph>("pooling");
  const auto parameter = [&](const ir::TensorType& type, const char* name) {
    const Value given = graph->Parameter({dtype, type.shape}, name);
    return wide ? ir::Convert(given, DType::kF32) : given;
  };
  const Value x = ir::Round(parameter({dtype, s.input}, "x") * 4.0);
  const Value y = ir::ReduceWindow(x, reducer,
                                   {.size = {1, s.size.first, s.size.second, 1},
                                    .strides = {1, s.strides.first, s.strides.second, 1},
                                    .dilation = {1, s.dilation.first, s.dilation.second, 1},
                                    .padding = {{0, 0}, s.height, s.width, {0, 0}}});
  graph->SetResults({y, ir::Gradients(y, {x}, parameter(y.type(), "cotangent"))[0]});
  return graph;
}

TEST(PoolingKernels, MatchXla) {
  for (WindowReducer reducer : {WindowReducer::kMax, WindowReducer::kSum}) {
    for (const Setting& s : Settings()) {
      SCOPED_TRACE(s.name);
      // Up to 49 numbers are summed in a different order.
      ExpectSameWithAndWithout(*GraphOf(s, reducer, DType::kF32), {.calls = 2, .tolerance = 1e-6});
    }
  }
}

TEST(PoolingKernels, InBf16OnlyTheResultIsRounded) {
  for (WindowReducer reducer : {WindowReducer::kMax, WindowReducer::kSum}) {
    for (const Setting& s : {Settings()[1], Settings()[3]}) {
      SCOPED_TRACE(s.name);
      ExpectSame(*GraphOf(s, reducer, DType::kBF16), *GraphOf(s, reducer, DType::kBF16, true),
                 {.calls = 2, .tolerance = 1.0 / 256});
    }
  }
}

TEST(PoolingKernels, PropagateNaNWithoutGradient) {
  ir::Graph graph("nan"), expected("nan");
  for (ir::Graph* g : {&graph, &expected}) g->Parameter({DType::kF32, {1, 4, 4, 16}}, "x");
  const Value x = graph.parameters()[0];
  const Value place = ir::Iota(graph, x.type(), 2);
  const Value spoilt =
      ir::Select(ir::Equal(place, ir::SplatLike(place, 1)), ir::SplatLike(x, std::nan("")), x);
  const Value y = ir::ReduceWindow(spoilt, WindowReducer::kMax,
                                   {.size = {1, 2, 2, 1}, .strides = {1, 2, 2, 1}});
  const Value gradient = ir::Gradients(y, {spoilt}, ir::SplatLike(y, 1))[0];
  // By column: number of finite results; gradients of the first two pixels and of the whole row.
  const Value passed = ir::ReduceSum(gradient, {0, 1, 3});
  graph.SetResults({ir::ReduceSum(ir::Convert(ir::IsFinite(y), DType::kF32), {0, 1, 3}),
                    ir::SliceAxis(passed, 0, 0, 2), ir::ReduceSum(passed)});
  const auto constant = [&](const Shape& shape, const std::vector<float>& values) {
    return ir::Constant(expected, base::Array::Of<float>(shape, values));
  };
  expected.SetResults({constant({2}, {0, 32}), constant({2}, {0, 0}), constant({}, {32})});
  ExpectSame(graph, expected, {.calls = 2, .tolerance = 0});
}

TEST(PoolingKernels, LeaveNonImagesToXla) {
  ir::Graph graph("left");
  const Value x = graph.Parameter({DType::kF32, {2, 6, 6, 8}}, "x");
  const Value sound = graph.Parameter({DType::kF32, {2, 6, 8}}, "sound");
  graph.SetResults({ir::ReduceWindow(x, WindowReducer::kMin, {.size = {1, 2, 2, 1}}),
                    ir::ReduceWindow(x, WindowReducer::kMax, {.size = {1, 1, 2, 2}}),
                    ir::ReduceWindow(sound, WindowReducer::kMax, {.size = {1, 2, 1}})});
  ExpectSameWithAndWithout(graph, {.calls = 0, .tolerance = 0});
}

// Room ir has converted negative padding to a slice.
TEST(PoolingKernels, AcceptNegativePadding) {
  ir::Graph graph("cropped");
  const Value x = graph.Parameter({DType::kF32, {2, 6, 6, 8}}, "x");
  graph.SetResults(
      {ir::ReduceWindow(x, WindowReducer::kMax,
                        {.size = {1, 2, 2, 1}, .padding = {{0, 0}, {-1, 0}, {0, 0}, {0, 0}}})});
  ExpectSameWithAndWithout(graph, {.calls = 1, .tolerance = 0});
}

}  // namespace pooling_test
}  // namespace penstock::kernels
