// Checks numeric options of callbacks and of Fit; the error names the option. Internal to rooms
// train and keras.
#pragma once

#include <cmath>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace penstock::train {

inline absl::Status CheckAtLeast(absl::string_view who, absl::string_view option, int64_t value,
                                 int64_t least) {
  if (value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(who, "'s ", option, " must be at least ", least, ", got ", value));
}

inline absl::Status CheckNotNegative(absl::string_view who, absl::string_view option,
                                     int64_t value) {
  return CheckAtLeast(who, option, value, 0);
}

inline absl::Status CheckFinite(absl::string_view who, absl::string_view option, double value) {
  if (std::isfinite(value)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(who, "'s ", option, " must be a finite number, got ", value));
}

inline absl::Status CheckNotEmpty(absl::string_view who, absl::string_view option,
                                  absl::string_view value) {
  if (!value.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(who, "'s ", option, " is empty"));
}

}  // namespace penstock::train
