// InFlight: executions that were dispatched to the devices and whose reports have not been read
// yet. Internal to room train.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/runtime/client.h"
#include "penstock/train/feed.h"
#include "penstock/train/loop/idle_meter.h"

namespace penstock::train {

class InFlight {
 public:
  // Maximum number of executions in flight while the host prepares the next one: one running, one
  // queued.
  static constexpr size_t kLimit = 2;
  // Maximum where devices are a round trip away, and bytes of batches in flight beyond kLimit.
  static constexpr size_t kMaxLimit = 64;
  static constexpr int64_t kMaxBytes = int64_t{256} << 20;
  // Where devices are a round trip away, at least so much work is in flight: requests and reports of short executions
  // then travel several at a time, and each side wakes up less often.
  static constexpr double kAheadSeconds = 0.005;

  // The limit that saves memory where that costs no time. A CPU execution allocates its temporary
  // memory when it starts, and the next one starts a moment before the previous one's memory is
  // freed. Where executions are long and the host is quick in between, waiting for each of them
  // halves the memory for less than a fiftieth of the time. `host_seconds`: how long the device
  // waits, or would wait, for the host between two executions.
  //
  // Where devices are a round trip away, the next batch would cross the connection meanwhile, so nothing is waited
  // for; and as many executions are in flight as run within the round trip, or within kAheadSeconds. As long as it is
  // the round trip that limits, device_seconds is that part of it that one execution takes, so the limit grows until
  // the devices are busy. `bytes`: of an execution's batches, which stay in memory until its report is read;
  // `max_bytes`: of all of them beyond kLimit (MaxBytesOf).
  static size_t LimitFor(bool on_cpu, double device_seconds, double host_seconds,
                         double round_trip_seconds = 0, int64_t bytes = 0,
                         int64_t max_bytes = kMaxBytes) {
    if (round_trip_seconds <= 0) {
      const bool waits =
          on_cpu && device_seconds >= kLongSeconds && host_seconds <= device_seconds / 50;
      return waits ? 0 : kLimit;
    }
    const double within =
        std::ceil(std::max(round_trip_seconds, kAheadSeconds) / std::max(device_seconds, 1e-6));
    const double fit = static_cast<double>(max_bytes / std::max<int64_t>(1, bytes));
    const double more = std::min({within, static_cast<double>(kMaxLimit - kLimit), fit});
    return kLimit + static_cast<size_t>(more);
  }
  static constexpr double kLongSeconds = 0.05;
  // kMaxBytes, or an eighth of what is free on the device now. Asks the device's host.
  static int64_t MaxBytesOf(runtime::Client& client, const runtime::Device& device);

  struct Execution {
    base::Array report;
    DeviceBatch batch;                      // kept until its steps are known to be finite
    std::shared_ptr<ExecutionTimer> timer;  // null: not measured
    // Timers of the other replicas, for a trace.
    std::vector<std::shared_ptr<ExecutionTimer>> other_timers = {};
  };

  InFlight() = default;
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;
  ~InFlight() { Abandon(); }

  // Blocks until everything in flight is done, as its copies write into memory that is freed with
  // it, and drops the reports.
  void Abandon();

  bool empty() const { return queue_.empty(); }
  bool full() const { return queue_.size() > limit_; }
  // Default: kLimit.
  void SetLimit(size_t limit) { limit_ = limit; }
  // Sets the limit by LimitFor the moving average of executions: a single one may have been
  // slow because an epoch ended.
  void Measured(bool on_cpu, double device_seconds, double host_seconds,
                double round_trip_seconds = 0, int64_t bytes = 0, int64_t max_bytes = kMaxBytes);
  // Whether the host waits for each execution before it dispatches the next one.
  bool waits_for_each() const { return limit_ == 0; }

  // Starts the copy of `report` to the host. `arguments`: those of the execution. They are kept
  // until it is done, because on CPUs releasing a donated buffer blocks until then.
  absl::Status Add(const runtime::Buffer& report, DeviceBatch batch,
                   std::vector<runtime::Buffers> arguments,
                   std::shared_ptr<ExecutionTimer> timer = nullptr);
  // Also times another replica of the execution that was added last, by that replica's report.
  absl::Status TimeReplica(const runtime::Buffer& report);
  // Blocks on the oldest execution and removes it.
  absl::StatusOr<Execution> Take();

 private:
  struct Entry {
    Execution execution;
    std::vector<runtime::Buffers> arguments;
    std::shared_ptr<runtime::Event> arrived;
    std::vector<std::shared_ptr<runtime::Event>> others_arrived = {};
  };
  std::deque<Entry> queue_;
  size_t limit_ = kLimit;
  double device_seconds_ = 0, host_seconds_ = 0;  // moving averages of one execution
};

}  // namespace penstock::train
