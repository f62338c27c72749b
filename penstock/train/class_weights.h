// Weights of classes for FitOptions::class_weight.
//
//   PENSTOCK_ASSIGN_OR_RETURN(const auto weights, BalancedClassWeights(labels));
//   const FitOptions fit{.epochs = 10, .class_weight = weights};
#pragma once

#include <cstdint>
#include <map>

#include "absl/status/statusor.h"

#include "penstock/base/array.h"

namespace penstock::train {

// Weights with which every class has the same sum of weights: n / (k * count), for n examples of k
// classes, as scikit-learn's class_weight="balanced". The mean weight of an example is 1. `counts`:
// number of examples of each class; classes without examples get no weight and are not among the k.
std::map<int64_t, double> BalancedClassWeights(const std::map<int64_t, int64_t>& counts);

// Adds the classes of `labels` to `counts`: class indices [n] or [n, 1] of any numeric type, or
// one-hot [n, classes]. INVALID_ARGUMENT for other shapes, and for numbers that are not indices.
absl::Status CountClasses(const base::Array& labels, std::map<int64_t, int64_t>& counts);

// The weights for these labels; INVALID_ARGUMENT as CountClasses, or if there are none.
absl::StatusOr<std::map<int64_t, double>> BalancedClassWeights(const base::Array& labels);

}  // namespace penstock::train
