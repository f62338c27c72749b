// Losses and metrics against their formulas in double.
#include "penstock/nn/losses.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/ir/gradients.h"
#include "penstock/ir/testing/checks.h"
#include "penstock/nn/metrics.h"

namespace penstock::nn {
namespace {

using base::Array;
using base::DType;
using ir::Value;
using ir::testing::Checks;
using ir::testing::Doubles;
using ir::testing::Make;
using ir::testing::RandomArray;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kRows = 5, kClasses = 4;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Array Floats(const base::Shape& shape, const std::vector<double>& values) {
  return Make(DType::kF32, shape, values);
}

double LogSumExp(const double* z) {
  const double top = *std::max_element(z, z + kClasses);
  double sum = 0;
  for (int c = 0; c < kClasses; ++c) sum += std::exp(z[c] - top);
  return top + std::log(sum);
}

TEST(Losses, CrossentropiesFollowTheirFormulas) {
  const Array logits = RandomArray({kRows, kClasses}, 1, -3, 3, DType::kF32);
  const std::vector<int64_t> classes{3, 0, 2, 2, 1};
  const std::vector<double> z = Doubles(logits);
  // Probabilities that do not quite add up to one: the loss divides by their sum.
  std::vector<double> p(z.size()), one_hot(z.size(), 0), soft(z.size());
  std::vector<double> sparse, smooth, of_soft;
  for (int64_t n = 0; n < kRows; ++n) {
    const double log_sum = LogSumExp(&z[n * kClasses]);
    one_hot[n * kClasses + classes[n]] = 1;
    sparse.push_back(log_sum - z[n * kClasses + classes[n]]);
    smooth.push_back(0);
    of_soft.push_back(0);
    for (int64_t c = 0; c < kClasses; ++c) {
      const int64_t i = n * kClasses + c;
      p[i] = 1.1 * std::exp(z[i] - log_sum);
      soft[i] = (c + 1) / 10.0;
      const double smoothed = one_hot[i] * 0.9 + 0.1 / kClasses;
      smooth.back() += smoothed * (log_sum - z[i]);
      of_soft.back() += soft[i] * (log_sum - z[i]);
    }
  }
  Checks checks;
  const Value x = checks.Input(logits), probabilities = checks.Input(Floats({kRows, kClasses}, p));
  const Value labels = checks.Input(Array::Of<int64_t>({kRows}, classes)),
              column = checks.Input(*Array::Of<int64_t>({kRows}, classes).Reshape({kRows, 1})),
              as_float = checks.Input(Floats({kRows}, {3, 0, 2, 2, 1})),
              hot = checks.Input(Floats({kRows, kClasses}, one_hot)),
              mixed = checks.Input(Floats({kRows, kClasses}, soft));
  const Loss from_logits = SparseCategoricalCrossentropy({.from_logits = true});
  const Array want = Floats({kRows}, sparse);
  checks.Expect("sparse", from_logits.PerExample(labels, x), want, 2e-6);
  checks.Expect("labels in a column", from_logits.PerExample(column, x), want, 2e-6);
  checks.Expect("labels as floats", from_logits.PerExample(as_float, x), want, 2e-6);
  checks.Expect("of probabilities",
                SparseCategoricalCrossentropy().PerExample(labels, probabilities), want, 2e-6);
  checks.Expect("one-hot", CategoricalCrossentropy({.from_logits = true}).PerExample(hot, x), want,
                2e-6);
  checks.Expect("one-hot of probabilities",
                CategoricalCrossentropy().PerExample(hot, probabilities), want, 2e-6);
  checks.Expect(
      "smoothed",
      CategoricalCrossentropy({.from_logits = true, .label_smoothing = 0.1}).PerExample(hot, x),
      Floats({kRows}, smooth), 2e-6);
  checks.Expect("soft labels", CategoricalCrossentropy({.from_logits = true}).PerExample(mixed, x),
                Floats({kRows}, of_soft), 2e-6);
  checks.Run();
}

TEST(Losses, LargeLogitsAndZeroProbabilitiesStayFinite) {
  Checks checks;
  const Value logits = checks.Input(Floats({3, 2}, {1e4, -1e4, 1e4, -1e4, 1e30, 0})),
              certain = checks.Input(Floats({3, 2}, {1, 0, 1, 0, 0, 1})),
              labels = checks.Input(Array::Of<int64_t>({3}, {0, 1, 0}));
  const Value loss =
      SparseCategoricalCrossentropy({.from_logits = true}).PerExample(labels, logits);
  checks.Expect("large logits", loss, Floats({3}, {0, 2e4, 0}), 1e-6);
  // Keras cuts probabilities at 1e-7.
  const double worst = -std::log(1e-7);
  checks.Expect("probabilities of 0 and 1",
                SparseCategoricalCrossentropy().PerExample(labels, certain),
                Floats({3}, {1e-7, worst, worst}), 1e-6);
  // The gradient of logits is p - y.
  checks.Expect("gradient", ir::Gradients(ir::ReduceSum(loss), {logits})[0],
                Floats({3, 2}, {0, 0, 1, -1, 0, 0}), 1e-6);
  checks.Run();
}

TEST(Losses, AClassThatDoesNotExistIsNanAndTheOthersAreNot) {
  Checks checks;
  const Value logits = checks.Input(Floats({4, 2}, {0, 0, 0, 0, 0, 0, 0, 0})),
              labels = checks.Input(Array::Of<int64_t>({4}, {0, 2, -1, 1}));
  checks.Expect("out of range",
                SparseCategoricalCrossentropy({.from_logits = true}).PerExample(labels, logits),
                Floats({4}, {std::log(2.0), kNan, kNan, std::log(2.0)}), 1e-6);
  checks.Run();
}

TEST(Losses, BytesAsLabelsReachClass255) {
  Checks checks;
  std::vector<double> zeros(2 * 256, 0.0);
  const Value logits = checks.Input(Floats({2, 256}, zeros)),
              labels = checks.Input(Make(DType::kU8, {2}, {255, 0}));
  checks.Expect("u8 labels",
                SparseCategoricalCrossentropy({.from_logits = true}).PerExample(labels, logits),
                Floats({2}, {std::log(256.0), std::log(256.0)}), 1e-6);
  checks.Run();
}

TEST(Losses, SquaredErrorAveragesOverAllButTheBatch) {
  Checks checks;
  const Value a = checks.Input(Floats({2, 3}, {1, 2, 3, 4, 5, 6})),
              b = checks.Input(Floats({2, 3}, {0, 2, 5, 4, 5, 9})),
              column = checks.Input(Floats({2, 1}, {1, 5})),
              row = checks.Input(Floats({2}, {3, 5})),
              deep = checks.Input(Floats({2, 1, 3}, {0, 2, 5, 4, 5, 9})),
              flat = checks.Input(Floats({2, 1, 3}, {1, 2, 3, 4, 5, 6}));
  const Loss mse = MeanSquaredError();
  checks.Expect("matrix", mse.PerExample(a, b), Floats({2}, {5.0 / 3, 3}), 1e-6);
  checks.Expect("vector against column", mse.PerExample(row, column), Floats({2}, {4, 0}), 1e-6);
  checks.Expect("deeper", mse.PerExample(deep, flat), Floats({2}, {5.0 / 3, 3}), 1e-6);
  checks.Run();
}

TEST(Losses, WrongShapesNameBothAndSayWhatToDo) {
  ir::Graph graph("wrong");
  const Value logits = graph.Parameter({DType::kF32, {8, 10}}, "logits"),
              hot = graph.Parameter({DType::kF32, {8, 10}}, "hot");
  EXPECT_FALSE(SparseCategoricalCrossentropy().PerExample(hot, logits).valid());
  EXPECT_THAT(std::string(graph.status().message()),
              AllOf(HasSubstr("use categorical_crossentropy"), HasSubstr("f32[8,10]")));
}

TEST(Losses, OptionsTravelThroughJson) {
  const Loss loss = CategoricalCrossentropy({.from_logits = true, .label_smoothing = 0.2});
  const auto again = Loss::FromJson(loss.ToJson());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->ToJson(), loss.ToJson());
  EXPECT_EQ(loss.ToJson()["config"]["label_smoothing"], 0.2);
  EXPECT_THAT(std::string(Loss::FromName("hinge").status().message()),
              AllOf(HasSubstr("no loss 'hinge'"), HasSubstr("mean_squared_error")));
  EXPECT_TRUE(Loss::FromName("mse").ok());
}

TEST(Metrics, WeightsOfZeroHideAnExampleAndOthersWeighIt) {
  Checks checks;
  const Value logits = checks.Input(Floats({4, 3}, {9, 1, 0, 0, 9, 1, 1, 2, 9, kNan, 0, 0})),
              labels = checks.Input(Array::Of<int64_t>({4}, {0, 2, 2, 0})),
              hot = checks.Input(Floats({4, 3}, {1, 0, 0, 0, 0, 1, 0, 0, 1, 1, 0, 0})),
              weights = checks.Input(Floats({4}, {1, 1, 2, 0}));
  for (const auto& [metric, y] :
       {std::pair(Accuracy(), labels), std::pair(SparseCategoricalAccuracy(), labels),
        std::pair(Accuracy(), hot), std::pair(CategoricalAccuracy(), hot)}) {
    const ir::Values states = metric.Update(y, logits, weights);
    checks.Expect(metric.name(), states[0], Array::Scalar(3.0f));  // 1 + 0 + 2
    checks.Expect(metric.name(), states[1], Array::Scalar(4.0f));
    checks.Expect(metric.name(), metric.Result(states), Array::Scalar(0.75f));
  }
  // The squared error of the example that does not count is NaN.
  const ir::Values errors = MeanSquaredErrorMetric().Update(hot, logits, weights);
  const double want = ((64 + 1) / 3.0 + 81 / 3.0 + 2 * (1 + 4 + 64) / 3.0) / 4;
  checks.Expect("mse", MeanSquaredErrorMetric().Result(errors), Floats({}, {want}), 1e-6);
  const Value scores = checks.Input(Floats({4, 1}, {0.6, 0.4, 0.5, 1})),
              truth = checks.Input(Floats({4, 1}, {1, 1, 0, 0}));
  checks.Expect("binary", Accuracy().Update(truth, scores, weights)[0], Array::Scalar(3.0f));
  const Value none = checks.Input(Floats({}, {0}));
  checks.Expect("nothing yet", MeanResult({none, none}), Array::Scalar(0.0f));
  checks.Run();
}

TEST(Metrics, UnknownNamesAreRefusedWithThoseThereAre) {
  EXPECT_THAT(std::string(Metric::FromName("f1").status().message()),
              AllOf(HasSubstr("no metric 'f1'"), HasSubstr("categorical_accuracy")));
}

}  // namespace
}  // namespace penstock::nn
