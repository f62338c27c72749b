#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/gradients.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/testing/checks.h"

namespace penstock::ir {
namespace composite_test {

using testing::Checks;
using testing::GradientChecks;
using testing::Make;
using testing::Map;
using testing::RandomArray;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Array F64(const Shape& shape, const std::vector<double>& values) {
  return Make(DType::kF64, shape, values);
}

TEST(Composite, ReluPropagatesNaNAndHasZeroGradientAtZero) {
  Checks checks;
  const Value x = checks.Input(F64({5}, {-2, 0, 3, kNaN, kInf}));
  checks.Expect("relu", Relu(x), F64({5}, {0, 0, 3, kNaN, kInf}));
  const Value y = checks.Input(F64({3}, {-2, 0, 3}));
  checks.Expect("gradient", Gradients(ReduceSum(Relu(y)), {y})[0], F64({3}, {0, 0, 1}));
  checks.Run();
}

TEST(Composite, SoftmaxDoesNotOverflow) {
  Checks checks;
  const Value x = checks.Input(F64({3, 2}, {1000, 1001, -1000, -1001, -kInf, 0}));
  const double a = 1 / (1 + std::exp(1.0)), b = 1 - a;
  checks.Expect("softmax", Softmax(x), F64({3, 2}, {a, b, b, a, 0, 1}), 1e-12);
  checks.Expect("log softmax", LogSoftmax(x),
                F64({3, 2}, {std::log(a), std::log(b), std::log(b), std::log(a), -kInf, 0}), 1e-12);
  checks.Expect("log sum exp", LogSumExp(x, {1}),
                F64({3}, {1001 - std::log(b), -1000 - std::log(b), 0}), 1e-12);
  const Value none = checks.Input(F64({2}, {-kInf, -kInf}));
  checks.Expect("log of a sum of zeros", LogSumExp(none, {0}, true), F64({1}, {-kInf}));
  checks.Expect("along the first axis", ReduceSum(Softmax(x, 0), {0}), F64({2}, {1, 1}), 1e-12);
  checks.Run();
}

TEST(Composite, SoftplusIsAccurateAtBothEnds) {
  Checks checks;
  const Array x = F64({7}, {-800, -40, -1, 0, 1, 40, 800});
  const Value v = checks.Input(x);
  checks.Expect(
      "softplus", Softplus(v),
      Map(x,
          [](double t) { return t > 0 ? t + std::log1p(std::exp(-t)) : std::log1p(std::exp(t)); }),
      1e-14);
  const Value slope = Gradients(ReduceSum(Softplus(v)), {v})[0];
  const auto sigmoid = [](double t) { return 1 / (1 + std::exp(-t)); };
  checks.Expect("slope", slope, Map(x, sigmoid), 1e-12);
  checks.Expect("curvature", Gradients(ReduceSum(slope), {v})[0],
                Map(x, [&](double t) { return sigmoid(t) * sigmoid(-t); }), 1e-12);
  checks.Run();
}

TEST(Composite, GeluIsXTimesTheNormalDistribution) {
  Checks checks;
  const auto exact = [](double t) { return 0.5 * t * std::erfc(-t / std::sqrt(2.0)); };
  const auto near = [](double t) {
    return 0.5 * t * (1 + std::tanh(std::sqrt(2 / M_PI) * (t + 0.044715 * t * t * t)));
  };
  for (DType dtype : {DType::kF32, DType::kF64}) {
    const double tolerance = dtype == DType::kF32 ? 3e-7 : 1e-14;
    const Array x = RandomArray({500}, 3, -8, 8, dtype);
    checks.Expect("exact", Gelu(checks.Input(x)), Map(x, exact), tolerance);
    // Near -8, an error of one digit of tanh is all of 1 + tanh, and is multiplied by 4.
    checks.Expect("by tanh", Gelu(checks.Input(x), /*approximate=*/true), Map(x, near),
                  3 * tolerance);
    // Far below zero the result is small but accurate.
    const Array far = RandomArray({100}, 4, -8, -4, dtype);
    const Array want = Map(far, exact);
    checks.Expect("far below zero", Gelu(checks.Input(far)) / Constant(checks.graph(), want),
                  Map(want, [](double) { return 1.0; }), dtype == DType::kF32 ? 1e-5 : 1e-12);
  }
  checks.Run();
}

TEST(Composite, LogSigmoidIsAccurateAtBothEnds) {
  Checks checks;
  const Array x = Make(DType::kF32, {7}, {-800, -40, -1, 0, 1, 40, 800});
  checks.Expect(
      "log sigmoid", LogSigmoid(checks.Input(x)),
      Map(x, [](double t) { return std::min(t, 0.0) - std::log1p(std::exp(-std::abs(t))); }), 1e-6);
  checks.Run();
}

TEST(Composite, GradientsMatchFiniteDifferences) {
  GradientChecks checks;
  const Array x = RandomArray({2, 3});
  const std::pair<const char*, GradientChecks::Function> functions[] = {
      {"relu", [](const Values& v) { return Relu(v[0]); }},
      {"softmax", [](const Values& v) { return Softmax(v[0]); }},
      {"softmax along the first axis", [](const Values& v) { return Softmax(v[0], 0); }},
      {"log softmax", [](const Values& v) { return LogSoftmax(v[0]); }},
      {"log sum exp",
       [](const Values& v) {
         return LogSumExp(v[0], {0, 1}, true);
       }},
      {"softplus", [](const Values& v) { return Softplus(v[0]); }},
      {"log sigmoid", [](const Values& v) { return LogSigmoid(v[0]); }},
      {"gelu", [](const Values& v) { return Gelu(v[0]); }},
      {"gelu by tanh", [](const Values& v) { return Gelu(v[0], true); }},
  };
  for (const auto& [name, function] : functions) {
    checks.Add(name, {x}, function);
    checks.AddSecond(name, {x}, function);
  }
  checks.Run();
}

}  // namespace composite_test
}  // namespace penstock::ir
