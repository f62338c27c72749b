// What may be given in more than one way, as in Keras: a name or the thing itself, one or several,
// a dataset or arrays.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/base/array.h"
#include "penstock/data/dataset.h"
#include "penstock/nn/losses.h"
#include "penstock/nn/metrics.h"
#include "penstock/nn/optimizers.h"

namespace penstock::keras {

class OptimizerArg {
 public:
  OptimizerArg(const char* name) : value_(nn::Optimizer::FromName(name)) {}  // NOLINT: "adam"
  OptimizerArg(const std::string& name) : value_(nn::Optimizer::FromName(name)) {}  // NOLINT
  OptimizerArg(nn::Optimizer value) : value_(std::move(value)) {}                   // NOLINT
  const absl::StatusOr<nn::Optimizer>& Get() const { return value_; }

 private:
  absl::StatusOr<nn::Optimizer> value_;
};
class LossArg {
 public:
  LossArg(const char* name) : value_(nn::Loss::FromName(name)) {}         // NOLINT: "mse"
  LossArg(const std::string& name) : value_(nn::Loss::FromName(name)) {}  // NOLINT
  LossArg(nn::Loss value) : value_(std::move(value)) {}                   // NOLINT
  const absl::StatusOr<nn::Loss>& Get() const { return value_; }

 private:
  absl::StatusOr<nn::Loss> value_;
};
// The loss of the only output, or one of each output: in their order, or by their names.
class LossesArg {
 public:
  using ByName = std::vector<std::pair<std::string, LossArg>>;
  template <typename T, typename = std::enable_if_t<std::is_convertible_v<T, LossArg>>>
  LossesArg(T one) : in_order_{LossArg(std::move(one))} {}                  // NOLINT: "mse"
  LossesArg(std::vector<LossArg> losses) : in_order_(std::move(losses)) {}  // NOLINT
  LossesArg(ByName losses) : by_name_(std::move(losses)) {}                 // NOLINT
  const std::vector<LossArg>& in_order() const { return in_order_; }
  const ByName& by_name() const { return by_name_; }

 private:
  std::vector<LossArg> in_order_;
  ByName by_name_;
};
class MetricArg {
 public:
  MetricArg(const char* name) : value_(nn::Metric::FromName(name)) {}         // NOLINT: "accuracy"
  MetricArg(const std::string& name) : value_(nn::Metric::FromName(name)) {}  // NOLINT
  MetricArg(nn::Metric value) : value_(std::move(value)) {}                   // NOLINT
  const absl::StatusOr<nn::Metric>& Get() const { return value_; }

 private:
  absl::StatusOr<nn::Metric> value_;
};

// Rows of arrays: one array, or one for each input (output) of the model, in their order or by
// their names.
class ArraysArg {
 public:
  ArraysArg() = default;                                                            // none
  ArraysArg(base::Array one) : in_order_{std::move(one)} {}                         // NOLINT
  ArraysArg(std::vector<base::Array> in_order) : in_order_(std::move(in_order)) {}  // NOLINT
  ArraysArg(base::NamedArrays by_name) : by_name_(std::move(by_name)) {}            // NOLINT
  bool empty() const { return in_order_.empty() && by_name_.empty(); }
  // In the order of `names`, which are the model's. `what` is "x" or "y", for errors.
  absl::StatusOr<std::vector<base::Array>> InOrder(const std::vector<std::string>& names,
                                                   absl::string_view what) const;

 private:
  std::vector<base::Array> in_order_;
  base::NamedArrays by_name_;
};

// What a training is validated on: a dataset of batches, which must outlive the call when it is
// given by its address, or arrays.
class ValidationData {
 public:
  ValidationData() = default;                     // none
  ValidationData(const data::Dataset* dataset) {  // NOLINT
    if (dataset != nullptr) dataset_ = *dataset;
  }
  ValidationData(data::Dataset dataset) : dataset_(std::move(dataset)) {}  // NOLINT
  ValidationData(ArraysArg x, ArraysArg y, ArraysArg sample_weight = {})
      : x_(std::move(x)), y_(std::move(y)), sample_weight_(std::move(sample_weight)) {}

  bool empty() const { return !dataset_.has_value() && x_.empty(); }
  const std::optional<data::Dataset>& dataset() const { return dataset_; }
  const ArraysArg& x() const { return x_; }
  const ArraysArg& y() const { return y_; }
  const ArraysArg& sample_weight() const { return sample_weight_; }

 private:
  std::optional<data::Dataset> dataset_;
  ArraysArg x_, y_, sample_weight_;
};

}  // namespace penstock::keras
