#include "penstock/estimator/canned/head.h"

#include <cmath>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

#include "penstock/session/metrics.h"
#include "penstock/session/ops/array_ops.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/ops/nn_ops.h"
#include "penstock/session/variable.h"

namespace penstock::estimator {
namespace {

namespace metrics = session::metrics;
using base::Array;
using base::DType;
using session::Tensor;

// Looks up labels in a vocabulary, and checks that they are classes.
class LabelConverter {
 public:
  LabelConverter(const std::vector<std::string>& vocabulary, int64_t n_classes)
      : n_classes_(n_classes) {
    for (size_t i = 0; i < vocabulary.size(); ++i) {
      classes_.emplace(vocabulary[i], static_cast<int64_t>(i));
    }
  }

  absl::StatusOr<Array> operator()(const std::string& column, const Array& labels) const {
    if (classes_.empty()) return Checked(column, labels);
    if (labels.dtype() != DType::kString) {
      return absl::InvalidArgumentError(
          absl::StrCat("label '", column, "' is ", labels.TypeString(),
                       ", but the classifier has a label_vocabulary of strings"));
    }
    Array ids = Array::Uninitialized(DType::kI64, labels.shape());
    int64_t* out = ids.mutable_data<int64_t>();
    for (const absl::string_view label : labels.values<absl::string_view>()) {
      const auto found = classes_.find(label);
      if (found == classes_.end()) {
        return absl::InvalidArgumentError(absl::StrCat("label '", column, "' has the value '",
                                                       label, "', which label_vocabulary lacks"));
      }
      *out++ = found->second;
    }
    return ids;
  }

 private:
  absl::StatusOr<Array> Checked(const std::string& column, const Array& labels) const {
    if (!base::IsNumeric(labels.dtype())) {
      return absl::InvalidArgumentError(
          absl::StrCat("label '", column, "' is ", labels.TypeString(),
                       ", but must be a number: give a label_vocabulary for strings"));
    }
    const absl::StatusOr<Array> numbers = labels.Cast(DType::kF64);
    if (!numbers.ok()) return numbers.status();
    for (const double label : numbers->values<double>()) {
      // A label of two classes may be a probability.
      const bool is_class = label >= 0 && label <= static_cast<double>(n_classes_ - 1) &&
                            (n_classes_ == 2 || label == std::floor(label));
      if (!is_class) {
        return absl::InvalidArgumentError(absl::StrCat("label '", column, "' has the value ", label,
                                                       ", but the classifier's classes are 0 to ",
                                                       n_classes_ - 1));
      }
    }
    return labels;
  }

  const int64_t n_classes_;
  absl::flat_hash_map<std::string, int64_t> classes_;
};

// Number of elements of a label in each row of a batch; -1 if it is not known.
int64_t NumbersOfAnExample(const session::PartialShape& shape) {
  if (!shape.has_rank()) return -1;
  int64_t count = 1;
  for (int i = 1; i < shape.rank(); ++i) {
    if (shape.dim(i) < 0) return -1;
    count *= shape.dim(i);
  }
  return count;
}

}  // namespace

absl::StatusOr<Head> Head::Classifier(int64_t n_classes, std::string weight_column,
                                      std::vector<std::string> label_vocabulary,
                                      Reduction loss_reduction) {
  if (n_classes < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("n_classes is ", n_classes, ", but must be at least 2"));
  }
  if (!label_vocabulary.empty() && static_cast<int64_t>(label_vocabulary.size()) != n_classes) {
    return absl::InvalidArgumentError(absl::StrCat("label_vocabulary has ", label_vocabulary.size(),
                                                   " values, but n_classes is ", n_classes));
  }
  absl::flat_hash_set<absl::string_view> seen;
  for (const std::string& label : label_vocabulary) {
    if (seen.insert(label).second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("label_vocabulary contains '", label, "' twice"));
  }
  return Head{.kind = n_classes == 2 ? Kind::kBinary : Kind::kMultiClass,
              .n_classes = n_classes,
              .weight_column = std::move(weight_column),
              .label_vocabulary = std::move(label_vocabulary),
              .loss_reduction = loss_reduction};
}

absl::StatusOr<Head> Head::Regression(int64_t label_dimension, std::string weight_column,
                                      Reduction loss_reduction) {
  if (label_dimension < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("label_dimension is ", label_dimension, ", but must be at least 1"));
  }
  return Head{.kind = Kind::kRegression,
              .label_dimension = label_dimension,
              .weight_column = std::move(weight_column),
              .loss_reduction = loss_reduction};
}

int64_t Head::logits_dimension() const {
  switch (kind) {
    case Kind::kBinary:
      return 1;
    case Kind::kMultiClass:
      return n_classes;
    case Kind::kRegression:
      break;
  }
  return label_dimension;
}

data::Dataset Head::ConvertLabels(const data::Dataset& dataset,
                                  const std::vector<std::string>& labels) const {
  if (kind == Kind::kRegression || labels.size() != 1) return dataset;
  const int place = dataset.spec().Find(labels[0]);
  if (place < 0) return dataset;
  data::ColumnSpec column = dataset.spec()[place];
  if (!label_vocabulary.empty()) column.dtype = DType::kI64;
  const auto converter = std::make_shared<const LabelConverter>(label_vocabulary, n_classes);
  return dataset.Map(
      [converter, name = labels[0]](const base::NamedArrays& in, base::NamedArrays* out) {
        absl::StatusOr<Array> values = in.Get(name);
        if (values.ok()) values = (*converter)(name, *values);
        if (!values.ok()) return values.status();
        out->Set(name, *std::move(values));
        return absl::OkStatus();
      },
      {.name = "labels", .reads = {labels[0]}, .makes = {column}});
}

Tensor Head::LabelsOf(const NamedTensors& labels) const {
  const Tensor label = labels.Single();
  if (!label.valid()) return label;
  const int64_t width = kind == Kind::kRegression ? label_dimension : 1;
  const int64_t given = NumbersOfAnExample(label.shape());
  if (given >= 0 && given != width) {
    return session::FailOp(
        {label}, "label",
        absl::StrCat("the label '", labels.begin()->first, "' has the shape ",
                     label.shape().ToString(), ", ", given, " numbers for each example, but the ",
                     kind == Kind::kRegression ? "label_dimension is " : "classifier needs ",
                     width),
        {});
  }
  const Tensor rows = session::Reshape(label, {-1, width});
  return kind == Kind::kMultiClass ? session::Cast(rows, DType::kI64)
                                   : session::Cast(rows, DType::kF32);
}

Tensor Head::WeightsOf(const NamedTensors& features) const {
  if (weight_column.empty()) return Tensor();
  const Tensor weights = features[weight_column];
  return weights.valid() ? session::Reshape(session::Cast(weights, DType::kF32), {-1, 1}) : weights;
}

NamedTensors Head::Predict(const Tensor& logits) const {
  if (kind == Kind::kRegression) return {{"predictions", logits}};
  if (kind == Kind::kMultiClass) {
    return {{"logits", logits},
            {"probabilities", session::nn::Softmax(logits)},
            {"class_ids", session::ExpandDims(session::ArgMax(logits, -1), -1)}};
  }
  const Tensor both = session::Concat({session::ZerosLike(logits), logits}, -1);
  return {{"logits", logits},
          {"logistic", session::Sigmoid(logits)},
          {"probabilities", session::nn::Softmax(both)},
          {"class_ids", session::ExpandDims(session::ArgMax(both, -1), -1)}};
}

Tensor Head::Losses(const Tensor& labels, const Tensor& logits) const {
  switch (kind) {
    case Kind::kBinary:
      return session::nn::SigmoidCrossEntropyWithLogits(labels, logits);
    case Kind::kMultiClass:
      return session::ExpandDims(
          session::nn::SparseSoftmaxCrossEntropyWithLogits(session::Squeeze(labels, -1), logits),
          -1);
    case Kind::kRegression:
      break;
  }
  return session::Square(labels - logits);
}

EvalMetricOps Head::Metrics(const Tensor& labels, const Tensor& losses, const Tensor& weights,
                            const NamedTensors& predictions) const {
  EvalMetricOps ops;
  ops["average_loss"] = metrics::Mean(losses, weights);
  if (kind == Kind::kRegression) {
    ops["prediction/mean"] = metrics::Mean(predictions["predictions"], weights);
    ops["label/mean"] = metrics::Mean(labels, weights);
    return ops;
  }
  const Tensor classes = predictions["class_ids"];
  ops["accuracy"] = metrics::Accuracy(labels, session::Cast(classes, labels.dtype()), weights);
  if (kind == Kind::kMultiClass) return ops;
  const Tensor logistic = predictions["logistic"];
  ops["precision"] = metrics::Precision(labels, classes, weights);
  ops["recall"] = metrics::Recall(labels, classes, weights);
  ops["auc"] = metrics::Auc(labels, logistic, weights);
  ops["auc_precision_recall"] =
      metrics::Auc(labels, logistic, weights, {.curve = "PR", .name = "auc_precision_recall"});
  ops["prediction/mean"] = metrics::Mean(logistic, weights);
  const metrics::MetricResult mean = metrics::Mean(labels, weights);
  ops["label/mean"] = mean;
  ops["accuracy_baseline"] = {session::Maximum(mean.value, 1 - mean.value),
                              session::Maximum(mean.update_op, 1 - mean.update_op)};
  return ops;
}

EstimatorSpec Head::Spec(const NamedTensors& features, const NamedTensors& labels, ModeKeys mode,
                         const Tensor& logits, const OptimizerChoice& optimizer) const {
  EstimatorSpec spec{.mode = mode};
  if (!logits.valid()) return spec;
  spec.predictions = Predict(logits);
  if (mode == ModeKeys::kPredict) return spec;
  const Tensor label_rows = LabelsOf(labels), weights = WeightsOf(features);
  if (!label_rows.valid()) return spec;
  const Tensor losses = Losses(label_rows, logits);
  spec.loss =
      weights.valid()
          ? session::losses::ComputeWeightedLoss(losses, weights, {.reduction = loss_reduction})
          : session::losses::ComputeWeightedLoss(losses, 1.0, {.reduction = loss_reduction});
  if (mode == ModeKeys::kEval) {
    spec.eval_metric_ops = Metrics(label_rows, losses, weights, spec.predictions);
    return spec;
  }
  const std::shared_ptr<session::train::Optimizer> chosen = optimizer();
  if (chosen == nullptr) {
    session::FailOp({logits}, "OptimizerChoice", "its function returned no optimizer", {});
    return spec;
  }
  spec.train_op = chosen->Minimize(spec.loss, session::GetGlobalStep());
  session::Operations updates =
      session::Graph::Default()->GetCollectionOperations(session::graph_keys::kUpdateOps);
  if (!updates.empty()) {
    updates.push_back(spec.train_op);
    spec.train_op = session::Group(updates);
  }
  return spec;
}

}  // namespace penstock::estimator
