// Canned estimators against hand-written session graphs with the same initial weights.
#include "penstock/estimator/canned/canned.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/estimator/testing/small_model.h"
#include "penstock/session/ops/array_ops.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/session.h"
#include "penstock/session/train/saver.h"

namespace penstock::estimator {
namespace canned_test {

using base::Array;
using base::DType;
using base::NamedArrays;
using feature_column::FeatureColumns;
using feature_column::NumericColumn;
using testing::Flowers;
using ::testing::HasSubstr;
using testing::QuietConfig;
using testing::TemporaryFolder;
using testing::TestBatches;
using testing::TrainBatches;
namespace tf = session;

FeatureColumns FlowerColumns() { return {NumericColumn("x", {.shape = {4}})}; }

// In the order of the rows.
data::Dataset InOrder(int64_t steps) {
  return data::Dataset::FromArrays(Flowers(24)).Batch(8).Repeat().Take(steps);
}

TEST(DNNClassifier, TrainsAndPredicts) {
  const TemporaryFolder folder;
  DNNClassifier classifier({.hidden_units = {10, 10},
                            .feature_columns = FlowerColumns(),
                            .model_dir = folder.path(),
                            .n_classes = 3,
                            .config = QuietConfig()});
  ASSERT_EQ(classifier.Train(TrainBatches(), {.steps = 80}), absl::OkStatus());
  const absl::StatusOr<EvalResult> result = classifier.Evaluate(TestBatches());
  ASSERT_EQ(result.status(), absl::OkStatus());
  EXPECT_GT(result->at("accuracy"), 0.9);
  // A sum over the batch of 8 (6 in the last one), against a mean over examples.
  EXPECT_GT(result->at("loss"), 5 * result->at("average_loss"));
  EXPECT_THAT(*classifier.GetVariableNames(),
              ::testing::IsSupersetOf({"dnn/hiddenlayer_0/kernel", "dnn/hiddenlayer_1/bias",
                                       "dnn/logits/kernel", "dnn/hiddenlayer_0/kernel/Adagrad"}));
  auto stream = classifier.Predict(TestBatches(), {.predict_keys = {"class_ids", "probabilities"}});
  ASSERT_EQ(stream.status(), absl::OkStatus());
  NamedArrays example;
  ASSERT_TRUE(*(*stream)->Next(&example));
  EXPECT_EQ(example.size(), 2u);
  EXPECT_EQ(example.Find("class_ids")->shape(), base::Shape{1});
  EXPECT_EQ(classifier.ClassName(2), "2");
}

// Five steps of Adagrad on the sum of the losses, written with session's operations.
TEST(DNNClassifier, TakesTheStepsOfAHandWrittenGraph) {
  const TemporaryFolder folder;
  RunConfig config = QuietConfig();
  config.save_checkpoints_steps = 100;
  DNNClassifier classifier({.hidden_units = {5},
                            .feature_columns = FlowerColumns(),
                            .model_dir = folder.path(),
                            .n_classes = 3,
                            .config = config});
  ASSERT_EQ(classifier.Train(InOrder(5)), absl::OkStatus());
  const NamedArrays initial = *tf::train::LoadCheckpoint(folder.path() + "/model.ckpt-0");

  tf::Graph graph;
  const auto scope = graph.AsDefault();
  const tf::Tensor x = tf::Placeholder(DType::kF32, {8, 4}), y = tf::Placeholder(DType::kI64, {8});
  const auto variable = [&](const std::string& name) {
    return tf::Variable(*initial.Find(name), name);
  };
  const tf::Variable k0 = variable("dnn/hiddenlayer_0/kernel"),
                     b0 = variable("dnn/hiddenlayer_0/bias"), k1 = variable("dnn/logits/kernel"),
                     b1 = variable("dnn/logits/bias");
  const tf::Tensor hidden = tf::nn::Relu(tf::MatMul(x, k0) + b0);
  const tf::Tensor logits = tf::MatMul(hidden, k1) + b1;
  const tf::Tensor loss = tf::ReduceSum(tf::nn::SparseSoftmaxCrossEntropyWithLogits(y, logits));
  const tf::Operation step = tf::train::AdagradOptimizer(0.05).Minimize(loss);
  tf::Session session;
  ASSERT_EQ(session.Run(tf::GlobalVariablesInitializer()), absl::OkStatus());
  const NamedArrays rows = Flowers(24);
  for (int64_t i = 0; i < 5; ++i) {
    const int64_t first = i % 3 * 8;
    ASSERT_EQ(session.Run(step, {{x, rows.Find("x")->Slice(first, first + 8)},
                                 {y, rows.Find("label")->Slice(first, first + 8)}}),
              absl::OkStatus());
  }
  for (const char* name : {"dnn/hiddenlayer_0/kernel", "dnn/logits/kernel", "dnn/logits/bias"}) {
    const Array ours = *classifier.GetVariableValue(name);
    const Array expected = *session.GetVariableValue(name);
    for (int64_t i = 0; i < ours.num_elements(); ++i) {
      EXPECT_NEAR(ours.data<float>()[i], expected.data<float>()[i], 1e-6) << name << i;
    }
  }
}

TEST(DNNClassifier, OptionsOfTheNetwork) {
  const TemporaryFolder folder;
  DNNClassifier classifier({.hidden_units = {6, 6},
                            .feature_columns = FlowerColumns(),
                            .model_dir = folder.path(),
                            .n_classes = 3,
                            .optimizer = "Adam",
                            .activation_fn = [](const tf::Tensor& t) { return tf::nn::Tanh(t); },
                            .dropout = 0.2,
                            .config = QuietConfig(),
                            .loss_reduction = Reduction::kSumOverBatchSize,
                            .batch_norm = true});
  ASSERT_EQ(classifier.Train(TrainBatches(), {.steps = 10}), absl::OkStatus());
  const Array mean = *classifier.GetVariableValue("dnn/hiddenlayer_0/batchnorm_0/moving_mean");
  // The moving averages are updated.
  EXPECT_NE(mean.data<float>()[0], 0);
  EXPECT_EQ(classifier.Evaluate(TestBatches()).status(), absl::OkStatus());
}

// Two classes with strings as labels and features, and weights of examples.
data::Dataset Animals(bool labeled = true) {
  NamedArrays arrays = {
      {"sound", Array::Strings({8}, {"meow", "woof", "meow", "woof", "purr", "woof", "meow", "?"})},
      {"weight", Array::Of<float>({8}, {1, 1, 1, 1, 2, 1, 1, 0})}};
  if (labeled) {
    arrays.Append("label",
                  Array::Strings({8}, {"cat", "dog", "cat", "dog", "cat", "dog", "cat", "cat"}));
  }
  return data::Dataset::FromArrays(arrays).Batch(4);
}

TEST(LinearClassifier, ConvertsStringsOnTheHost) {
  const TemporaryFolder folder;
  LinearClassifier classifier(
      {.feature_columns = {feature_column::CategoricalColumnWithVocabularyList(
           "sound", {"meow", "purr", "woof"})},
       .model_dir = folder.path(),
       .weight_column = "weight",
       .label_vocabulary = {"cat", "dog"},
       .config = QuietConfig()});
  ASSERT_EQ(classifier.Train(Animals().Repeat(40)), absl::OkStatus());
  const absl::StatusOr<EvalResult> result = classifier.Evaluate(Animals());
  ASSERT_EQ(result.status(), absl::OkStatus());
  EXPECT_EQ(result->at("accuracy"), 1);
  // Weighted: 3 dogs of 8.
  EXPECT_NEAR(result->at("label/mean"), 3.0 / 8, 1e-6);
  EXPECT_NEAR(result->at("accuracy_baseline"), 5.0 / 8, 1e-6);
  EXPECT_NEAR(result->at("auc"), 1, 1e-3);
  EXPECT_EQ(result->at("precision"), 1);
  EXPECT_EQ(result->at("recall"), 1);
  auto stream = classifier.Predict(Animals(/*labeled=*/false));
  ASSERT_EQ(stream.status(), absl::OkStatus());
  NamedArrays example;
  ASSERT_TRUE(*(*stream)->Next(&example));
  ASSERT_TRUE(*(*stream)->Next(&example));
  EXPECT_EQ(classifier.ClassName(example.Find("class_ids")->item<int64_t>()), "dog");
  EXPECT_GT(example.Find("logistic")->item<float>(), 0.5);

  const data::Dataset unknown = data::Dataset::FromArrays({{"sound", Array::Strings({1}, {"moo"})},
                                                           {"weight", Array::Of<float>({1}, {1})},
                                                           {"label", Array::Strings({1}, {"cow"})}})
                                    .Batch(1);
  EXPECT_THAT(classifier.Train(unknown).message(),
              HasSubstr("label 'label' has the value 'cow', which label_vocabulary lacks"));
}

// As in TensorFlow; labels and weights of strings, and strings that a column takes for numbers, are
// errors.
TEST(Canned, IgnoresStringsThatNoColumnReads) {
  const TemporaryFolder folder;
  NamedArrays rows = Flowers(8);
  rows.Append("name", Array::Strings({8}, std::vector<std::string>(8, "iris")));
  const data::Dataset input = data::Dataset::FromArrays(rows).Batch(4);
  const auto make = [&](FeatureColumns columns, std::string weights = "") {
    return std::make_unique<LinearClassifier>(
        LinearClassifierOptions{.feature_columns = std::move(columns),
                                .model_dir = folder.path(),
                                .n_classes = 3,
                                .weight_column = std::move(weights),
                                .config = QuietConfig()});
  };
  const auto classifier = make(FlowerColumns());
  ASSERT_EQ(classifier->Train(input), absl::OkStatus());
  EXPECT_EQ(classifier->Evaluate(input).status(), absl::OkStatus());
  auto stream = classifier->Predict(input);
  ASSERT_EQ(stream.status(), absl::OkStatus());
  NamedArrays example;
  EXPECT_TRUE(*(*stream)->Next(&example));

  const std::string error = "column 'name' of the dataset has string elements";
  EXPECT_THAT(classifier->Train({input, {.labels = {"label", "name"}}}).message(),
              HasSubstr(error));
  EXPECT_THAT(make(FlowerColumns(), "name")->Train(input).message(), HasSubstr(error));
  EXPECT_THAT(make({NumericColumn("name")})->Train(input).message(), HasSubstr(error));
}

TEST(LinearRegressor, FitsALine) {
  const TemporaryFolder folder;
  Array x = Array::Zeros(DType::kF32, {32}), y = Array::Zeros(DType::kF32, {32});
  for (int64_t i = 0; i < 32; ++i) {
    x.mutable_data<float>()[i] = static_cast<float>(i - 16) / 16;
    y.mutable_data<float>()[i] = 3 * x.data<float>()[i] + 1;
  }
  const data::Dataset rows = data::Dataset::FromArrays({{"x", x}, {"label", y}}).Batch(32);
  LinearRegressor regressor({.feature_columns = {NumericColumn("x")},
                             .model_dir = folder.path(),
                             .optimizer = tf::train::GradientDescentOptimizer(0.01),
                             .config = QuietConfig()});
  ASSERT_EQ(regressor.Train(rows.Repeat(100)), absl::OkStatus());
  EXPECT_NEAR(regressor.GetVariableValue("linear/linear_model/x/weights")->item<float>(), 3, 0.05);
  EXPECT_NEAR(regressor.GetVariableValue("linear/linear_model/bias_weights")->item<float>(), 1,
              0.05);
  const EvalResult result = *regressor.Evaluate(rows);
  EXPECT_NEAR(result.at("average_loss") * 32, result.at("loss"), 1e-5);
  EXPECT_NEAR(result.at("label/mean"), 1 + 3 * (-0.5 / 16), 1e-5);
}

TEST(DNNRegressor, FitsACurve) {
  const TemporaryFolder folder;
  Array x = Array::Zeros(DType::kF32, {64, 1}), y = Array::Zeros(DType::kF32, {64, 2});
  for (int64_t i = 0; i < 64; ++i) {
    const float value = static_cast<float>(i - 32) / 32;
    x.mutable_data<float>()[i] = value;
    y.mutable_data<float>()[2 * i] = value * value;
    y.mutable_data<float>()[2 * i + 1] = -value;
  }
  const data::Dataset rows = data::Dataset::FromArrays({{"x", x}, {"label", y}}).Batch(64);
  DNNRegressor regressor({.hidden_units = {16},
                          .feature_columns = {NumericColumn("x")},
                          .model_dir = folder.path(),
                          .label_dimension = 2,
                          .config = QuietConfig()});
  ASSERT_EQ(regressor.Train(rows.Repeat(150)), absl::OkStatus());
  EXPECT_LT(regressor.Evaluate(rows)->at("average_loss"), 0.02);
}

// TensorFlow's linear models have a rate of their own for optimizers by name.
TEST(Canned, LinearModelsTakeOptimizersByNameWithTheirRate) {
  const auto one = data::Dataset::FromArrays(
      {{"x", Array::Of<float>({1}, {1})}, {"label", Array::Of<float>({1}, {1})}});
  const auto weight = [&](const OptimizerChoice& optimizer) {
    const TemporaryFolder folder;
    LinearRegressor regressor({.feature_columns = {feature_column::NumericColumn("x")},
                               .model_dir = folder.path(),
                               .optimizer = optimizer,
                               .config = QuietConfig()});
    EXPECT_EQ(regressor.Train(one.Batch(1), {.steps = 1}), absl::OkStatus());
    return regressor.GetVariableValue("linear/linear_model/x/weights")->item<float>();
  };
  // The gradient of (w x - y)^2 at 0 is -2.
  EXPECT_FLOAT_EQ(weight("SGD"), 0.4f);
  EXPECT_FLOAT_EQ(weight(OptimizerChoice("SGD", 0.01)), 0.02f);
}

TEST(Canned, LinearModelsOfManyColumnsHaveTheSameDefaultOptimizer) {
  base::NamedArrays one = {{"label", Array::Of<float>({1}, {1})}};
  feature_column::FeatureColumns columns;
  for (int i = 0; i < 40; ++i) {
    const std::string name = absl::StrCat("x", i);
    one.Set(name, Array::Of<float>({1}, {1}));
    columns.push_back(feature_column::NumericColumn(name));
  }
  const auto weight = [&](const OptimizerChoice& optimizer) {
    const TemporaryFolder folder;
    LinearRegressor regressor({.feature_columns = columns,
                               .model_dir = folder.path(),
                               .optimizer = optimizer,
                               .config = QuietConfig()});
    EXPECT_EQ(regressor.Train(data::Dataset::FromArrays(one).Batch(1), {.steps = 1}),
              absl::OkStatus());
    return regressor.GetVariableValue("linear/linear_model/x7/weights")->item<float>();
  };
  EXPECT_NE(weight("Ftrl"), 0);
  EXPECT_EQ(weight(OptimizerChoice()), weight("Ftrl"));
}

// Each call builds a graph, and the optimizer, the default one or the program's, has slots in each.
TEST(Canned, TrainsAgainWithItsOptimizer) {
  for (const OptimizerChoice& optimizer :
       {OptimizerChoice(), OptimizerChoice(tf::train::AdamOptimizer(0.01))}) {
    const TemporaryFolder folder;
    LinearClassifier classifier({.feature_columns = FlowerColumns(),
                                 .model_dir = folder.path(),
                                 .n_classes = 3,
                                 .optimizer = optimizer,
                                 .config = QuietConfig()});
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(classifier.Train(TrainBatches(), {.steps = 1}), absl::OkStatus());
    }
    EXPECT_EQ(classifier.GetVariableValue("global_step")->item<int64_t>(), 3);
  }
}

TEST(Canned, ReportMistakes) {
  const auto dnn = [](DNNClassifierOptions options) {
    options.config = QuietConfig();
    return std::string(DNNClassifier(std::move(options)).status().message());
  };
  EXPECT_THAT(dnn({.hidden_units = {4}}), HasSubstr("there are no feature_columns"));
  EXPECT_THAT(dnn({.hidden_units = {0}, .feature_columns = FlowerColumns()}),
              HasSubstr("hidden_units contains 0"));
  EXPECT_THAT(dnn({.feature_columns = FlowerColumns(), .n_classes = 1}),
              HasSubstr("n_classes is 1"));
  EXPECT_THAT(dnn({.feature_columns = FlowerColumns(), .label_vocabulary = {"a"}}),
              HasSubstr("label_vocabulary has 1 values, but n_classes is 2"));
  EXPECT_THAT(dnn({.feature_columns = FlowerColumns(), .label_vocabulary = {"a", "a"}}),
              HasSubstr("label_vocabulary contains 'a' twice"));
  EXPECT_THAT(dnn({.feature_columns = FlowerColumns(), .dropout = 1}), HasSubstr("dropout is 1"));
  EXPECT_THAT(dnn({.feature_columns = {feature_column::CategoricalColumnWithIdentity("c", 3)}}),
              HasSubstr("'c' is not dense"));
  const TemporaryFolder folder;
  DNNClassifier classifier({.hidden_units = {4},
                            .feature_columns = FlowerColumns(),
                            .model_dir = folder.path(),
                            .n_classes = 2,
                            .config = QuietConfig()});
  EXPECT_THAT(classifier.Train(TrainBatches(), {.steps = 3}).message(),
              HasSubstr("has the value 2, but the classifier's classes are 0 to 1"));
  DNNClassifier unknown({.hidden_units = {4},
                         .feature_columns = FlowerColumns(),
                         .model_dir = folder.path(),
                         .n_classes = 3,
                         .optimizer = "Adamax",
                         .config = QuietConfig()});
  EXPECT_THAT(unknown.Train(TrainBatches(), {.steps = 3}).message(),
              HasSubstr("there is no optimizer 'Adamax'"));
  DNNClassifier none(
      {.hidden_units = {4},
       .feature_columns = FlowerColumns(),
       .model_dir = folder.path(),
       .n_classes = 3,
       .optimizer = OptimizerChoice::Make([] { return std::shared_ptr<tf::train::Optimizer>(); }),
       .config = QuietConfig()});
  EXPECT_THAT(none.Train(TrainBatches(), {.steps = 3}).message(),
              HasSubstr("its function returned no optimizer"));
}

// What would be converted to a class, or broadcast to other examples, without a word.
TEST(Canned, RejectsLabelsThatAreNone) {
  const TemporaryFolder folder;
  const auto error = [&](Array labels, int64_t n_classes) {
    NamedArrays rows = Flowers(labels.dim(0));
    rows.Set("label", std::move(labels));
    const data::Dataset input = data::Dataset::FromArrays(rows).Batch(1);
    if (n_classes == 0) {
      LinearRegressor regressor({.feature_columns = FlowerColumns(),
                                 .model_dir = folder.path(),
                                 .config = QuietConfig()});
      return std::string(regressor.Train(input, {.steps = 1}).message());
    }
    LinearClassifier classifier({.feature_columns = FlowerColumns(),
                                 .model_dir = folder.path(),
                                 .n_classes = n_classes,
                                 .config = QuietConfig()});
    return std::string(classifier.Train(input, {.steps = 1}).message());
  };
  EXPECT_THAT(error(Array::Of<float>({2}, {1.5, 0}), 3), HasSubstr("has the value 1.5"));
  EXPECT_THAT(error(Array::Of<float>({2}, {NAN, 0}), 3), HasSubstr("has the value nan"));
  EXPECT_THAT(error(Array::Zeros(base::DType::kI64, {2, 2}), 3),
              HasSubstr("has the shape [?,2], 2 numbers for each example, but the classifier needs "
                        "1"));
  EXPECT_THAT(error(Array::Zeros(base::DType::kF32, {2, 3}), 0),
              HasSubstr("3 numbers for each example, but the label_dimension is 1"));
}

}  // namespace canned_test
}  // namespace penstock::estimator
