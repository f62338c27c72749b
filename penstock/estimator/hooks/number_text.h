// Numbers in progress lines. Internal to room estimator.
#pragma once

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/base/array.h"
#include "penstock/base/with_commas.h"

namespace penstock::estimator {

// "0.31" of a scalar; an array as Array prints it.
inline std::string NumberText(const base::Array& value) {
  if (!value.valid()) return "no value";
  if (value.num_elements() != 1 || !base::IsNumeric(value.dtype())) return value.ToString(8);
  if (base::IsFloat(value.dtype())) {
    const double number = value.item<double>();
    return std::isnan(number) ? "nan" : absl::StrFormat("%.6g", number);  // without its sign
  }
  return absl::StrCat(value.item<int64_t>());
}

// "1,234 steps/s", "0.25 steps/s".
inline std::string SpeedText(double steps_per_second) {
  if (!std::isfinite(steps_per_second)) return "";
  if (steps_per_second < 100) return absl::StrFormat("%.3g steps/s", steps_per_second);
  return absl::StrCat(base::WithCommas(static_cast<int64_t>(std::lround(steps_per_second))),
                      " steps/s");
}

}  // namespace penstock::estimator
