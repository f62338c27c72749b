#include "penstock/estimator/hooks/timer.h"

#include "absl/strings/str_cat.h"

namespace penstock::estimator {

absl::Status SecondOrStepTimer::Check(absl::string_view hook, absl::string_view steps,
                                      absl::string_view seconds) const {
  if (steps_.has_value() && seconds_.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(hook, " has ", steps, " and ", seconds, "; give one of them"));
  }
  if (steps_.value_or(1) < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(hook, ".", steps, " is ", *steps_, ", but must be at least 1"));
  }
  if (!(seconds_.value_or(1) > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat(hook, ".", seconds, " is ", *seconds_, ", but must be above 0"));
  }
  if (clock_ == nullptr) return absl::InvalidArgumentError(absl::StrCat(hook, ".clock is null"));
  return absl::OkStatus();
}

}  // namespace penstock::estimator
