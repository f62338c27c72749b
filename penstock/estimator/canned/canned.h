// Canned estimators: networks and linear models over feature columns (tf.estimator.DNNClassifier
// and others). Names, defaults, variables and formulas are those of TensorFlow 1.15. Only the
// optimizers' slots have other names, "dnn/hiddenlayer_0/kernel/Adagrad" instead of
// "dnn/hiddenlayer_0/kernel/t_0/Adagrad": a model_dir of TensorFlow is evaluated, predicted with and
// taken as a warm start, and Train says that it lacks the slots.
//
//   DNNClassifier classifier({.hidden_units = {10, 10},
//                             .feature_columns = {feature_column::NumericColumn("sepal_length")},
//                             .model_dir = "run7",
//                             .n_classes = 3});
//   PENSTOCK_RETURN_IF_ERROR(classifier.Train(TrainInput, {.steps = 1000}));
//
// The columns of the dataset are the features' keys, a label and, with weight_column, the weights
// of the examples. Strings are converted on the host by a stage that the estimator adds. Other
// columns are ignored, strings among them.
//
// Labels. Classifier: classes from 0 to n_classes - 1, or with a label_vocabulary its strings.
// Regressor: [batch] or [batch, label_dimension].
//
// Predictions. Classifier: "logits", "probabilities", "class_ids", and of two classes "logistic".
// TensorFlow's "classes", the class as a string, is ClassName(class_ids). Regressor: "predictions".
//
// Metrics. "loss" is the mean over batches of the loss, which is a sum over a batch by default
// (loss_reduction), "average_loss" that over examples. Classifier: "accuracy"; of two classes also
// "accuracy_baseline", "auc", "auc_precision_recall", "label/mean", "precision", "prediction/mean",
// "recall". Regressor: "label/mean", "prediction/mean".
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/estimator/estimator.h"
#include "penstock/estimator/feature_column/feature_column.h"
#include "penstock/session/losses.h"
#include "penstock/session/train/optimizer.h"

namespace penstock::estimator {

// An optimizer of a canned estimator: a copy, or a function that makes it in the default graph (for
// a schedule of the learning rate, which is a tensor of the graph).
class OptimizerChoice {
 public:
  using Make = std::function<std::shared_ptr<session::train::Optimizer>()>;
  OptimizerChoice() = default;  // the estimator's default
  // TensorFlow's names: "Adagrad", "Adam", "Ftrl", "RMSProp", "SGD", with a learning rate of 0.05, in
  // linear models 0.2.
  OptimizerChoice(const char* name);  // NOLINT
  // With this rate in every model.
  OptimizerChoice(std::string name, double learning_rate);
  template <typename T, std::enable_if_t<std::is_base_of_v<session::train::Optimizer, T>, int> = 0>
  OptimizerChoice(const T& optimizer)  // NOLINT
      : make_([optimizer] { return optimizer.Clone(); }) {}
  OptimizerChoice(Make make) : make_(std::move(make)) {}  // NOLINT

  bool is_default() const { return make_ == nullptr; }
  const std::string& name() const { return name_; }  // empty: not given by its name alone
  std::shared_ptr<session::train::Optimizer> operator()() const { return make_(); }

 private:
  std::string name_;
  Make make_;
};

using Activation = std::function<session::Tensor(const session::Tensor&)>;
using session::losses::Reduction;

struct DNNClassifierOptions {
  std::vector<int64_t> hidden_units = {};
  feature_column::FeatureColumns feature_columns = {};  // dense
  std::string model_dir = "";
  int64_t n_classes = 2;
  std::string weight_column = "";  // empty: each example weighs 1
  std::vector<std::string> label_vocabulary = {};
  OptimizerChoice optimizer = {};      // Adagrad with a learning rate of 0.05
  Activation activation_fn = nullptr;  // nn::Relu
  double dropout = 0;                  // probability of a hidden unit to be dropped
  RunConfig config = {};
  std::optional<WarmStartSettings> warm_start_from = {};
  Reduction loss_reduction = Reduction::kSum;
  bool batch_norm = false;  // after each hidden layer
};
class DNNClassifier : public Estimator {
 public:
  explicit DNNClassifier(DNNClassifierOptions options);
  // The label of a class: its string in label_vocabulary, or its number.
  std::string ClassName(int64_t class_id) const;

 private:
  std::vector<std::string> label_vocabulary_;
};

struct DNNRegressorOptions {
  std::vector<int64_t> hidden_units = {};
  feature_column::FeatureColumns feature_columns = {};
  std::string model_dir = "";
  int64_t label_dimension = 1;
  std::string weight_column = "";
  OptimizerChoice optimizer = {};  // Adagrad with a learning rate of 0.05
  Activation activation_fn = nullptr;
  double dropout = 0;
  RunConfig config = {};
  std::optional<WarmStartSettings> warm_start_from = {};
  Reduction loss_reduction = Reduction::kSum;
  bool batch_norm = false;
};
class DNNRegressor : public Estimator {
 public:
  explicit DNNRegressor(DNNRegressorOptions options);
};

struct LinearClassifierOptions {
  feature_column::FeatureColumns feature_columns = {};  // categorical or dense
  std::string model_dir = "";
  int64_t n_classes = 2;
  std::string weight_column = "";
  std::vector<std::string> label_vocabulary = {};
  // Ftrl with a learning rate of 0.2, TensorFlow's optimizer = "Ftrl".
  OptimizerChoice optimizer = {};
  RunConfig config = {};
  std::optional<WarmStartSettings> warm_start_from = {};
  Reduction loss_reduction = Reduction::kSum;
  std::string sparse_combiner = "sum";
};
class LinearClassifier : public Estimator {
 public:
  explicit LinearClassifier(LinearClassifierOptions options);
  std::string ClassName(int64_t class_id) const;

 private:
  std::vector<std::string> label_vocabulary_;
};

struct LinearRegressorOptions {
  feature_column::FeatureColumns feature_columns = {};
  std::string model_dir = "";
  int64_t label_dimension = 1;
  std::string weight_column = "";
  OptimizerChoice optimizer = {};  // as LinearClassifier
  RunConfig config = {};
  std::optional<WarmStartSettings> warm_start_from = {};
  Reduction loss_reduction = Reduction::kSum;
  std::string sparse_combiner = "sum";
};
class LinearRegressor : public Estimator {
 public:
  explicit LinearRegressor(LinearRegressorOptions options);
};

}  // namespace penstock::estimator
