// Metrics, accumulated on the device. Names, defaults and formulas are Keras's (keras.metrics).
//
//   Metric auc = AUC({.curve = AucCurve::kPR}).Named("pr_auc");           // or "PR"
//   std::vector<TensorType> types = auc.States(type_of_predictions);      // zeros at first
//   Values states = Add(states, auc.Update(labels, predictions, weights));  // each step
//   Value value = auc.Result(states);                                     // f32 scalar
//   absl::StatusOr<Metric> same = Metric::FromName("mae");
//
// A metric stores a few sums: over steps, and over replicas by one all-reduce. Its result is
// computed from the sums, so it is exact whatever the batches and their padding were.
//
// A result is one number, as logs are. Where Keras returns one for each threshold or class (several
// `thresholds`, F1Score without `average`), make one metric for each threshold, or average.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

#include "penstock/ir/ops.h"
#include "penstock/nn/losses.h"
#include "penstock/nn/typed_options.h"

namespace penstock::nn {

// Direction of improvement (Keras's `_direction`). kUnknown: a callback that monitors the metric
// needs an explicit mode.
enum class MetricDirection { kUnknown, kUp, kDown };

// A metric class: its options, its states (sums) and its formula.
class MetricBody {
 public:
  virtual ~MetricBody() = default;
  virtual absl::string_view name() const = 0;  // Keras's default
  virtual MetricDirection direction() const = 0;
  // Types of the states, which are initially zero. `y_pred` is the type of predictions; its batch
  // size is ignored, and it does not affect the number of states.
  virtual std::vector<ir::TensorType> States(const ir::TensorType& y_pred) const = 0;
  // Contribution of this batch to each state. `y_pred` has at least 32 bits; `weights` is f32 with
  // the leading axes of the labels, 0 for padding.
  virtual ir::Values Update(ir::Value y_true, ir::Value y_pred, ir::Value weights) const = 0;
  // The metric's value, f32 scalar.
  virtual ir::Value Result(const ir::Values& states) const = 0;
  virtual void Fields(Config&) {}
  virtual absl::Status Check() const { return absl::OkStatus(); }  // the options
  // Whether it is a function of the program: a file contains only its name.
  virtual bool is_custom() const { return false; }
};

class Metric {
 public:
  explicit Metric(std::shared_ptr<MetricBody> body)
      : body_(std::move(body)), name_(body_->name()) {}

  // Name in logs. Two metrics of one model must have different names.
  absl::string_view name() const { return name_; }
  Metric Named(absl::string_view name) const;
  // As in Keras 3; kUnknown for counts, means and sums of predictions, and custom functions without
  // a direction.
  MetricDirection direction() const { return body_->direction(); }
  // Whether it was made by CustomMean, or from a CustomLoss: ToJson writes only its name, and
  // FromJson rejects that.
  bool is_custom() const { return body_->is_custom(); }
  // Keras's class, "MeanSquaredError"; empty if it has none: a custom metric, or "accuracy", which
  // Keras too takes by name alone.
  std::string class_name() const;

  std::vector<ir::TensorType> States(const ir::TensorType& y_pred) const;
  size_t num_states() const;
  // `weights`: f32[batch], or with further axes of the labels ([batch, steps] under a mask); a
  // weight of 0 excludes the value, even NaN. Invalid: ones.
  ir::Values Update(ir::Value y_true, ir::Value y_pred, ir::Value weights = {}) const;
  ir::Value Result(const ir::Values& states) const { return body_->Result(states); }
  absl::Status Check() const;

  // {"name" or "class_name", "config"} with Keras's keys; the config's "name" is the name in logs.
  // A plain string is interpreted by FromName.
  nlohmann::ordered_json ToJson() const;
  static absl::StatusOr<Metric> FromJson(const nlohmann::ordered_json& json);
  // The metric with default options, by any of Keras's names: "mean_squared_error",
  // "MeanSquaredError", "mse". Its name in logs is the given one, as in Keras. The error for an
  // unknown name lists the known ones.
  static absl::StatusOr<Metric> FromName(absl::string_view name);
  static std::vector<std::string> Names();
  const std::shared_ptr<MetricBody>& body() const { return body_; }

 private:
  absl::Status CheckUpdate(const ir::Values& added, const ir::Value& y_pred) const;

  std::shared_ptr<MetricBody> body_;
  std::string name_;
};

// ---- Means (metrics/mean.cc) ----

// Fraction of examples whose maximum prediction is the label's class. "accuracy" chooses by the
// shapes, as Keras's compile does: predictions of one column are binary (above 0.5), labels without
// the class axis are class indices, labels of the predictions' shape are one-hot.
Metric Accuracy();
// keras.metrics.Accuracy: predictions equal to labels.
Metric ExactAccuracy();
Metric SparseCategoricalAccuracy();
Metric CategoricalAccuracy();
struct BinaryAccuracyOptions {
  double threshold = 0.5;
};
Metric BinaryAccuracy(const BinaryAccuracyOptions& options = {});
// Correct if fewer than k predictions are larger than the label's.
struct TopKOptions {
  int64_t k = 5;
};
Metric TopKCategoricalAccuracy(const TopKOptions& options = {});
struct SparseTopKOptions {
  int64_t k = 5;
  bool from_sorted_ids = false;  // predictions are class indices, best first
};
// "sparse_top_k_categorical_accuracy", or "top5".
Metric SparseTopKCategoricalAccuracy(const SparseTopKOptions& options = {});

// Mean of a loss, whatever its reduction, under the loss's name; the loss's ignored class is
// excluded.
Metric MeanOfLoss(const Loss& loss);
// Options of the crossentropies in keras::metrics: those of the losses, without a reduction.
struct CrossentropyMetricOptions {
  bool from_logits = false;
  double label_smoothing = 0;
  int64_t axis = -1;
};
struct SparseCrossentropyMetricOptions {
  bool from_logits = false;
  std::optional<int64_t> ignore_class = {};
  int64_t axis = -1;
  double label_smoothing = 0;
};
Metric MeanSquaredErrorMetric();
Metric RootMeanSquaredError();
Metric LogCoshErrorMetric();
struct CorrelationOptions {
  int64_t axis = -1;
};
Metric CosineSimilarityMetric(const CorrelationOptions& options = {});  // 1: same direction
// Correlation along `axis`, averaged over examples.
Metric PearsonCorrelation(const CorrelationOptions& options = {});
Metric ConcordanceCorrelation(const CorrelationOptions& options = {});
// Mean and sum of the predictions; labels are ignored and may be invalid.
Metric Mean();
Metric Sum();
// Weighted mean of a function's [batch, ...] values; any other shape, such as one number for the
// batch, is an error. `direction` is for callbacks that monitor it. Its JSON cannot be loaded.
Metric CustomMean(absl::string_view name,
                  std::function<ir::Value(ir::Value y_true, ir::Value y_pred)> function,
                  MetricDirection direction = MetricDirection::kUnknown);

struct R2ScoreOptions {
  ClassAggregation class_aggregation = "uniform_average";  // or "variance_weighted_average"
  int64_t num_regressors =
      0;  // above 0: adjusted R2 for that many regressors; counts weights above 0
};
// Predictions [batch, outputs].
Metric R2Score(const R2ScoreOptions& options = {});

// ---- Decisions by a threshold (metrics/confusion.cc) ----
// Labels are 0 or not 0; a prediction above the threshold is positive.

struct CountOptions {
  double thresholds = 0.5;
};
Metric TruePositives(const CountOptions& options = {});
Metric TrueNegatives(const CountOptions& options = {});
Metric FalsePositives(const CountOptions& options = {});
Metric FalseNegatives(const CountOptions& options = {});

struct PrecisionOptions {
  std::optional<double> thresholds = {};  // default: 0.5; with top_k: none
  std::optional<int64_t> top_k = {};      // only the k largest along the last axis can be positive
  std::optional<int64_t> class_id = {};   // index on the last axis; nullopt: all classes
};
Metric Precision(const PrecisionOptions& options = {});
Metric Recall(const PrecisionOptions& options = {});

struct FBetaOptions {
  ClassAverage average = "macro";  // micro, weighted; Keras's default is none, a vector
  double beta = 1;
  std::optional<double> threshold = {};  // nullopt: the maximum of each row is positive
};
// Predictions [batch, classes]; labels of the same shape, one-hot or several of 0 and 1, or class
// indices [batch] or [batch, 1], which Keras's does not take.
Metric FBetaScore(const FBetaOptions& options = {});
struct F1Options {
  ClassAverage average = "macro";
  std::optional<double> threshold = {};
};
// "f1_score", or "f1".
Metric F1Score(const F1Options& options = {});

// ---- Curves over many thresholds (metrics/curves.cc) ----

struct AucOptions {
  int64_t num_thresholds = 200;
  AucCurve curve = "ROC";                                 // PR, PRGAIN
  AucSummationMethod summation_method = "interpolation";  // minoring, majoring
  std::vector<double> thresholds = {};  // replaces num_thresholds; 0 and 1 are added
  bool multi_label = false;             // predictions [batch, labels]: mean of one curve per label
  std::optional<int64_t> num_labels = {};  // checked if given
  std::vector<double> label_weights = {};  // of each index of the last axis
  bool from_logits = false;
};
Metric AUC(const AucOptions& options = {});

// Maximum of one quantity over all thresholds at which the other is at least `at`.
struct AtOptions {
  double at = 0.5;  // minimum of the quantity after "At" (Keras's specificity, recall, ...)
  int64_t num_thresholds = 200;
  std::optional<int64_t> class_id = {};
};
Metric SensitivityAtSpecificity(const AtOptions& options);
Metric SpecificityAtSensitivity(const AtOptions& options);
Metric PrecisionAtRecall(const AtOptions& options);
Metric RecallAtPrecision(const AtOptions& options);

// ---- Segmentation (metrics/iou.cc): intersection over union of classes ----
// Weights may be fractional; Keras's default rounds them down.

struct IoUOptions {
  int64_t num_classes = 0;                     // must be given
  std::vector<int64_t> target_class_ids = {};  // for MeanIoU: all
  std::optional<int64_t> ignore_class = {};    // label to ignore
  bool sparse_y_true = true;                   // class indices; false: one-hot along `axis`
  bool sparse_y_pred = true;                   // class indices; false: scores along `axis`
  int64_t axis = -1;
};
Metric IoU(const IoUOptions& options);
Metric MeanIoU(const IoUOptions& options);
// Labels are one-hot, predictions are scores unless sparse_y_pred.
struct OneHotIoUOptions {
  int64_t num_classes = 0;
  std::vector<int64_t> target_class_ids = {};
  std::optional<int64_t> ignore_class = {};
  bool sparse_y_pred = false;
  int64_t axis = -1;
};
Metric OneHotIoU(const OneHotIoUOptions& options);
Metric OneHotMeanIoU(const OneHotIoUOptions& options);
struct BinaryIoUOptions {
  std::vector<int64_t> target_class_ids = {0, 1};
  double threshold = 0.5;  // predictions from this value on are class 1
};
Metric BinaryIoU(const BinaryIoUOptions& options = {});

// ---- Means of values that are already computed, such as losses ----

// Contribution of `values` [batch, ...] to {sum, count}; the weights have their leading axes.
ir::Values MeanUpdate(ir::Value values, ir::Value weights);
// sum / count; 0 if the count is 0.
ir::Value MeanResult(const ir::Values& states);
std::vector<ir::TensorType> MeanStates();

}  // namespace penstock::nn
