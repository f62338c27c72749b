#include "penstock/keras/categorical.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "penstock/base/checked_size.h"
#include "penstock/base/status.h"

namespace penstock::keras {

absl::StatusOr<base::Array> ToCategorical(const base::Array& labels, int64_t num_classes) {
  using base::DType;
  if (!base::IsInteger(labels.dtype()) || num_classes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("ToCategorical takes integer class numbers; got ", labels.TypeString(),
                     " and num_classes ", num_classes));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const base::Array wide, labels.Cast(DType::kI64));
  const auto classes = wide.values<int64_t>();
  if (num_classes == 0 && !classes.empty()) {
    const int64_t largest = *std::max_element(classes.begin(), classes.end());
    num_classes = std::clamp<int64_t>(largest, 0, INT64_MAX - 1) + 1;
  }
  std::vector<int64_t> dims(labels.shape().begin(), labels.shape().end());
  if (dims.size() > 1 && dims.back() == 1) dims.pop_back();
  dims.push_back(num_classes);
  if (dims.size() > base::kMaxRank || !base::CheckedBytes(DType::kF32, base::Shape(dims))) {
    return absl::InvalidArgumentError(absl::StrCat("one-hot rows of ", num_classes, " classes for ",
                                                   labels.TypeString(), " exceed any memory"));
  }
  base::Array out = base::Array::Zeros(DType::kF32, base::Shape(dims));
  for (size_t i = 0; i < classes.size(); ++i) {
    if (classes[i] < 0 || classes[i] >= num_classes) {
      return absl::InvalidArgumentError(absl::StrCat("class number ", classes[i], " of row ", i,
                                                     " is not within the ", num_classes,
                                                     " classes, counted from 0"));
    }
    out.mutable_data<float>()[static_cast<int64_t>(i) * num_classes + classes[i]] = 1;
  }
  return out;
}

}  // namespace penstock::keras
