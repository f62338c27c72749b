#include "penstock/estimator/canned/canned.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "penstock/estimator/canned/head.h"
#include "penstock/session/layers.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/ops/nn_ops.h"
#include "penstock/session/variable.h"

namespace penstock::estimator {
namespace {

namespace tf = session;
using feature_column::FeatureColumns;
using tf::Tensor;

constexpr double kDefaultRate = 0.05, kLinearRate = 0.2;  // of optimizers by name

struct DnnNetwork {
  std::vector<int64_t> hidden_units;
  FeatureColumns columns;
  Activation activation;
  double dropout;
  bool batch_norm;
};

// tensorflow_estimator/python/estimator/canned/dnn.py.
Tensor DnnLogits(const DnnNetwork& network, const NamedTensors& features, int64_t units,
                 bool training) {
  const tf::VariableScope scope("dnn");
  Tensor net;
  {
    const tf::VariableScope input("input_from_feature_columns");
    net = feature_column::InputLayer(features, network.columns);
  }
  for (size_t i = 0; i < network.hidden_units.size(); ++i) {
    net = tf::layers::Dense(
        net, network.hidden_units[i],
        {.activation = network.activation != nullptr ? tf::layers::Activation(network.activation)
                                                     : tf::layers::Activation(tf::nn::Relu),
         .kernel_initializer = tf::GlorotUniformInitializer(),
         .name = absl::StrCat("hiddenlayer_", i)});
    if (network.dropout > 0 && training) {
      net = tf::layers::Dropout(net, network.dropout, {.training = true});
    }
    if (network.batch_norm) {
      const tf::VariableScope layer(absl::StrCat("hiddenlayer_", i));
      // The default momentum of 0.99 needs many steps; as in TensorFlow.
      net = tf::layers::BatchNormalization(
          net, {.momentum = 0.999, .training = training, .name = absl::StrCat("batchnorm_", i)});
    }
  }
  return tf::layers::Dense(
      net, units, {.kernel_initializer = tf::GlorotUniformInitializer(), .name = "logits"});
}

OptimizerChoice OrAdagrad(const OptimizerChoice& optimizer) {
  if (!optimizer.is_default()) return optimizer;
  return tf::train::AdagradOptimizer(kDefaultRate);
}

OptimizerChoice OrFtrl(const OptimizerChoice& optimizer) {
  if (!optimizer.name().empty()) return OptimizerChoice(optimizer.name(), kLinearRate);
  if (!optimizer.is_default()) return optimizer;
  return tf::train::FtrlOptimizer(kLinearRate);
}

// Removes the features that devices do not have, strings, and that no feature column reads. As in
// TensorFlow, a dataset may have features that the model does not use; numbers are never transferred.
data::Dataset WithoutUnreadStrings(const data::Dataset& dataset, const FeatureColumns& columns,
                                   std::vector<std::string> used) {
  for (const feature_column::FeatureColumn& column : columns) used.push_back(column.key());
  std::vector<std::string> unread;
  for (const data::ColumnSpec& column : dataset.spec().columns()) {
    const bool is_used = std::find(used.begin(), used.end(), column.name) != used.end();
    if (!is_used && !base::IsNumeric(column.dtype)) unread.push_back(column.name);
  }
  if (unread.empty()) return dataset;
  return dataset.Map([](const base::NamedArrays&, base::NamedArrays*) { return absl::OkStatus(); },
                     {.name = "without_unread_strings", .reads = unread, .drops = unread});
}

InputTransform TransformOf(const FeatureColumns& columns, const Head& head) {
  return [columns, head](const data::Dataset& dataset, const std::vector<std::string>& labels) {
    std::vector<std::string> used = labels;
    used.push_back(head.weight_column);
    const data::Dataset read = WithoutUnreadStrings(dataset, columns, std::move(used));
    return head.ConvertLabels(feature_column::ConvertOnHost(read, columns), labels);
  };
}

// The common part of the options of the four classes.
template <typename Options>
EstimatorOptions CannedOptions(const Options& options, const absl::StatusOr<Head>& head) {
  EstimatorOptions result{.model_dir = options.model_dir,
                          .config = options.config,
                          .warm_start_from = options.warm_start_from};
  if (head.ok()) {
    result.input_transform = TransformOf(options.feature_columns, *head);
  } else {
    result.model_fn = [error = head.status()](const NamedTensors&, const NamedTensors&,
                                              ModeKeys) -> absl::StatusOr<EstimatorSpec> {
      return error;
    };
  }
  return result;
}

template <typename Options>
EstimatorOptions DnnOptions(const Options& options, const absl::StatusOr<Head>& head) {
  EstimatorOptions result = CannedOptions(options, head);
  if (!head.ok()) return result;
  const DnnNetwork network{options.hidden_units, options.feature_columns, options.activation_fn,
                           options.dropout, options.batch_norm};
  result.model_fn = [network, head = *head, optimizer = OrAdagrad(options.optimizer)](
                        const NamedTensors& features, const NamedTensors& labels, ModeKeys mode) {
    const Tensor logits =
        DnnLogits(network, features, head.logits_dimension(), mode == ModeKeys::kTrain);
    return head.Spec(features, labels, mode, logits, optimizer);
  };
  return result;
}

template <typename Options>
EstimatorOptions LinearOptions(const Options& options, const absl::StatusOr<Head>& head) {
  EstimatorOptions result = CannedOptions(options, head);
  if (!head.ok()) return result;
  result.model_fn = [columns = options.feature_columns, combiner = options.sparse_combiner,
                     head = *head, optimizer = OrFtrl(options.optimizer)](
                        const NamedTensors& features, const NamedTensors& labels, ModeKeys mode) {
    const tf::VariableScope scope("linear");
    const Tensor logits = feature_column::LinearModel(
        features, columns, {.units = head.logits_dimension(), .sparse_combiner = combiner});
    return head.Spec(features, labels, mode, logits, optimizer);
  };
  return result;
}

absl::Status CheckColumns(const FeatureColumns& columns, bool dense) {
  if (columns.empty()) return absl::InvalidArgumentError("there are no feature_columns");
  for (const feature_column::FeatureColumn& column : columns) {
    if (!column.status().ok()) return column.status();
    if (dense && !column.is_dense()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the categorical column '", column.name(),
                       "' is not dense: wrap it in IndicatorColumn or EmbeddingColumn"));
    }
  }
  return absl::OkStatus();
}

template <typename Options>
absl::Status CheckDnn(const Options& options) {
  for (const int64_t units : options.hidden_units) {
    if (units < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("hidden_units contains ", units, ", but must be at least 1"));
    }
  }
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("dropout is ", options.dropout, ", but must be at least 0 and below 1"));
  }
  return CheckColumns(options.feature_columns, /*dense=*/true);
}

absl::Status CheckCombiner(const std::string& combiner) {
  if (combiner == "sum" || combiner == "mean" || combiner == "sqrtn") return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("sparse_combiner '", combiner, "' is not sum, mean or sqrtn"));
}

template <typename Options>
absl::StatusOr<Head> ClassifierHead(const Options& options) {
  return Head::Classifier(options.n_classes, options.weight_column, options.label_vocabulary,
                          options.loss_reduction);
}
template <typename Options>
absl::StatusOr<Head> RegressionHead(const Options& options) {
  return Head::Regression(options.label_dimension, options.weight_column, options.loss_reduction);
}

std::string NameOfClass(const std::vector<std::string>& vocabulary, int64_t class_id) {
  const bool known = class_id >= 0 && class_id < static_cast<int64_t>(vocabulary.size());
  return known ? vocabulary[class_id] : absl::StrCat(class_id);
}

}  // namespace

OptimizerChoice::OptimizerChoice(const char* name)
    : OptimizerChoice(name == nullptr ? "" : name, kDefaultRate) {
  name_ = name == nullptr ? "" : name;
}

OptimizerChoice::OptimizerChoice(std::string name, double learning_rate) {
  make_ = [text = std::move(name), learning_rate]() -> std::shared_ptr<tf::train::Optimizer> {
    using namespace tf::train;  // NOLINT
    const std::string lower = absl::AsciiStrToLower(text);
    if (lower == "adagrad") return std::make_shared<AdagradOptimizer>(learning_rate);
    if (lower == "adam") return std::make_shared<AdamOptimizer>(learning_rate);
    if (lower == "ftrl") return std::make_shared<FtrlOptimizer>(learning_rate);
    if (lower == "rmsprop") return std::make_shared<RMSPropOptimizer>(learning_rate);
    if (lower != "sgd") {
      tf::FailOp({}, "OptimizerChoice",
                 absl::StrCat("there is no optimizer '", text,
                              "'; the names are Adagrad, Adam, Ftrl, RMSProp, SGD"),
                 base::SourceLocation());
    }
    return std::make_shared<GradientDescentOptimizer>(learning_rate);
  };
}

DNNClassifier::DNNClassifier(DNNClassifierOptions options)
    : Estimator(DnnOptions(options, ClassifierHead(options))),
      label_vocabulary_(options.label_vocabulary) {
  Fail(ClassifierHead(options).status());
  Fail(CheckDnn(options));
}

std::string DNNClassifier::ClassName(int64_t class_id) const {
  return NameOfClass(label_vocabulary_, class_id);
}

DNNRegressor::DNNRegressor(DNNRegressorOptions options)
    : Estimator(DnnOptions(options, RegressionHead(options))) {
  Fail(RegressionHead(options).status());
  Fail(CheckDnn(options));
}

LinearClassifier::LinearClassifier(LinearClassifierOptions options)
    : Estimator(LinearOptions(options, ClassifierHead(options))),
      label_vocabulary_(options.label_vocabulary) {
  Fail(ClassifierHead(options).status());
  Fail(CheckColumns(options.feature_columns, /*dense=*/false));
  Fail(CheckCombiner(options.sparse_combiner));
}

std::string LinearClassifier::ClassName(int64_t class_id) const {
  return NameOfClass(label_vocabulary_, class_id);
}

LinearRegressor::LinearRegressor(LinearRegressorOptions options)
    : Estimator(LinearOptions(options, RegressionHead(options))) {
  Fail(RegressionHead(options).status());
  Fail(CheckColumns(options.feature_columns, /*dense=*/false));
  Fail(CheckCombiner(options.sparse_combiner));
}

}  // namespace penstock::estimator
