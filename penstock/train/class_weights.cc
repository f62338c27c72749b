#include "penstock/train/class_weights.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"

namespace penstock::train {

std::map<int64_t, double> BalancedClassWeights(const std::map<int64_t, int64_t>& counts) {
  double examples = 0, classes = 0;
  for (const auto& [number, count] : counts) {
    examples += static_cast<double>(count);
    classes += count > 0;
  }
  std::map<int64_t, double> weights;
  for (const auto& [number, count] : counts) {
    if (count > 0) weights[number] = examples / (classes * static_cast<double>(count));
  }
  return weights;
}

absl::Status CountClasses(const base::Array& labels, std::map<int64_t, int64_t>& counts) {
  if (labels.rank() > 2 || !base::IsNumeric(labels.dtype())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "classes are counted in labels [n] or [n, classes]; these are ", labels.TypeString()));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const base::Array wide, labels.Cast(base::DType::kF64));
  const int64_t width = labels.rank() == 2 ? labels.dim(1) : 1;
  const double* const numbers = wide.data<double>();
  for (int64_t i = 0; i + width <= labels.num_elements() && width > 0; i += width) {
    if (width > 1) {
      ++counts[std::max_element(numbers + i, numbers + i + width) - (numbers + i)];
      continue;
    }
    const double number = numbers[i];
    constexpr double kMost = 1 << 30;
    if (!(number >= 0 && number <= kMost) || number != std::floor(number)) {
      return absl::InvalidArgumentError(
          absl::StrCat("class indices are whole numbers from 0; label ", i, " is ", number));
    }
    ++counts[static_cast<int64_t>(number)];
  }
  return absl::OkStatus();
}

absl::StatusOr<std::map<int64_t, double>> BalancedClassWeights(const base::Array& labels) {
  std::map<int64_t, int64_t> counts;
  PENSTOCK_RETURN_IF_ERROR(CountClasses(labels, counts));
  if (counts.empty()) {
    return absl::InvalidArgumentError("there are no labels, so classes have no balanced weights");
  }
  return BalancedClassWeights(counts);
}

}  // namespace penstock::train
