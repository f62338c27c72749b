#include "penstock/lazy/xm.h"

#include <mutex>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/lazy/context.h"
#include "penstock/lazy/metrics.h"
#include "penstock/lazy/replicas.h"
#include "penstock/lazy/step_closures.h"
#include "penstock/lazy/trace.h"

namespace penstock::lazy::xm {
namespace {

// The client of this process: that of the first call.
absl::StatusOr<std::shared_ptr<runtime::Client>> ClientOfProcess(const DeviceOptions& options) {
  static std::mutex mutex;
  static auto& client = *new std::shared_ptr<runtime::Client>;  // guarded by mutex
  const std::lock_guard<std::mutex> lock(mutex);
  if (client != nullptr) return client;
  PENSTOCK_ASSIGN_OR_RETURN(
      client, runtime::OpenClient({.device = options.device, .cpu_devices = options.cpu_devices}));
  return client;
}

}  // namespace

absl::StatusOr<Device> xla_device(std::optional<int> n, const DeviceOptions& options) {
  if (!n.has_value() && options.client == nullptr && CurrentReplica() != nullptr) {
    return CurrentReplica()->device;
  }
  std::shared_ptr<runtime::Client> client = options.client;
  if (client == nullptr) {
    PENSTOCK_ASSIGN_OR_RETURN(client, ClientOfProcess(options));
  }
  const int index = n.value_or(0), count = static_cast<int>(client->devices().size());
  if (index < 0 || index >= count) {
    return absl::InvalidArgumentError(absl::StrCat("xla_device(", index, "): ", client->platform(),
                                                   " has ", count, " device(s), numbered from 0"));
  }
  return Device(std::move(client), index);
}

absl::Status mark_step(bool wait) {
  Recorder& recorder = Recorder::OfThread();
  met::Metrics::Process().AddCounter("MarkStep");
  PENSTOCK_RETURN_IF_ERROR(recorder.TakeError());
  absl::Status first;
  for (Trace* trace : recorder.traces()) {
    first.Update(trace->MarkStep());
    if (wait) first.Update(trace->device().context()->Synchronize(trace->device().index()));
  }
  first.Update(RunStepClosures());
  return first;
}

}  // namespace penstock::lazy::xm
