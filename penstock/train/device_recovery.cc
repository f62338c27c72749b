#include "penstock/train/device_recovery.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/train/callbacks/callback_list.h"

namespace penstock::train {

absl::StatusOr<DeviceRecovery> DeviceRecovery::Begin(DeviceModel& model,
                                                     const FitOptions& options) {
  DeviceRecovery recovery(model, options);
  if (options.max_device_losses == 0 && options.max_preemptions == 0) return recovery;
  runtime::Client& client = model.strategy().client();
  // Reopen gives up the devices of a worker that drains, and with them the state, which is still there.
  if (!client.Draining().has_value() && absl::IsUnimplemented(client.Reopen())) return recovery;
  PENSTOCK_ASSIGN_OR_RETURN(recovery.start_, model.State());
  return recovery;
}

bool DeviceRecovery::may_wait() const {
  const int limit = options_.max_preemptions;
  return start_.has_value() && (limit < 0 || preemptions_ < limit);
}

absl::Status DeviceRecovery::Preempted(absl::string_view reason) {
  absl::Status status = absl::UnavailableError(reason);
  status.SetPayload(runtime::kPreemptedPayload, absl::Cord(reason));
  return status;
}

absl::Status DeviceRecovery::Recover(const absl::Status& failure) {
  if (!start_.has_value()) return failure;
  const bool preempted = failure.GetPayload(runtime::kPreemptedPayload).has_value();
  int& count = preempted ? preemptions_ : losses_;
  const int limit = preempted ? options_.max_preemptions : options_.max_device_losses;
  const absl::string_view option = preempted ? "max_preemptions" : "max_device_losses";
  if (limit >= 0 && count >= limit) {
    if (limit == 0) return failure;
    return base::WithContext(failure, absl::StrCat("the devices were lost more than ", limit,
                                                   " times (", option, "); the last time"));
  }
  // It waits for the devices, and knows whether they are lost at all.
  const absl::Status reopened = model_.strategy().client().Reopen();
  if (absl::IsAlreadyExists(reopened)) return failure;
  if (!reopened.ok()) {
    return base::WithContext(failure, absl::StrCat("the devices were lost, and do not come back (",
                                                   reopened.message(), ")"));
  }
  ++count;
  CallbackList(options_.callbacks)
      .Warn(absl::StrCat("the devices were lost (", failure.message(),
                         ") and are back; resuming from the newest checkpoint (", option, ": ",
                         count, limit < 0 ? "" : absl::StrCat(" of ", limit), ")"));
  return model_.SetState(*start_);
}

}  // namespace penstock::train
