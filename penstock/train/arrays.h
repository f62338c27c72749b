// Arrays as data: the arguments x, y and sample_weight of Keras's fit, evaluate and predict.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/base/array.h"
#include "penstock/data/dataset.h"
#include "penstock/nn/network.h"
#include "penstock/train/feed.h"

namespace penstock::train {

// Arrays of rows: one array, or one for each input (output) of a network, in their order or by
// their names.
class ArraysArg {
 public:
  ArraysArg() = default;                                                            // none
  ArraysArg(base::Array array) : in_order_{std::move(array)} {}                     // NOLINT
  ArraysArg(std::vector<base::Array> in_order) : in_order_(std::move(in_order)) {}  // NOLINT
  ArraysArg(base::NamedArrays by_name) : by_name_(std::move(by_name)) {}            // NOLINT
  bool empty() const { return in_order_.empty() && by_name_.empty(); }
  // The arrays in the order of `names`, the network's inputs or outputs. `what` is "x", "y" or
  // "sample_weight", for errors.
  absl::StatusOr<std::vector<base::Array>> InOrder(const std::vector<std::string>& names,
                                                   absl::string_view what) const;

 private:
  std::vector<base::Array> in_order_;
  base::NamedArrays by_name_;
};

// Validation data: none, a dataset of batches, or arrays.
class ValidationData {
 public:
  ValidationData() = default;
  ValidationData(const data::Dataset* dataset) {  // NOLINT: the dataset is copied, a description
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

// The rows of `x`, `y` (null: none, for prediction) and `sample_weight` (may be empty) as a dataset
// without batches, in columns of the names that a Feed of this network looks for.
absl::StatusOr<data::Dataset> RowsOf(const nn::Network& network, const Columns& columns,
                                     const ArraysArg& x, const ArraysArg* y,
                                     const ArraysArg& sample_weight);

}  // namespace penstock::train
