// Head: what a canned estimator makes of logits: predictions, loss, metrics, train_op
// (tensorflow_estimator/python/estimator/canned/head.py). Internal to canned/.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "penstock/estimator/canned/canned.h"

namespace penstock::estimator {

struct Head {
  enum class Kind { kBinary, kMultiClass, kRegression };
  Kind kind = Kind::kBinary;
  int64_t n_classes = 2;        // kMultiClass
  int64_t label_dimension = 1;  // kRegression
  std::string weight_column = "";
  std::vector<std::string> label_vocabulary = {};
  Reduction loss_reduction = Reduction::kSum;

  // Of n_classes, which must be at least 2.
  static absl::StatusOr<Head> Classifier(int64_t n_classes, std::string weight_column,
                                         std::vector<std::string> label_vocabulary,
                                         Reduction loss_reduction);
  static absl::StatusOr<Head> Regression(int64_t label_dimension, std::string weight_column,
                                         Reduction loss_reduction);

  int64_t logits_dimension() const;
  // `logits`: f32[batch, logits_dimension].
  EstimatorSpec Spec(const NamedTensors& features, const NamedTensors& labels, ModeKeys mode,
                     const session::Tensor& logits, const OptimizerChoice& optimizer) const;
  // Converts labels that are strings, and checks that labels are classes.
  data::Dataset ConvertLabels(const data::Dataset& dataset,
                              const std::vector<std::string>& labels) const;

 private:
  session::Tensor LabelsOf(const NamedTensors& labels) const;
  session::Tensor WeightsOf(const NamedTensors& features) const;
  NamedTensors Predict(const session::Tensor& logits) const;
  session::Tensor Losses(const session::Tensor& labels, const session::Tensor& logits) const;
  EvalMetricOps Metrics(const session::Tensor& labels, const session::Tensor& losses,
                        const session::Tensor& weights, const NamedTensors& predictions) const;
};

}  // namespace penstock::estimator
