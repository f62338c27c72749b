// Behavior common to all metrics, and their messages for invalid arguments. tests/parity compares
// all of them with Keras.
#include "penstock/nn/metrics.h"

#include <cmath>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/ir/testing/checks.h"

namespace penstock::nn {
namespace metrics_test {

using base::Array;
using base::DType;
using ir::Value;
using ir::Values;
using ir::testing::Checks;
using ir::testing::Make;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Array Floats(const base::Shape& shape, const std::vector<double>& values) {
  return Make(DType::kF32, shape, values);
}

TEST(Metrics, ZeroWeightsExcludeExamples) {
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
  // The squared error of the example with weight 0 is NaN.
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

// Class indices [batch] and [batch, 1] count as the one-hot labels that Keras requires.
TEST(Metrics, FScoresTakeClassIndices) {
  ir::testing::Checks checks;
  const Array numbers = Array::Of<int64_t>({6}, {0, 2, 1, 2, 2, 0});
  const Value labels = checks.Input(numbers), columns = ir::Reshape(labels, {6, 1}),
              hot = ir::OneHot(labels, 3, DType::kF32),
              scores = checks.Input(ir::testing::RandomArray({6, 3}, 5, 0, 1, DType::kF32)),
              weights = checks.Input(Array::Of<float>({6}, {1, 2, 3, 1, 0.5, 0}));
  for (const Metric& metric : {F1Score({.average = "macro"}), F1Score({.average = "micro"}),
                               F1Score({.average = "weighted"}), FBetaScore({.beta = 2})}) {
    const Value want = metric.Result(metric.Update(hot, scores, weights));
    for (const Value& y : {labels, columns}) {
      const Value got = metric.Result(metric.Update(y, scores, weights));
      checks.Expect("difference", got - want, Array::Scalar(0.0f));
      checks.Expect("is not trivial",
                    ir::Convert(ir::Greater(got, ir::SplatLike(got, 0.05)), DType::kF32),
                    Array::Scalar(1.0f));
    }
  }
  checks.Run();
}

TEST(Metrics, AccuracyByNameIgnoresCaseAsKerasDoes) {
  for (const char* name : {"accuracy", "Accuracy", "acc", "ACC"}) {
    const auto metric = Metric::FromName(name);
    ASSERT_TRUE(metric.ok()) << metric.status();
    EXPECT_EQ(metric->ToJson()["name"], "accuracy") << name;
    EXPECT_EQ(metric->name(), name);
  }
  const auto exact = Metric::FromJson({{"class_name", "Accuracy"}, {"config", Json::object()}});
  ASSERT_TRUE(exact.ok()) << exact.status();
  EXPECT_EQ(exact->ToJson()["name"], "exact_accuracy");
}

TEST(Metrics, ShortNames) {
  EXPECT_EQ(Metric::FromName("f1")->name(), "f1");
  EXPECT_EQ(Metric::FromName("f1")->ToJson()["name"], "f1_score");
  EXPECT_EQ(Metric::FromName("top5")->ToJson()["name"], "sparse_top_k_categorical_accuracy");
}

TEST(Metrics, RejectsUnknownNamesAndListsKnownOnes) {
  EXPECT_THAT(std::string(Metric::FromName("f2").status().message()),
              AllOf(HasSubstr("unknown metric 'f2'"), HasSubstr("categorical_accuracy")));
}

// Directions as in Keras's `_direction`: accuracies, curves, and scores increase; losses and errors
// decrease; others have none. A new row of the table of metrics needs a line here.
TEST(Metrics, DirectionsMatchKeras) {
  const std::set<std::string> falls{"mean_squared_error",
                                    "root_mean_squared_error",
                                    "mean_absolute_error",
                                    "mean_absolute_percentage_error",
                                    "mean_squared_logarithmic_error",
                                    "logcosh",
                                    "kl_divergence",
                                    "poisson",
                                    "binary_crossentropy",
                                    "categorical_crossentropy",
                                    "sparse_categorical_crossentropy",
                                    "hinge",
                                    "squared_hinge",
                                    "categorical_hinge"},
      rises{"accuracy",
            "exact_accuracy",
            "sparse_categorical_accuracy",
            "categorical_accuracy",
            "binary_accuracy",
            "top_k_categorical_accuracy",
            "sparse_top_k_categorical_accuracy",
            "cosine_similarity",
            "pearson_correlation",
            "concordance_correlation",
            "r2_score",
            "precision",
            "recall",
            "fbeta_score",
            "f1_score",
            "auc",
            "sensitivity_at_specificity",
            "specificity_at_sensitivity",
            "precision_at_recall",
            "recall_at_precision",
            "io_u",
            "mean_io_u",
            "one_hot_io_u",
            "one_hot_mean_io_u",
            "binary_io_u"},
      unknown{"mean",           "sum", "true_positives", "true_negatives", "false_positives",
              "false_negatives"};
  EXPECT_EQ(falls.size() + rises.size() + unknown.size(), Metric::Names().size());
  for (const std::string& name : Metric::Names()) {
    ASSERT_EQ(falls.count(name) + rises.count(name) + unknown.count(name), 1u) << name;
    const MetricDirection expected = falls.count(name) > 0   ? MetricDirection::kDown
                                     : rises.count(name) > 0 ? MetricDirection::kUp
                                                             : MetricDirection::kUnknown;
    EXPECT_EQ(Metric::FromName(name)->Named("loss_of_accuracy").direction(), expected) << name;
  }
}

TEST(Metrics, CustomFunctionsHaveTheGivenDirection) {
  const auto function = [](Value y, Value p) { return ir::Square(y - p); };
  EXPECT_EQ(CustomMean("accuracy", function).direction(), MetricDirection::kUnknown);
  EXPECT_EQ(CustomMean("score", function, MetricDirection::kUp).direction(), MetricDirection::kUp);
  EXPECT_EQ(MeanOfLoss(CustomLoss("mine", function)).direction(), MetricDirection::kUnknown);
  EXPECT_EQ(MeanOfLoss(Huber()).direction(), MetricDirection::kDown);
  EXPECT_EQ(Metric::FromName("huber")->direction(), MetricDirection::kDown);
  // Loading must not return the built-in metric with the same name.
  EXPECT_THAT(
      std::string(Metric::FromJson(CustomMean("accuracy", function).ToJson()).status().message()),
      HasSubstr("the metric 'accuracy' is a function of the program that saved it"));
  EXPECT_THAT(
      std::string(Loss::FromJson(CustomLoss("hinge", function).ToJson()).status().message()),
      HasSubstr("the loss 'hinge' is a function of the program that saved it"));
}

// A metric by name, with its required options.
Metric Made(const std::string& name) {
  Json config = Json::object();
  if (name == "io_u") config = {{"num_classes", 3}, {"target_class_ids", {0, 2}}};
  if (name == "mean_io_u") config = {{"num_classes", 3}};
  if (name == "one_hot_io_u") config = {{"num_classes", 4}, {"target_class_ids", {1}}};
  if (name == "one_hot_mean_io_u") config = {{"num_classes", 4}};
  const auto metric = Metric::FromJson({{"name", name}, {"config", config}});
  PENSTOCK_CHECK_OK(metric);
  return *metric;
}

TEST(Metrics, ResultsDoNotDependOnBatchesAndPadding) {
  // Six examples at once must equal two batches: three examples, then three and a padding row.
  const std::vector<double> scores{0.1, 0.2, 0.4, 0.3, 0.7, 0.1, 0.1, 0.1, 0.0, 0.2, 0.2, 0.6,
                                   0.3, 0.3, 0.3, 0.1, 0.5, 0.2, 0.2, 0.1, 0.2, 0.0, 0.8, 0.0};
  const std::vector<double> hot{0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0,
                                0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0};
  const std::vector<double> classes{2, 0, 1, 3, 0, 2}, weights{1, 2, 0.5, 1, 0, 3};
  const auto part = [](const std::vector<double>& x, int begin, int end, int width) {
    return std::vector<double>(x.begin() + begin * width, x.begin() + end * width);
  };
  const auto padded = [](std::vector<double> x, int width, double padding) {
    x.insert(x.end(), width, padding);
    return x;
  };
  Checks checks;
  const auto labels = [&](bool sparse, int begin, int end, bool pad) {
    std::vector<double> x = sparse ? part(classes, begin, end, 1) : part(hot, begin, end, 4);
    if (pad) x = padded(x, sparse ? 1 : 4, 0);
    const int64_t rows = end - begin + pad;
    return checks.Input(sparse ? Floats({rows}, x) : Floats({rows, 4}, x));
  };
  const Value p = checks.Input(Floats({6, 4}, scores)), w = checks.Input(Floats({6}, weights)),
              p1 = checks.Input(Floats({3, 4}, part(scores, 0, 3, 4))),
              w1 = checks.Input(Floats({3}, part(weights, 0, 3, 1))),
              p2 = checks.Input(Floats({4, 4}, padded(part(scores, 3, 6, 4), 4, kNan))),
              w2 = checks.Input(Floats({4}, padded(part(weights, 3, 6, 1), 1, 0)));
  for (const std::string& name : Metric::Names()) {
    const Metric metric = Made(name);
    const bool sparse =
        name.find("sparse") != std::string::npos || name == "io_u" || name == "mean_io_u";
    const auto predictions = [&](Value x) {
      const bool numbers = name == "io_u" || name == "mean_io_u";
      return numbers ? ir::ArgMax(x, 1) : x;
    };
    const Values all = metric.Update(labels(sparse, 0, 6, false), predictions(p), w);
    const Values first = metric.Update(labels(sparse, 0, 3, false), predictions(p1), w1),
                 second = metric.Update(labels(sparse, 3, 6, true), predictions(p2), w2);
    ASSERT_TRUE(checks.graph().status().ok()) << name << ": " << checks.graph().status();
    const auto types = metric.States(p.type());
    ASSERT_EQ(types.size(), metric.num_states());
    Values sums;
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i].type().ToString(), types[i].ToString()) << name;
      sums.push_back(first[i] + second[i]);
    }
    const Value whole = metric.Result(all), parts = metric.Result(sums);
    EXPECT_EQ(whole.type().ToString(), "f32[]") << name;
    const Value scale = ir::Maximum(ir::Abs(whole), ir::SplatLike(whole, 1));
    checks.Expect(name, (whole - parts) / scale, Floats({}, {0}), 1e-5);
  }
  checks.Run();
}

TEST(Metrics, OptionsAndNamesRoundTripThroughJson) {
  for (const std::string& name : Metric::Names()) {
    const Metric metric = Made(name);
    EXPECT_EQ(metric.name(), name);
    const auto again = Metric::FromJson(metric.ToJson());
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->ToJson(), metric.ToJson());
  }
  const Metric auc =
      AUC({.num_thresholds = 50, .curve = "PR", .label_weights = {1, 2}}).Named("pr_auc");
  const auto again = Metric::FromJson(auc.ToJson());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->ToJson(), auc.ToJson());
  EXPECT_EQ(again->name(), "pr_auc");
  // What is not given is null, as in Keras: an empty list would be no thresholds.
  EXPECT_TRUE(AUC().ToJson()["config"]["thresholds"].is_null());
  EXPECT_TRUE(AUC().ToJson()["config"]["label_weights"].is_null());
  const Metric two = AUC({.thresholds = {0.25, 0.5}});
  EXPECT_EQ(Metric::FromJson(two.ToJson())->ToJson(), two.ToJson());
  // The loss has the opposite sign of the metric of its name.
  const auto cosine = Metric::FromJson(MeanOfLoss(CosineSimilarity()).ToJson());
  ASSERT_TRUE(cosine.ok()) << cosine.status();
  EXPECT_EQ(cosine->direction(), MetricDirection::kDown);
  EXPECT_EQ(cosine->name(), "cosine_similarity");
  EXPECT_EQ(Metric::FromName("cosine_similarity")->direction(), MetricDirection::kUp);
  // The format written by Keras, and a plain name.
  const auto keras = Metric::FromJson(Json::parse(
      R"({"module": "keras.metrics", "class_name": "TopKCategoricalAccuracy",
          "config": {"name": "top3", "dtype": "float32", "k": 3}})"));
  ASSERT_TRUE(keras.ok()) << keras.status();
  EXPECT_EQ(keras->name(), "top3");
  EXPECT_EQ(keras->ToJson()["config"]["k"], 3);
  EXPECT_EQ(Metric::FromJson("acc")->name(), "acc");
  EXPECT_EQ(Metric::FromName("MeanIoU")->name(), "MeanIoU");
  EXPECT_EQ(Metric::FromName("huber")->name(), "huber");  // a loss used as a metric
  EXPECT_FALSE(Metric::FromJson({{"name", "auc"}, {"config", {{"curves", "PR"}}}}).ok());
}

// Error message of `metric` for labels and predictions of these types.
std::string MessageFor(const Metric& metric, const ir::TensorType& y_true,
                       const ir::TensorType& y_pred, const base::Shape& weights = {8}) {
  ir::Graph graph("wrong");
  const Values added = metric.Update(graph.Parameter(y_true, "y"), graph.Parameter(y_pred, "p"),
                                     graph.Parameter({DType::kF32, weights}, "w"));
  EXPECT_EQ(added.size(), metric.num_states());
  EXPECT_FALSE(added[0].valid());
  return std::string(graph.status().message());
}

TEST(Metrics, ErrorsStateTheMistake) {
  const ir::TensorType classes{DType::kI32, {8}}, ten{DType::kF32, {8, 10}};
  EXPECT_THAT(MessageFor(SparseCategoricalAccuracy(), ten, ten),
              HasSubstr("for one-hot labels use categorical_accuracy"));
  EXPECT_THAT(MessageFor(CategoricalAccuracy(), classes, ten),
              HasSubstr("for class indices use sparse_categorical_accuracy"));
  EXPECT_THAT(MessageFor(Precision(), classes, ten),
              AllOf(HasSubstr("precision expects"), HasSubstr("one-hot")));
  EXPECT_THAT(MessageFor(F1Score(), {DType::kF32, {8, 3}}, ten), HasSubstr("or class indices"));
  EXPECT_THAT(MessageFor(F1Score({.average = "none"}), ten, ten),
              HasSubstr("\"micro\", \"macro\" or \"weighted\""));
  EXPECT_THAT(MessageFor(MeanIoU({}), classes, classes), HasSubstr("num_classes must be given"));
  EXPECT_THAT(MessageFor(IoU({.num_classes = 3, .target_class_ids = {3}}), classes, classes),
              HasSubstr("no target class 3"));
  EXPECT_THAT(MessageFor(Recall({.class_id = 10}), ten, ten), HasSubstr("no class 10"));
  EXPECT_THAT(MessageFor(Recall({.thresholds = 2}), ten, ten), HasSubstr("from 0 to 1, got 2"));
  EXPECT_THAT(MessageFor(AUC({.curve = "roc curve"}), ten, ten), HasSubstr("\"PRGAIN\""));
  EXPECT_THAT(MessageFor(AUC({.num_labels = 9}), ten, ten), HasSubstr("[batch, 9]"));
  EXPECT_THAT(MessageFor(Accuracy(), classes, ten, {7}), HasSubstr("weights"));
}

TEST(Metrics, ExcludesMaskedSteps) {
  Checks checks;
  const Value labels = checks.Input(Floats({2, 3}, {0, 1, 1, 1, 0, 0})),
              scores = checks.Input(Floats({2, 3, 2}, {9, 1, 1, 9, 9, 1, 1, 9, kNan, 0, 9, 1})),
              mask = checks.Input(Floats({2, 3}, {1, 1, 1, 1, 0, 0}));
  checks.Expect("accuracy", Accuracy().Result(Accuracy().Update(labels, scores, mask)),
                Floats({}, {0.75}), 1e-6);
  checks.Run();
}

}  // namespace metrics_test
}  // namespace penstock::nn
