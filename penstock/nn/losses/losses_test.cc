// Losses compared with their formulas in double, and their messages for invalid arguments.
// tests/parity compares all of them with Keras.
#include "penstock/nn/losses.h"

#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/ir/gradients.h"
#include "penstock/ir/testing/checks.h"
#include "penstock/ir/testing/run.h"
#include "penstock/nn/metrics.h"

namespace penstock::nn {
namespace losses_test {

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

TEST(Losses, CrossentropiesMatchFormulas) {
  const Array logits = RandomArray({kRows, kClasses}, 1, -3, 3, DType::kF32);
  const std::vector<int64_t> classes{3, 0, 2, 2, 1};
  const std::vector<double> z = Doubles(logits);
  // Probabilities that do not sum to exactly 1 are normalized.
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
  checks.Expect("smoothed class indices",
                SparseCategoricalCrossentropy({.from_logits = true, .label_smoothing = 0.1})
                    .PerExample(labels, x),
                Floats({kRows}, smooth), 2e-6);
  checks.Expect(
      "smoothed class indices of probabilities",
      SparseCategoricalCrossentropy({.label_smoothing = 0.1}).PerExample(labels, probabilities),
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
  // Keras clips probabilities to at least 1e-7.
  const double worst = -std::log(1e-7);
  checks.Expect("probabilities of 0 and 1",
                SparseCategoricalCrossentropy().PerExample(labels, certain),
                Floats({3}, {1e-7, worst, worst}), 1e-6);
  // The gradient with respect to the logits is p - y.
  checks.Expect("gradient", ir::Gradients(ir::ReduceSum(loss), {logits})[0],
                Floats({3, 2}, {0, 0, 1, -1, 0, 0}), 1e-6);
  checks.Run();
}

TEST(Losses, OutOfRangeClassGivesNaNForItsExampleOnly) {
  Checks checks;
  const Value logits = checks.Input(Floats({4, 2}, {0, 0, 0, 0, 0, 0, 0, 0})),
              labels = checks.Input(Array::Of<int64_t>({4}, {0, 2, -1, 1}));
  checks.Expect("out of range",
                SparseCategoricalCrossentropy({.from_logits = true}).PerExample(labels, logits),
                Floats({4}, {std::log(2.0), kNan, kNan, std::log(2.0)}), 1e-6);
  checks.Run();
}

TEST(Losses, AcceptsByteLabelsUpToClass255) {
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

// Keras's squeeze_or_expand_to_same_rank.
TEST(Losses, LabelsOfStepsDropTheLastAxisOfPredictions) {
  Checks checks;
  const Value labels = checks.Input(Floats({2, 3}, {1, 0, 2, 3, 4, 0})),
              predictions = checks.Input(Floats({2, 3, 1}, {2, 0, 1, 3, 2, 6})),
              mask = checks.Input(Array::Of<bool>({2, 3}, {true, false, true, true, true, false})),
              weights = checks.Input(Floats({2, 3}, {1, 1, 1, 0, 2, 1}));
  // The angle between the rows {1, 0, 2} and {2, 0, 1}, and so on, not between single numbers.
  checks.Expect("direction of the steps", CosineSimilarity().PerExample(labels, predictions),
                Floats({2}, {-4 / 5.0, -17 / (5 * 7.0)}), 1e-6);
  checks.Expect("sum of means",
                MeanSquaredError().WithReduction(Reduction::kSum)(labels, predictions),
                Array::Scalar(static_cast<float>(2 / 3.0 + 40 / 3.0)), 1e-6);
  checks.Expect("unreduced",
                MeanSquaredError().WithReduction(Reduction::kNone)(predictions, labels),
                Floats({2}, {2 / 3.0, 40 / 3.0}), 1e-6);
  // A mask and weights of single steps keep the axis.
  checks.Expect("masked", MeanSquaredError()(labels, predictions, {}, mask),
                Array::Scalar(static_cast<float>((1 + 1 + 0 + 4) / 4.0)), 1e-6);
  checks.Expect("weights of steps", MeanSquaredError()(labels, predictions, weights),
                Array::Scalar(static_cast<float>((1 + 0 + 1 + 0 + 8 + 36) / 6.0)), 1e-6);
  checks.Run();
}

TEST(Losses, FunctionsGetLabelsAndPredictionsOfOneRank) {
  Checks checks;
  const Value row = checks.Input(Floats({3}, {1, 2, 4})),
              column = checks.Input(Floats({3, 1}, {1, 4, 3})),
              column_of_classes = checks.Input(Array::Of<int64_t>({3, 1}, {1, 2, 4}));
  const Loss loss = CustomLoss("mine", [](Value y, Value p) {
    return ir::ReduceMean(ir::Abs(p - ir::Convert(y, p.dtype())), {-1});
  });
  checks.Expect("labels [batch]", loss.PerExample(row, column), Floats({3}, {0, 2, 1}));
  checks.Expect("predictions [batch]", loss.PerExample(column_of_classes, row),
                Floats({3}, {0, 0, 0}));
  checks.Expect(
      "metric",
      CustomMean("mine", [](Value y, Value p) { return ir::Square(y - p); }).Update(row, column)[0],
      Array::Scalar(5.0f));
  checks.Run();
}

TEST(Losses, AFunctionThatBroadcastsRowsWithRowsIsAnError) {
  const auto message = [](const ir::TensorType& y_true, const ir::TensorType& y_pred) {
    ir::Graph graph("wrong");
    // Prepared for labels [batch], as if nothing aligned them.
    const Loss loss = CustomLoss("mine", [](Value y, Value p) {
      return ir::Square(ir::Reshape(p, {p.shape().dim(0)}) - y);
    });
    EXPECT_FALSE(
        loss.PerExample(graph.Parameter(y_true, "y"), graph.Parameter(y_pred, "p")).valid());
    return std::string(graph.status().message());
  };
  EXPECT_THAT(message({DType::kF32, {4}}, {DType::kF32, {4, 1}}),
              AllOf(HasSubstr("'mine' returned f32[4,4]"), HasSubstr("gets both as [4,1]")));
}

// Error message of `loss` for labels and predictions of these types.
std::string MessageFor(const Loss& loss, const ir::TensorType& y_true,
                       const ir::TensorType& y_pred) {
  ir::Graph graph("wrong");
  const Value labels = graph.Parameter(y_true, "y"), predictions = graph.Parameter(y_pred, "p");
  EXPECT_FALSE(loss.PerExample(labels, predictions).valid());
  return std::string(graph.status().message());
}

TEST(Losses, ShapeErrorsStateBothShapesAndRemedy) {
  const ir::TensorType classes{DType::kI32, {8}}, one_hot{DType::kF32, {8, 10}},
      column{DType::kF32, {8, 1}}, wide{DType::kF32, {8, 12}};
  EXPECT_THAT(MessageFor(SparseCategoricalCrossentropy(), one_hot, one_hot),
              AllOf(HasSubstr("use categorical_crossentropy"), HasSubstr("f32[8,10]")));
  EXPECT_THAT(MessageFor(CategoricalCrossentropy(), classes, one_hot),
              AllOf(HasSubstr("use sparse_categorical_crossentropy"), HasSubstr("i32[8]")));
  EXPECT_THAT(MessageFor(CategoricalCrossentropy(), column, column),
              HasSubstr("use binary_crossentropy"));
  EXPECT_THAT(MessageFor(SparseCategoricalCrossentropy(), classes, column),
              HasSubstr("use binary_crossentropy"));
  EXPECT_THAT(MessageFor(BinaryCrossentropy(), classes, one_hot),
              AllOf(HasSubstr("begins with sparse_"), HasSubstr("1 unit instead of 10")));
  EXPECT_THAT(MessageFor(MeanSquaredError(), wide, one_hot),
              HasSubstr("the last layer has 10 units and the labels 12 columns"));
  EXPECT_THAT(MessageFor(CategoricalCrossentropy({.axis = 0}), one_hot, one_hot),
              AllOf(HasSubstr("axis 0"), HasSubstr("batch")));
  EXPECT_THAT(MessageFor(CTC(), one_hot, one_hot), HasSubstr("[batch, steps, classes]"));
}

TEST(Losses, RejectsInvalidOptions) {
  const ir::TensorType one_hot{DType::kF32, {8, 10}};
  EXPECT_THAT(MessageFor(MeanSquaredError().WithReduction("avg"), one_hot, one_hot),
              AllOf(HasSubstr("unknown reduction 'avg'"), HasSubstr("sum_over_batch_size")));
  EXPECT_THAT(MessageFor(CategoricalCrossentropy({.label_smoothing = 2}), one_hot, one_hot),
              HasSubstr("label_smoothing must be from 0 to 1, got 2"));
  EXPECT_FALSE(CategoricalGeneralizedCrossEntropy({.q = 1}).Check().ok());
}

TEST(Losses, RejectsMasksOfWrongShape) {
  ir::Graph graph("wrong");
  const Value p = graph.Parameter({DType::kF32, {8, 5, 10}}, "p"),
              mask = graph.Parameter({DType::kBool, {8, 6}}, "mask");
  EXPECT_FALSE(MeanSquaredError().PerExample(p, p, mask).valid());
  EXPECT_THAT(std::string(graph.status().message()), AllOf(HasSubstr("masks have the first axes"),
                                                           HasSubstr("[8,5]"), HasSubstr("[8,6]")));
}

TEST(Losses, CheckLabelsFindsInvalidLabels) {
  const ir::TensorType ten{DType::kF32, {4, 10}}, one{DType::kF32, {4, 1}};
  const auto message = [](const Loss& loss, const Array& labels, const ir::TensorType& type) {
    return std::string(loss.CheckLabels(labels, type).message());
  };
  const Loss sparse = SparseCategoricalCrossentropy();
  EXPECT_THAT(message(sparse, Array::Of<int64_t>({4}, {1, 9, 10, 3}), ten),
              AllOf(HasSubstr("0 to 9"), HasSubstr("label 2"), HasSubstr("is 10"),
                    HasSubstr("subtract 1")));
  EXPECT_THAT(message(sparse, Array::Of<int64_t>({4}, {1, -1, 0, 3}), ten), HasSubstr("is -1"));
  EXPECT_THAT(message(sparse, Array::Of<int64_t>({4}, {1, 1'000'003, 0, 3}), ten),
              HasSubstr("is 1000003"));
  EXPECT_THAT(message(sparse, Floats({4}, {1, 0.5, 0, 3}), ten), HasSubstr("whole"));
  EXPECT_EQ(message(sparse, Array::Of<int64_t>({4}, {1, 9, 0, 3}), ten), "");
  EXPECT_EQ(message(SparseCategoricalCrossentropy({.ignore_class = 255}),
                    Array::Of<int64_t>({4}, {1, 255, 0, 3}), ten),
            "");
  EXPECT_THAT(message(BinaryCrossentropy(), Floats({4, 1}, {1, -1, 1, 1}), one),
              HasSubstr("hinge takes -1 and 1"));
  EXPECT_THAT(
      message(CategoricalCrossentropy(), Floats({2, 3}, {1, 0, 0, 1, 1, 0}), {DType::kF32, {2, 3}}),
      AllOf(HasSubstr("row 1 sum to 2"), HasSubstr("binary_crossentropy")));
  EXPECT_THAT(message(Poisson(), Floats({4, 1}, {1, -2, 1, 1}), one), HasSubstr("negative"));
  EXPECT_EQ(message(MeanSquaredError(), Floats({4, 1}, {1, -2, 1, 1}), one), "");
  EXPECT_EQ(
      message(CategoricalHinge(), Floats({2, 3}, {1, -1, -1, -1, 1, -1}), {DType::kF32, {2, 3}}),
      "");
}

TEST(Losses, CheckLabelsTakesTheAxisOfTheClasses) {
  const auto message = [](const Loss& loss, const Array& labels, const ir::TensorType& type) {
    return std::string(loss.CheckLabels(labels, type).message());
  };
  const ir::TensorType maps{DType::kF32, {-1, 3, 2, 2}}, row{DType::kF32, {-1, 3, 1, 2}};
  const Loss sparse = SparseCategoricalCrossentropy({.axis = 1});
  EXPECT_EQ(message(sparse, Array::Of<int64_t>({1, 2, 2}, {0, 1, 2, 2}), maps), "");
  EXPECT_THAT(message(sparse, Array::Of<int64_t>({1, 2, 2}, {0, 1, 3, 2}), maps),
              HasSubstr("0 to 2"));
  for (const Loss& loss :
       {CategoricalCrossentropy({.axis = 1}), CategoricalFocalCrossentropy({.axis = 1})}) {
    EXPECT_EQ(message(loss, Floats({1, 3, 1, 2}, {1, 0, 0, 0, 0, 1}), row), "");
    EXPECT_THAT(message(loss, Floats({2, 3, 1, 2}, {1, 0, 0, 0, 0, 1, 0, 1, 0, 1, 1, 1}), row),
                HasSubstr("row 3 sum to 3"));
  }
}

TEST(Losses, WarnsAboutMissingOrDuplicateSoftmax) {
  ir::Graph graph("advice");
  const Value x = graph.Parameter({DType::kF32, {8, 5}}, "x"),
              w = graph.Parameter({DType::kF32, {5, 3}}, "w"),
              b = graph.Parameter({DType::kF32, {3}}, "b");
  const Value linear = ir::MatMul(x, w) + b;
  const Loss of_probabilities = SparseCategoricalCrossentropy(),
             of_logits = SparseCategoricalCrossentropy({.from_logits = true});
  EXPECT_THAT(of_probabilities.LogitsWarning(linear), HasSubstr("set from_logits"));
  EXPECT_THAT(of_logits.LogitsWarning(ir::Softmax(linear)), HasSubstr("leave out from_logits"));
  EXPECT_THAT(BinaryCrossentropy({.from_logits = true}).LogitsWarning(ir::Sigmoid(linear)),
              HasSubstr("leave out"));
  EXPECT_EQ(of_probabilities.LogitsWarning(ir::Softmax(linear)), "");
  EXPECT_EQ(of_logits.LogitsWarning(linear), "");
  EXPECT_EQ(of_probabilities.LogitsWarning(ir::Relu(linear)), "");
  EXPECT_EQ(MeanSquaredError().LogitsWarning(linear), "");
}

TEST(Losses, TermsStayExactWithPaddingAndMasks) {
  // Three real sequences and one padding row; four of the nine real steps are masked.
  Checks checks;
  const Value y = checks.Input(Floats({4, 3, 1}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})),
              p = checks.Input(Floats({4, 3, 1}, {1, 2, 3, 4, 5, 6, 7, 8, 9, kNan, kNan, kNan})),
              mask = checks.Input(Floats({4, 3}, {1, 0, 1, 0, 1, 0, 1, 1, 0, 1, 1, 1})),
              examples = checks.Input(Floats({4}, {1, 1, 1, 0}));
  const LossTerms terms =
      MeanAbsoluteError().Terms({.y_true = y, .y_pred = p, .mask = mask, .examples = examples});
  const Value real = ir::Greater(examples, ir::SplatLike(examples, 0));
  const Value sum = ir::ReduceSum(ir::Select(real, terms.sum, ir::SplatLike(terms.sum, 0)));
  checks.Expect("mean of those that count", sum / ir::ReduceSum(terms.count * examples),
                Floats({}, {(1 + 3 + 5 + 7 + 8) / 5.0}), 1e-6);
  const Value none = ir::SplatLike(mask, 0);
  checks.Expect("everything is masked out", MeanAbsoluteError().PerExample(y, p, none),
                Floats({4}, {0, 0, 0, 0}));
  checks.Run();
}

TEST(Losses, ExcludesPaddingFromBatchLosses) {
  Checks checks;
  const Value y = checks.Input(Floats({3, 2}, {1, 0, 0, 1, 1, 1})),
              p = checks.Input(Floats({3, 2}, {0.5, 0.25, 0, 1, kNan, 3})),
              examples = checks.Input(Floats({3}, {1, 1, 0}));
  const LossTerms dice = Dice().Terms({.y_true = y, .y_pred = p, .examples = examples});
  const double want = 1 - 2 * (0.5 + 1) / (2 + 1.75 + 1e-7);
  checks.Expect("dice", dice.sum, Floats({3}, {want, want, want}), 1e-6);
  // If padding counted, its label of 7 would keep 0 from being taken for -1.
  const Value binary = checks.Input(Floats({3, 1}, {0, 1, 7})),
              score = checks.Input(Floats({3, 1}, {0.5, 0.5, 0}));
  const LossTerms hinge = Hinge().Terms({.y_true = binary, .y_pred = score, .examples = examples});
  checks.Expect("hinge", ir::SliceAxis(hinge.sum, 0, 0, 2), Floats({2}, {1.5, 0.5}), 1e-6);
  checks.Run();
}

TEST(Losses, ZeroVectorsHaveFiniteGradient) {
  Checks checks;
  const Value y = checks.Input(Floats({1, 2}, {3, 4})), p = checks.Input(Floats({1, 2}, {0, 0}));
  const Value loss = ir::ReduceSum(CosineSimilarity().PerExample(y, p));
  // -(y / |y|) / epsilon
  checks.Expect("gradient", ir::Gradients(loss, {p})[0], Floats({1, 2}, {-6e6, -8e6}), 1e-5);
  checks.Run();
}

TEST(Losses, OptionsRoundTripThroughJson) {
  for (const std::string& name : Loss::Names()) {
    const auto loss = Loss::FromName(name);
    ASSERT_TRUE(loss.ok()) << loss.status();
    EXPECT_EQ(loss->name(), name);
    const auto again = Loss::FromJson(loss->ToJson());
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->ToJson(), loss->ToJson());
  }
  const Loss loss = CategoricalCrossentropy({.from_logits = true, .label_smoothing = 0.2});
  EXPECT_EQ(loss.ToJson()["config"]["label_smoothing"], 0.2);
  // Keras's loss for class indices has no such option, so its key is written only if it is given.
  const Loss sparse = SparseCategoricalCrossentropy({.label_smoothing = 0.2});
  EXPECT_EQ(Loss::FromJson(sparse.ToJson())->ToJson()["config"]["label_smoothing"], 0.2);
  EXPECT_FALSE(SparseCategoricalCrossentropy().ToJson()["config"].contains("label_smoothing"));
  const Loss dice = Dice({.axis = {{1, 2}}}).WithReduction("sum");
  const auto same = Loss::FromJson(dice.ToJson());
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(same->ToJson(), dice.ToJson());
  EXPECT_EQ(same->reduction(), "sum");
  // The format written by Keras.
  const auto keras = Loss::FromJson(nlohmann::ordered_json::parse(
      R"({"class_name": "Huber", "config": {"name": "huber_loss", "reduction": "mean",
          "dtype": "float32", "delta": 2.0}})"));
  ASSERT_TRUE(keras.ok()) << keras.status();
  EXPECT_EQ(keras->ToJson()["config"]["delta"], 2.0);
  EXPECT_EQ(Loss::FromJson({{"name", "hinge"}, {"config", {{"reduction", nullptr}}}})->reduction(),
            "none");
  EXPECT_THAT(std::string(Loss::FromName("hinges").status().message()),
              AllOf(HasSubstr("unknown loss 'hinges'"), HasSubstr("mean_squared_error")));
  for (const char* name : {"mse", "MSE", "MeanSquaredError", "bce", "kld", "huber_loss", "ce"})
    EXPECT_TRUE(Loss::FromName(name).ok()) << name;
}

// ---- The options of every loss ----

// A loss by its factory, and a batch for it. `make` sets the two options that all losses have.
struct LossCase {
  std::function<Loss(const LossOptions&)> make;
  Array y_true, y_pred;
};

template <typename Options>
std::function<Loss(const LossOptions&)> Factory(Loss (*make)(const Options&),
                                                Options options = {}) {
  return [make, options](const LossOptions& common) mutable {
    options.reduction = common.reduction;
    options.name = common.name;
    return make(options);
  };
}

// All losses of losses.h, each with four values per batch.
std::vector<LossCase> AllLosses() {
  const Array probabilities =
      Floats({4, 3}, {0.7, 0.2, 0.1, 0.3, 0.3, 0.4, 0.1, 0.8, 0.1, 0.25, 0.25, 0.5});
  const Array one_hot = Floats({4, 3}, {1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 1});
  const Array classes = Array::Of<int64_t>({4}, {0, 1, 1, 2});
  std::vector<LossCase> losses = {
      {Factory(SparseCategoricalCrossentropy), classes, probabilities},
      {Factory(CategoricalGeneralizedCrossEntropy), classes, probabilities},
      {Factory(Circle), Array::Of<int64_t>({4}, {0, 1, 0, 1}),
       Floats({4, 2}, {1, 0, 0.6, 0.8, 0, 1, 0.8, -0.6})},
      {Factory(CTC), Array::Of<int64_t>({4, 2}, {1, 2, 2, 2, 1, 0, 2, 1}),
       RandomArray({4, 6, 3}, 1, -1, 1, DType::kF32)}};
  for (const auto& make :
       {Factory(CategoricalCrossentropy), Factory(BinaryCrossentropy),
        Factory(BinaryFocalCrossentropy), Factory(CategoricalFocalCrossentropy), Factory(Hinge),
        Factory(SquaredHinge), Factory(CategoricalHinge), Factory(MeanSquaredError),
        Factory(MeanAbsoluteError), Factory(MeanAbsolutePercentageError),
        Factory(MeanSquaredLogarithmicError), Factory(LogCosh), Factory(Huber), Factory(Poisson),
        Factory(KLDivergence), Factory(CosineSimilarity),
        // Without an axis the batch has one value, which no reduction changes.
        Factory(Dice, {.axis = std::vector<int64_t>{1}}),
        Factory(Tversky, {.axis = std::vector<int64_t>{1}})}) {
    losses.push_back({make, one_hot, probabilities});
  }
  return losses;
}

TEST(LossOptions, ExistForEveryLoss) {
  std::vector<std::string> names;
  for (const LossCase& one : AllLosses()) {
    const Loss loss = one.make({});
    names.emplace_back(loss.name());
    EXPECT_EQ(loss.reduction(), "sum_over_batch_size") << loss.name();
  }
  names.push_back("crossentropy");  // a name for strings only
  EXPECT_THAT(names, ::testing::UnorderedElementsAreArray(Loss::Names()));
}

TEST(LossOptions, ReductionsOfEveryLossMatchFormulas) {
  const std::vector<double> weights{1, 2, 0, 0.5};
  ir::Graph graph("reductions");
  std::vector<Array> inputs;
  const auto input = [&](const Array& array) {
    inputs.push_back(array);
    return graph.Parameter({array.dtype(), array.shape()}, absl::StrCat("x", inputs.size()));
  };
  const Value w = input(Floats({4}, weights));
  ir::Values results;
  for (const LossCase& one : AllLosses()) {
    const Value y = input(one.y_true), p = input(one.y_pred);
    results.push_back(one.make({}).PerExample(y, p));
    for (const char* reduction : Reduction::kNames) {
      results.push_back(one.make({.reduction = reduction})(y, p, w));
      results.push_back(one.make({.reduction = reduction})(y, p));
    }
  }
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  graph.SetResults(results);
  const auto values = ir::testing::Run(graph, inputs);
  ASSERT_TRUE(values.ok()) << values.status();
  size_t next = 0;
  for (const LossCase& one : AllLosses()) {
    const std::string name(one.make({}).name());
    const std::vector<double> each = Doubles((*values)[next++]);
    ASSERT_EQ(each.size(), 4u) << name;
    std::vector<double> weighted;
    double sum = 0, plain_sum = 0;
    for (int i = 0; i < 4; ++i) {
      EXPECT_NE(each[i], 0) << name;
      weighted.push_back(each[i] * weights[i]);
      sum += weighted[i], plain_sum += each[i];
    }
    const std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> want = {
        {"sum_over_batch_size", {{sum / 4}, {plain_sum / 4}}},
        {"mean", {{sum / 4}, {plain_sum / 4}}},
        {"sum", {{sum}, {plain_sum}}},
        {"mean_with_sample_weight", {{sum / 3.5}, {plain_sum / 4}}},
        {"none", {weighted, each}}};
    for (const char* reduction : Reduction::kNames) {
      const auto near = [](const std::vector<double>& numbers) {
        std::vector<::testing::Matcher<double>> matchers;
        for (double x : numbers) matchers.push_back(::testing::DoubleNear(x, 1e-5 * std::abs(x)));
        return ::testing::ElementsAreArray(matchers);
      };
      EXPECT_THAT(Doubles((*values)[next++]), near(want.at(reduction).first))
          << name << ", " << reduction << ", with weights";
      EXPECT_THAT(Doubles((*values)[next++]), near(want.at(reduction).second))
          << name << ", " << reduction;
    }
  }
}

TEST(LossOptions, RoundTripThroughJsonForEveryLoss) {
  for (const LossCase& one : AllLosses()) {
    const Loss plain = one.make({});
    const std::string default_name(plain.name());
    EXPECT_FALSE(plain.ToJson()["config"].contains("name")) << default_name;
    for (const char* reduction : Reduction::kNames) {
      const Loss loss = one.make({.reduction = reduction, .name = "mine"});
      EXPECT_TRUE(loss.Check().ok()) << loss.Check();
      EXPECT_EQ(loss.ToJson()["name"], default_name);
      EXPECT_EQ(loss.ToJson()["config"]["reduction"], reduction);
      EXPECT_EQ(loss.ToJson(), plain.WithReduction(reduction).Named("mine").ToJson());
      const auto read = Loss::FromJson(loss.ToJson());
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(read->reduction(), reduction);
      EXPECT_EQ(read->name(), "mine");
      EXPECT_EQ(read->ToJson(), loss.ToJson());
      EXPECT_EQ(read->Named("").WithReduction("mean").ToJson(),
                one.make({.reduction = "mean"}).ToJson());
    }
    EXPECT_FALSE(one.make({.reduction = "average"}).Check().ok()) << default_name;
    EXPECT_FALSE(one.make({.name = "\xff"}).Check().ok()) << default_name;
  }
}

TEST(LossOptions, LastReductionWins) {
  EXPECT_EQ(Huber({.reduction = Reduction::kSum}).reduction(), "sum");
  EXPECT_EQ(Huber({.reduction = Reduction::kSum}).WithReduction(Reduction::kNone).reduction(),
            "none");
  const Loss of_body(MeanSquaredError().body(), {.reduction = Reduction::kSum, .name = "mine"});
  EXPECT_EQ(of_body.ToJson(),
            MeanSquaredError({.reduction = Reduction::kSum, .name = "mine"}).ToJson());
}

TEST(LossOptions, NameAppearsInMessagesAndAsMetric) {
  const Loss loss = Huber({.delta = 2, .name = "robust"});
  EXPECT_THAT(std::string(loss.WithReduction("avg").Check().message()), HasSubstr("robust: "));
  const Metric metric = MeanOfLoss(loss);
  EXPECT_EQ(metric.name(), "robust");
  const auto read = Metric::FromJson(metric.ToJson());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->name(), "robust");
  EXPECT_EQ(read->ToJson(), metric.ToJson());
}

TEST(Losses, AcceptsCustomFunction) {
  Checks checks;
  const Loss fourth =
      CustomLoss("fourth_power", [](Value y, Value p) { return ir::Square(ir::Square(y - p)); });
  const Value y = checks.Input(Floats({2, 2}, {0, 0, 0, 0})),
              p = checks.Input(Floats({2, 2}, {1, 2, 0, 1}));
  checks.Expect("each", fourth.PerExample(y, p), Floats({2}, {8.5, 0.5}));
  checks.Run();
  EXPECT_EQ(fourth.name(), "fourth_power");
  EXPECT_FALSE(Loss::FromJson(fourth.ToJson()).ok());
}

}  // namespace losses_test
}  // namespace penstock::nn
