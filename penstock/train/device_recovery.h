// DeviceRecovery: lets Fit go on after its devices were lost (FitOptions::max_device_losses). Internal to
// room train.
//
//   PENSTOCK_ASSIGN_OR_RETURN(DeviceRecovery recovery, DeviceRecovery::Begin(model, options));
//   ... Fit fails with `status`
//   PENSTOCK_RETURN_IF_ERROR(recovery.Recover(status));
//   ... run it again: it resumes from the newest checkpoint
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/train/device_model.h"
#include "penstock/train/options.h"

namespace penstock::train {

class DeviceRecovery {
 public:
  // Copies the state to the host if the devices can be lost, for a run that has no checkpoint yet.
  static absl::StatusOr<DeviceRecovery> Begin(DeviceModel& model, const FitOptions& options);

  // Whether Recover may go on after an announced loss.
  bool may_wait() const;
  // For a training that was interrupted with `reason` before the devices are lost: what Recover takes.
  static absl::Status Preempted(absl::string_view reason);

  // OK: the devices had been lost, are back, and hold the state that Fit began with. Otherwise the error
  // that Fit returns: `failure`, with why there is no further attempt if there could have been one.
  absl::Status Recover(const absl::Status& failure);

 private:
  DeviceRecovery(DeviceModel& model, const FitOptions& options)
      : model_(model), options_(options) {}

  DeviceModel& model_;
  const FitOptions& options_;
  std::optional<base::NamedArrays> start_;  // no value: the devices cannot be lost
  int losses_ = 0, preemptions_ = 0;
};

}  // namespace penstock::train
