#include <cmath>

#include <gtest/gtest.h>

#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/testing/checks.h"

namespace penstock::ir {
namespace normalization_test {

using testing::Checks;
using testing::Doubles;
using testing::GradientChecks;
using testing::Make;
using testing::RandomArray;

// Reference implementation over [rows, features], with a weight per row.
struct Expected {
  std::vector<double> y, mean, variance;
};

Expected Formula(const std::vector<double>& x, int64_t rows, int64_t features,
                 const std::vector<double>& weights, const std::vector<double>& scale,
                 const std::vector<double>& offset, double epsilon) {
  Expected out{std::vector<double>(x.size()), std::vector<double>(features),
               std::vector<double>(features)};
  double count = 0;
  for (double w : weights) count += w;
  for (int64_t f = 0; f < features; ++f) {
    double mean = 0, variance = 0;
    for (int64_t r = 0; r < rows; ++r) mean += weights[r] * x[r * features + f] / count;
    for (int64_t r = 0; r < rows; ++r)
      variance += weights[r] * std::pow(x[r * features + f] - mean, 2) / count;
    out.mean[f] = mean;
    out.variance[f] = variance;
    for (int64_t r = 0; r < rows; ++r) {
      out.y[r * features + f] =
          (x[r * features + f] - mean) / std::sqrt(variance + epsilon) * scale[f] + offset[f];
    }
  }
  return out;
}

TEST(BatchNormTraining, MatchesFormula) {
  Checks checks;
  const Array x = RandomArray({3, 2, 2, 5}), scale = RandomArray({5}, 2),
              offset = RandomArray({5}, 3);
  for (const std::vector<double>& mask :
       {std::vector<double>{1, 1, 1}, std::vector<double>{1, 0, 1}}) {
    std::vector<double> weights;
    for (double m : mask) weights.insert(weights.end(), 4, m);
    const Expected want =
        Formula(Doubles(x), 12, 5, weights, Doubles(scale), Doubles(offset), 0.01);
    const bool all = mask[1] == 1;
    const BatchNormResult got = BatchNormTraining(
        checks.Input(x), checks.Input(scale), checks.Input(offset),
        all ? Value() : checks.Input(Make(DType::kF64, {3}, mask)), {.epsilon = 0.01});
    checks.Expect("y", got.y, Make(DType::kF64, x.shape(), want.y), 1e-12);
    checks.Expect("mean", got.mean, Make(DType::kF64, {5}, want.mean), 1e-12);
    checks.Expect("variance", got.variance, Make(DType::kF64, {5}, want.variance), 1e-12);
  }
  checks.Run();
}

TEST(BatchNormTraining, ComputesStatisticsOf16BitFloatsInF32) {
  Checks checks;
  // 4096 times 1 + 1/128; accumulation in bf16 would lose most of it.
  const Array x = Make(DType::kBF16, {4096, 1}, std::vector<double>(4096, 1.0078125));
  const BatchNormResult got = BatchNormTraining(checks.Input(x), Value(), Value(), Value());
  checks.Expect("mean", got.mean, Make(DType::kF32, {1}, {1.0078125}), 1e-6);
  checks.Expect("y", got.y, Make(DType::kBF16, {4096, 1}, std::vector<double>(4096, 0)), 1e-3);
  checks.Run();
}

TEST(BatchNormTraining, IsFiniteForABatchOfPadding) {
  Checks checks;
  const BatchNormResult got =
      BatchNormTraining(checks.Input(Make(DType::kF32, {2, 1}, {3, 4})), Value(), Value(),
                        checks.Input(Make(DType::kF32, {2}, {0, 0})));
  checks.Expect("mean", got.mean, Make(DType::kF32, {1}, {0}));
  checks.Expect("variance", got.variance, Make(DType::kF32, {1}, {0}));
  checks.Expect("finite", IsFinite(got.y), Make(DType::kBool, {2, 1}, {1, 1}));
  checks.Run();
}

Value Joined(const BatchNormResult& r) {
  const auto flat = [](Value v) { return Reshape(v, {v.shape().num_elements()}); };
  return Concatenate({flat(r.y), r.mean, r.variance}, 0);
}

std::vector<Array> Inputs(const Shape& shape, int64_t features) {
  return {RandomArray(shape), RandomArray({features}, 2), RandomArray({features}, 3)};
}

TEST(BatchNormTraining, GradientsMatchFiniteDifferences) {
  GradientChecks checks;
  checks.Add("all results", Inputs({3, 2, 2}, 2), [](const Values& x) {
    return Joined(BatchNormTraining(x[0], x[1], x[2], Value(), {.epsilon = 0.1}));
  });
  checks.Add("masked", Inputs({3, 2, 2}, 2), [](const Values& x) {
    const Value mask = Constant(*x[0].graph(), Make(DType::kF64, {3}, {1, 1, 0}));
    return Joined(BatchNormTraining(x[0], x[1], x[2], mask, {.epsilon = 0.1}));
  });
  checks.Add("axis 1", Inputs({2, 3, 2}, 3), [](const Values& x) {
    return BatchNormTraining(x[0], x[1], x[2], Value(), {.axis = 1, .epsilon = 0.1}).y;
  });
  checks.AddSecond("second", Inputs({3, 2}, 2), [](const Values& x) {
    return Tanh(BatchNormTraining(x[0], x[1], x[2], Value(), {.epsilon = 0.1}).y);
  });
  checks.Run();
  testing::ExpectAllCovered(NormalizationOps(), checks.ops());
}

}  // namespace normalization_test
}  // namespace penstock::ir
