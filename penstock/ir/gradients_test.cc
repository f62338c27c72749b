#include "penstock/ir/gradients.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/stablehlo.h"
#include "penstock/ir/testing/checks.h"

namespace penstock::ir {
namespace gradients_test {

using testing::Checks;
using testing::ErrorOf;
using testing::GradientChecks;
using ::testing::HasSubstr;
using testing::Make;
using testing::RandomArray;

Array F32(const Shape& shape, const std::vector<double>& values) {
  return Make(DType::kF32, shape, values);
}

TEST(Gradients, AccumulateOverEveryUse) {
  Checks checks;
  const Value x = checks.Input(F32({}, {3}));
  // x^2 + x * stop(x) + x
  const Value y = x * x + x * StopGradient(x) + x;
  checks.Expect("2x + x + 1", Gradients(y, {x})[0], F32({}, {10}));
  checks.Expect("with respect to itself", Gradients(y, {y})[0], F32({}, {1}));
  checks.Expect("weighed", Gradients(y, {x}, SplatLike(y, 2))[0], F32({}, {20}));
  checks.Expect("the same x twice", Gradients(y, {x, x})[1], F32({}, {10}));
  checks.Run();
}

TEST(Gradients, AreTotalForDependentXs) {
  Checks checks;
  const Value x = checks.Input(F32({}, {2}));
  const Value u = x * x;
  const Values d = Gradients(u * u, {x, u});
  checks.Expect("x", d[0], F32({}, {32}));
  checks.Expect("u", d[1], F32({}, {8}));
  checks.Run();
}

TEST(Gradients, OfSeveralOutputs) {
  Checks checks;
  const Value x = checks.Input(F32({2}, {1, 2}));
  const Values ys{x * x, Exp(x), ReduceSum(x)};
  const Value weight = checks.Input(F32({2}, {10, 100}));
  checks.Expect("an invalid cotangent is zero",
                Gradients(ys, {x}, {weight, Value(), SplatLike(ys[2], 5)})[0], F32({2}, {25, 405}));
  checks.Run();
}

// Each cotangent is replaced once, when it is complete, also that of an x and that of an output.
TEST(Gradients, AreReplacedOnTheirWay) {
  Checks checks;
  const Value x = checks.Input(F32({}, {3}));
  const Value u = x * 2.0, v = u * 5.0, y = u * 3.0 + v;
  std::vector<size_t> order;
  const Intercept intercept{.values = {u, v, x, y}, .replace = [&](size_t i, Value cotangent) {
                              order.push_back(i);
                              return i == 1 ? cotangent * 10.0 : cotangent + 1.0;
                            }};
  const Values d = Gradients({y}, {x, u, v, y}, {SplatLike(y, 1)}, intercept);
  EXPECT_THAT(order, ::testing::ElementsAre(3, 1, 0, 2));
  checks.Expect("y", d[3], F32({}, {2}));
  checks.Expect("v", d[2], F32({}, {20}));
  checks.Expect("u", d[1], F32({}, {2 * 3 + 20 * 5 + 1}));
  checks.Expect("x", d[0], F32({}, {2 * 107 + 1}));
  const Intercept wrong{.values = {u}, .replace = [](size_t, Value) { return Value(); }};
  Gradients({y}, {x, u}, {SplatLike(y, 1)}, wrong);
  EXPECT_THAT(x.graph()->TakeStatus().message(), HasSubstr("replaced by nothing"));
  checks.Run();
}

// A graph that is differentiated in many small parts costs no more than their sum.
TEST(Gradients, VisitNoNodesOutsideOfTheirPart) {
  Graph graph("parts");
  Value x = graph.Parameter({DType::kF32, {2}}, "x");
  constexpr int kParts = 200;
  int64_t visited = 0;
  for (int part = 0; part < kParts; ++part) {
    x = StopGradient(x);
    const Value y = Tanh(x) * x;
    x = Gradients(absl::MakeConstSpan(&y, 1), absl::MakeConstSpan(&x, 1), {SplatLike(y, 1)},
                  &visited)[0];
  }
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  EXPECT_EQ(visited, 3 * kParts);  // x, tanh, the product
}

// An x after all ys, or an output before all xs, is only not depended on.
TEST(Gradients, OfOutputsBeforeTheirXsAreZero) {
  Checks checks;
  const Value x = checks.Input(F32({2}, {1, 2}));
  const Value y = x * x, later = Exp(x);
  checks.Expect("later", Gradients(ReduceSum(y), {later})[0], F32({2}, {0, 0}));
  const Values d = Gradients({y, later}, {later, x}, {SplatLike(y, 1), SplatLike(y, 1)});
  checks.Expect("itself", d[0], F32({2}, {1, 1}));
  checks.Expect("x", d[1], F32({2}, {2 + std::exp(1.0), 4 + std::exp(2.0)}));
  checks.Run();
}

TEST(Gradients, AreZeroForIndependentXs) {
  Checks checks;
  const Value x = checks.Input(F32({2}, {1, 2})), other = checks.Input(F32({3}, {1, 2, 3}));
  const Value n = checks.Input(Make(DType::kI32, {2}, {1, 2}));
  const Values d = Gradients(ReduceSum(x * Convert(n, DType::kF32)), {other, n, x});
  checks.Expect("independent", d[0], F32({3}, {0, 0, 0}));
  EXPECT_FALSE(d[1].valid()) << "integers have no gradient";
  checks.Expect("through the integers nothing flows", d[2], F32({2}, {1, 2}));
  checks.Run();
}

TEST(Gradients, SkipOperationsIndependentOfXs) {
  Graph graph("reach");
  const Value x = graph.Parameter({DType::kF32, {}}, "x"),
              z = graph.Parameter({DType::kF32, {}}, "z");
  // None of these custom calls has a gradient, and none is needed for x.
  const Value constant = CustomCall(graph, "kernel", {z}, {{DType::kF32, {}}})[0];
  const Value stopped = CustomCall(graph, "kernel", {StopGradient(x)}, {{DType::kF32, {}}})[0];
  const Value rounded = CustomCall(graph, "kernel", {Floor(x)}, {{DType::kF32, {}}})[0];
  const Value y = x * constant * stopped * rounded;
  EXPECT_TRUE(Gradients(y, {x})[0].valid()) << graph.status();
  // xs may include the result of a custom call.
  EXPECT_TRUE(Gradients(y, {constant})[0].valid()) << graph.status();
  const int nodes = graph.num_nodes();
  Gradients(y, {z});
  EXPECT_GT(graph.num_nodes(), nodes);
  EXPECT_THAT(ErrorOf(graph), HasSubstr("custom_call: has no gradient; use StopGradient"));
}

TEST(Gradients, KeepOriginOfDifferentiatedNode) {
  Graph graph("origin");
  const Value x = graph.Parameter({DType::kF32, {2}}, "x");
  Value h;
  {
    const Scope layer(graph, "conv1");
    h = Tanh(x);
  }
  const Scope step(graph, "train_step");
  const Value d = Gradients(ReduceSum(h), {x})[0];
  EXPECT_EQ(graph.origins()[d.node().origin].scope, "conv1");
  EXPECT_EQ(graph.current_origin().scope, "train_step");
}

TEST(Gradients, ReportExpectedTypes) {
  Graph graph("vector");
  const Value x = graph.Parameter({DType::kF32, {2}}, "x");
  EXPECT_FALSE(Gradients(x, {x})[0].valid());
  EXPECT_THAT(
      ErrorOf(graph),
      HasSubstr("the gradient of f32[2] needs a cotangent, because it is not a float scalar"));
  Graph other("cotangent");
  const Value y = other.Parameter({DType::kF32, {2}}, "y");
  Gradients(y, {y}, ReduceSum(y));
  EXPECT_THAT(ErrorOf(other), HasSubstr("the cotangent of f32[2] is f32[]"));
}

TEST(Gradients, SecondAndThirdDerivativesMatchFiniteDifferences) {
  GradientChecks checks;
  // The operations of a classifier: convolution, tanh, max pooling, matmul, softmax.
  const auto net = [](const Values& v) {
    Value h = Tanh(Convolution(v[0], v[1], {.strides = {1, 1}, .padding = {{1, 1}, {1, 1}}}));
    h = ReduceWindow(h, WindowReducer::kMax, {.size = {1, 2, 2, 1}, .strides = {1, 2, 2, 1}});
    return LogSoftmax(MatMul(Reshape(h, {1, 8}), v[2]));
  };
  const std::vector<Array> inputs{RandomArray({1, 4, 4, 1}), RandomArray({3, 3, 1, 2}, 2),
                                  RandomArray({8, 3}, 3)};
  checks.Add("net", inputs, net);
  checks.AddSecond("net", inputs, net);
  const auto cube = [](const Values& v) {
    const Value first = Gradients(ReduceSum(v[0] * v[0] * v[0] * v[0]), {v[0]})[0];
    return Gradients(ReduceSum(first), {v[0]})[0];
  };
  checks.AddSecond("fourth power", {RandomArray({3})}, cube);
  checks.Run();
}

TEST(Gradients, AreDeterministic) {
  const auto text = [] {
    Graph graph("same");
    const Value x = graph.Parameter({DType::kF32, {4, 4}}, "x"),
                w = graph.Parameter({DType::kF32, {4, 4}}, "w");
    Value h = x;
    for (int i = 0; i < 5; ++i) h = Tanh(MatMul(h, w)) + h * w;
    graph.SetResults(Gradients(ReduceSum(h), {x, w}));
    return PrintStableHlo(graph)->text;
  };
  EXPECT_EQ(text(), text());
}

// Whatever the order in which the xs are added, and also where one x depends on another.
TEST(Gradients, DependenceOnOneMoreXIsThatOnAll) {
  Graph graph("dependence");
  Values values{graph.Parameter({DType::kF32, {}}, "a"), graph.Parameter({DType::kF32, {}}, "b")};
  for (int i = 0; i < 30; ++i) {
    const Value &x = values[values.size() - 1], &y = values[i * 7 % values.size()];
    values.push_back(i % 5 == 4 ? StopGradient(y) : i % 3 == 0 ? x * y : Tanh(y));
  }
  std::vector<bool> depends(graph.num_nodes());
  Values xs;
  for (const int i : {20, 3, 31, 0, 14, 1}) {
    xs.push_back(values[i]);
    AddDependsOn(graph, values[i], depends);
    EXPECT_EQ(depends, DependsOn(graph, xs)) << i;
  }
}

}  // namespace gradients_test
}  // namespace penstock::ir
