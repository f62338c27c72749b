// Metrics over many batches: tf.metrics, with the names, defaults and formulas of TensorFlow 1.15.
//
//   auto [accuracy, update] = tf::metrics::Accuracy(labels, tf::ArgMax(logits, 1));
//   PENSTOCK_RETURN_IF_ERROR(session.Run(tf::LocalVariablesInitializer()));
//   for (const Batch& batch : batches) session.Run({update}, {{x, batch.x}, {labels, batch.y}});
//   PENSTOCK_ASSIGN_OR_RETURN(Array result, session.Run(accuracy));
//
// A metric keeps sums in local variables (collections LOCAL_VARIABLES and METRIC_VARIABLES):
// "accuracy/total" and "accuracy/count". Running `update_op` adds a batch and returns the value
// after it; `value` is the value of the batches so far (the start of the Run). Both are f32
// scalars.
//
// `weights`: invalid (TensorFlow's None) means ones; otherwise a scalar, or of the labels' shape, a
// last axis of 1 more or less, and extents of 1 are broadcast. A weight of 0 excludes an element.
// Labels and predictions may differ by a last axis of 1.
#pragma once

#include <string>
#include <vector>

#include "penstock/session/graph.h"

namespace penstock::session::metrics {

struct MetricResult {
  Tensor value;
  Tensor update_op;
};

struct MetricOptions {
  // Collections to which the value and the update are added.
  std::vector<std::string> metrics_collections = {}, updates_collections = {};
  std::string name = "";  // empty: the metric's
};

// Weighted mean of all elements of `values`.
MetricResult Mean(const Tensor& values, const Tensor& weights = {},
                  const MetricOptions& options = {},
                  SourceLocation where = SourceLocation::Current());
// Fraction of predictions that equal the labels.
MetricResult Accuracy(const Tensor& labels, const Tensor& predictions, const Tensor& weights = {},
                      const MetricOptions& options = {},
                      SourceLocation where = SourceLocation::Current());
MetricResult MeanAbsoluteError(const Tensor& labels, const Tensor& predictions,
                               const Tensor& weights = {}, const MetricOptions& options = {},
                               SourceLocation where = SourceLocation::Current());
MetricResult MeanSquaredError(const Tensor& labels, const Tensor& predictions,
                              const Tensor& weights = {}, const MetricOptions& options = {},
                              SourceLocation where = SourceLocation::Current());
MetricResult RootMeanSquaredError(const Tensor& labels, const Tensor& predictions,
                                  const Tensor& weights = {}, const MetricOptions& options = {},
                                  SourceLocation where = SourceLocation::Current());

// Labels and predictions are false (0) or true (anything else); the sums of the weights.
MetricResult TruePositives(const Tensor& labels, const Tensor& predictions,
                           const Tensor& weights = {}, const MetricOptions& options = {},
                           SourceLocation where = SourceLocation::Current());
MetricResult TrueNegatives(const Tensor& labels, const Tensor& predictions,
                           const Tensor& weights = {}, const MetricOptions& options = {},
                           SourceLocation where = SourceLocation::Current());
MetricResult FalsePositives(const Tensor& labels, const Tensor& predictions,
                            const Tensor& weights = {}, const MetricOptions& options = {},
                            SourceLocation where = SourceLocation::Current());
MetricResult FalseNegatives(const Tensor& labels, const Tensor& predictions,
                            const Tensor& weights = {}, const MetricOptions& options = {},
                            SourceLocation where = SourceLocation::Current());
// True positives / (true + false positives); 0 without any.
MetricResult Precision(const Tensor& labels, const Tensor& predictions, const Tensor& weights = {},
                       const MetricOptions& options = {},
                       SourceLocation where = SourceLocation::Current());
// True positives / (true positives + false negatives); 0 without any.
MetricResult Recall(const Tensor& labels, const Tensor& predictions, const Tensor& weights = {},
                    const MetricOptions& options = {},
                    SourceLocation where = SourceLocation::Current());

// Area under a curve of probabilities, from counts at num_thresholds thresholds.
struct AucOptions {
  int64_t num_thresholds = 200;
  std::vector<std::string> metrics_collections = {}, updates_collections = {};
  std::string curve = "ROC";  // or PR
  std::string name = "";
  // "careful_interpolation" (for PR), "minoring", "majoring".
  std::string summation_method = "trapezoidal";
  std::vector<double> thresholds = {};  // within (0, 1), instead of num_thresholds
};
MetricResult Auc(const Tensor& labels, const Tensor& predictions, const Tensor& weights = {},
                 const AucOptions& options = {}, SourceLocation where = SourceLocation::Current());

// Fraction of rows whose label, a class index, is among the k largest predictions: the mean of
// tf.nn.in_top_k. predictions: [batch, classes]; labels: [batch] or [batch, 1].
MetricResult SparseTopKAccuracy(const Tensor& labels, const Tensor& predictions, int64_t k = 5,
                                const Tensor& weights = {}, const MetricOptions& options = {},
                                SourceLocation where = SourceLocation::Current());

}  // namespace penstock::session::metrics
