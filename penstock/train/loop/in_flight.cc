#include "penstock/train/loop/in_flight.h"

#include <algorithm>
#include <utility>

namespace penstock::train {

int64_t InFlight::MaxBytesOf(runtime::Client& client, const runtime::Device& device) {
  return std::min(kMaxBytes, client.FreeMemory(device).bytes / 8);
}

void InFlight::Abandon() {
  for (Entry& entry : queue_) {
    entry.arrived->Await().IgnoreError();
    for (const auto& arrived : entry.others_arrived) arrived->Await().IgnoreError();
  }
  queue_.clear();
}

void InFlight::Measured(bool on_cpu, double device_seconds, double host_seconds,
                        double round_trip_seconds, int64_t bytes, int64_t max_bytes) {
  const double newest = device_seconds_ == 0 ? 1 : 0.125;
  device_seconds_ += newest * (device_seconds - device_seconds_);
  host_seconds_ += newest * (host_seconds - host_seconds_);
  limit_ = LimitFor(on_cpu, device_seconds_, host_seconds_, round_trip_seconds, bytes, max_bytes);
}

absl::Status InFlight::Add(const runtime::Buffer& report, DeviceBatch batch,
                           std::vector<runtime::Buffers> arguments,
                           std::shared_ptr<ExecutionTimer> timer) {
  Entry entry;
  entry.arguments = std::move(arguments);
  entry.execution.report = base::Array::Uninitialized(report.type().dtype, report.type().shape);
  entry.execution.batch = std::move(batch);
  PENSTOCK_ASSIGN_OR_RETURN(entry.arrived, report.GetAsync(entry.execution.report));
  if (timer != nullptr) {
    entry.arrived->OnReady([timer](const absl::Status&) { timer->Finish(); });
  }
  entry.execution.timer = std::move(timer);
  queue_.push_back(std::move(entry));
  return absl::OkStatus();
}

absl::Status InFlight::TimeReplica(const runtime::Buffer& report) {
  Entry& entry = queue_.back();
  const auto timer = std::make_shared<ExecutionTimer>(*entry.execution.timer);
  const auto copy = base::Array::Uninitialized(report.type().dtype, report.type().shape);
  PENSTOCK_ASSIGN_OR_RETURN(const auto arrived, report.GetAsync(copy));
  arrived->OnReady([timer, copy](const absl::Status&) { timer->Finish(); });
  entry.execution.other_timers.push_back(timer);
  entry.others_arrived.push_back(arrived);
  return absl::OkStatus();
}

absl::StatusOr<InFlight::Execution> InFlight::Take() {
  Entry entry = std::move(queue_.front());
  queue_.pop_front();
  const absl::Status arrived = entry.arrived->Await();
  for (const auto& other : entry.others_arrived) other->Await().IgnoreError();
  PENSTOCK_RETURN_IF_ERROR(arrived);
  return std::move(entry.execution);
}

}  // namespace penstock::train
