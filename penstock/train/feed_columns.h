// Which columns of a pipeline are the network's inputs, labels and weights. Internal to room train.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/train/feed_host.h"
#include "penstock/train/step_program.h"

namespace penstock::train {

// Name of the column that is made of the labels, for class weights (ClassWeightsOf).
inline constexpr char kClassWeight[] = "class weight";

struct FeedColumns {
  std::vector<std::string> names = {};  // inputs..., labels..., weights...
  size_t num_labels = 0;
  // With class weights: the column of the examples' own weights, which need not exist.
  std::string given_weights = {};

  bool Has(absl::string_view name) const {
    return std::find(names.begin(), names.end(), name) != names.end();
  }
  bool has_class_weight() const { return !names.empty() && names.back() == kClassWeight; }
};

// INVALID_ARGUMENT with the columns that are `present`: `what` is not clear.
absl::Status UnclearColumns(absl::string_view what, const std::vector<std::string>& present);

// The columns that a network with these ports takes of those that are `present`.
absl::StatusOr<FeedColumns> ResolveFeedColumns(const FeedPorts& ports, const Columns& wanted,
                                               const std::vector<std::string>& present,
                                               bool with_labels, bool class_weights);

// Types of a replica's batch: `rows` rows of each column, whose types with any number of rows are `types`, in the order of
// FeedColumns::names.
BatchTypes TypesOfBatch(const FeedPorts& ports, const FeedColumns& columns,
                        const std::vector<ir::TensorType>& types, int64_t rows, int64_t depth);

// The weight of each row (float32): that of the class of its label, times its own if `given` is not null. Class numbers
// or one-hot labels.
absl::StatusOr<base::Array> ClassWeightsOf(absl::string_view label_name, const base::Array& label,
                                           const std::map<int64_t, double>& class_weight,
                                           absl::string_view given_name, const base::Array* given);

}  // namespace penstock::train
