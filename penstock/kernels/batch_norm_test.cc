#include "penstock/kernels/batch_norm.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/gradients.h"
#include "penstock/ir/ops.h"
#include "penstock/kernels/kernels.h"
#include "penstock/kernels/testing/compare.h"

namespace penstock::kernels {
namespace {

using base::DType;
using base::Shape;
using ir::Value;
using ir::Values;
using ::testing::HasSubstr;
using ::testing::Not;

struct Setting {
  Shape shape;
  DType dtype = DType::kF32;
  bool relu = false;
  int masked = 0;  // examples at the end that do not count
  int replicas = 1;
};

std::unique_ptr<ir::Graph> GraphOf(const Setting& s) {
  auto graph = std::make_unique<ir::Graph>("batch_norm", s.replicas);
  const Shape features{s.shape.dim(-1)};
  Value x = graph->Parameter({s.dtype, s.shape}, "x");
  // Far from zero, where a careless variance goes wrong. Not in bf16: there XLA would fuse this in
  // and skip the rounding that the kernel sees.
  if (s.dtype == DType::kF32) x = x * 3.0 + 5.0;
  const Value scale = graph->Parameter({DType::kF32, features}, "scale");
  const Value offset = graph->Parameter({DType::kF32, features}, "offset");
  Value mask;
  if (s.masked > 0) {
    const Value place = ir::Iota(*graph, {DType::kI32, {s.shape.dim(0)}}, 0);
    mask = ir::Convert(
        ir::Less(place, ir::SplatLike(place, static_cast<double>(s.shape.dim(0) - s.masked))),
        DType::kF32);
  }
  const ir::BatchNormResult out = ir::BatchNormTraining(x, scale, offset, mask, {.epsilon = 1e-3});
  const Value y = s.relu ? ir::Relu(out.y) : out.y;
  const Value cotangent = graph->Parameter(y.type(), "cotangent");
  const Values gradients = ir::Gradients(y, {x, scale, offset}, cotangent);
  graph->SetResults({y, out.mean, out.variance, gradients[0], gradients[1], gradients[2]});
  return graph;
}

TEST(BatchNormKernels, AgreeWithXla) {
  for (bool relu : {false, true}) {
    for (int masked : {0, 2}) {
      for (const Shape& shape :
           {Shape{4, 8, 8, 16}, Shape{3, 5, 7, 33}, Shape{5, 40, 41, 8}, Shape{7, 3},
            Shape{3, 2, 1}, Shape{16, 4, 64}, Shape{3, 9, 9, 256}}) {
        SCOPED_TRACE(absl::StrCat(shape.ToString(), relu ? " relu" : "", " masked ", masked));
        ExpectSameWithAndWithout(*GraphOf({.shape = shape, .relu = relu, .masked = masked}),
                                 {.calls = 2, .tolerance = 1e-4});
      }
    }
  }
}

TEST(BatchNormKernels, AgreeWithXlaInBf16) {
  for (bool relu : {false, true}) {
    for (const Shape& shape : {Shape{4, 8, 8, 16}, Shape{3, 5, 7, 33}, Shape{7, 3}}) {
      SCOPED_TRACE(absl::StrCat(shape.ToString(), relu ? " relu" : ""));
      ExpectSameWithAndWithout(*GraphOf({.shape = shape, .dtype = DType::kBF16, .relu = relu}),
                               {.calls = 2, .tolerance = 1.0 / 64});
    }
  }
}

TEST(BatchNormKernels, ABatchWhereNothingCounts) {
  ExpectSameWithAndWithout(*GraphOf({.shape = {2, 4, 4, 16}, .masked = 2}),
                           {.calls = 2, .tolerance = 1e-3});
}

TEST(BatchNormKernels, ManyReplicasCallAtOnce) {
  ExpectSameWithAndWithout(
      *GraphOf({.shape = {7, 16, 16, 16}, .relu = true, .masked = 1, .replicas = 8}),
      {.calls = 2, .tolerance = 1e-4});
}

TEST(BatchNormKernels, ReluBecomesPartOfTheKernel) {
  const auto lowering = Lowering::For(TestClient());
  const std::string text = lowering.Print(*GraphOf({.shape = {4, 8, 8, 16}, .relu = true}))->text;
  EXPECT_THAT(text, Not(HasSubstr("stablehlo.select")));
  EXPECT_THAT(text, Not(HasSubstr("relu = false")));
}

TEST(BatchNormKernels, WhatElseReadsTheResultKeepsItUncut) {
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

}  // namespace
}  // namespace penstock::kernels
