// Metrics that are accumulated on the device. Names are Keras's (keras.metrics).
//
// A metric keeps a few numbers that add up: over steps, and over replicas by one sum. Its result is
// computed from the sums, so that it is exact whatever the batches and their padding were.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/ir/ops.h"

namespace penstock::nn {

class MetricBody {
 public:
  virtual ~MetricBody() = default;
  virtual absl::string_view name() const = 0;
  virtual std::vector<ir::TensorType> States() const = 0;  // all zero at first
  // What this batch adds to each state. `weights` is f32[batch], 0 for padding.
  virtual ir::Values Update(ir::Value y_true, ir::Value y_pred, ir::Value weights) const = 0;
  // The metric's value, f32 scalar.
  virtual ir::Value Result(const ir::Values& states) const = 0;
};

class Metric {
 public:
  explicit Metric(std::shared_ptr<MetricBody> body) : body_(std::move(body)) {}
  absl::string_view name() const { return body_->name(); }
  std::vector<ir::TensorType> States() const { return body_->States(); }
  ir::Values Update(ir::Value y_true, ir::Value y_pred, ir::Value weights) const;
  ir::Value Result(const ir::Values& states) const { return body_->Result(states); }

  // "accuracy", "sparse_categorical_accuracy", "categorical_accuracy", "binary_accuracy",
  // "mean_squared_error" ("mse"); the error lists the names there are.
  static absl::StatusOr<Metric> FromName(absl::string_view name);

 private:
  std::shared_ptr<MetricBody> body_;
};

// The share of examples whose largest prediction is the label's class. "accuracy" looks at the
// shapes, as Keras does: predictions of one column are binary (above 0.5), labels without the class
// axis are class numbers, labels of the predictions' shape are one-hot.
Metric Accuracy();
Metric SparseCategoricalAccuracy();
Metric CategoricalAccuracy();
Metric BinaryAccuracy();
Metric MeanSquaredErrorMetric();

// The weighted mean of values that are there already, such as losses: {sum, count} of f32[batch]
// values.
ir::Values MeanUpdate(ir::Value values, ir::Value weights);
// sum / count, 0 while there is nothing.
ir::Value MeanResult(const ir::Values& states);
std::vector<ir::TensorType> MeanStates();

}  // namespace penstock::nn
