// Executions that were given to the devices and whose reports have not been looked at. Internal to
// room train.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/runtime/client.h"
#include "penstock/train/feed.h"
#include "penstock/train/idle_meter.h"

namespace penstock::train {

class InFlight {
 public:
  // So many executions the host may be ahead: one runs, the next one is ready to start.
  static constexpr size_t kLimit = 2;

  // On CPUs an execution's temporary memory is taken when it starts, and the next one's starts a
  // moment before the last one's is given back. So where executions are long and the host is quick
  // in between, it waits for each: half the memory, for less than a fiftieth of the time.
  // `host_seconds`: what the device would wait, or waits, for the host between two executions.
  static size_t LimitFor(bool on_cpu, double device_seconds, double host_seconds) {
    return on_cpu && device_seconds >= kLongSeconds && host_seconds <= device_seconds / 50 ? 0
                                                                                           : kLimit;
  }
  static constexpr double kLongSeconds = 0.05;

  struct Step {
    base::Array report;
    DeviceBatch batch;                                // kept until its steps are known to be good
    std::shared_ptr<IdleMeter::Execution> execution;  // null: not measured
    // When the other replicas end, for a trace.
    std::vector<std::shared_ptr<IdleMeter::Execution>> others = {};
  };

  InFlight() = default;
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;
  ~InFlight() { Abandon(); }

  // Waits for what is under way, since the copies write into memory that goes with it, and forgets
  // it.
  void Abandon() {
    for (Entry& entry : steps_) {
      entry.arrived->Await().IgnoreError();
      for (const auto& arrived : entry.others_arrived) arrived->Await().IgnoreError();
    }
    steps_.clear();
  }

  bool empty() const { return steps_.empty(); }
  bool full() const { return steps_.size() > limit_; }
  // kLimit, until something else is set.
  void SetLimit(size_t limit) { limit_ = limit; }
  // Sets it by LimitFor of the last executions: one alone may have ended an epoch.
  void Measured(bool on_cpu, double device_seconds, double host_seconds) {
    const double newest = device_seconds_ == 0 ? 1 : 0.125;
    device_seconds_ += newest * (device_seconds - device_seconds_);
    host_seconds_ += newest * (host_seconds - host_seconds_);
    limit_ = LimitFor(on_cpu, device_seconds_, host_seconds_);
  }
  // The host lets each execution end before it gives the next.
  bool waits_for_each() const { return limit_ == 0; }

  // Starts the copy of `report` to the host. `arguments` are those of the execution: letting go
  // of one that was donated waits, on CPUs, for the execution's end, so they are kept until then.
  absl::Status Add(const runtime::Buffer& report, DeviceBatch batch,
                   std::vector<runtime::Buffers> arguments,
                   std::shared_ptr<IdleMeter::Execution> execution = nullptr) {
    Entry entry;
    entry.arguments = std::move(arguments);
    entry.step.report = base::Array::Uninitialized(report.type().dtype, report.type().shape);
    entry.step.batch = std::move(batch);
    PENSTOCK_ASSIGN_OR_RETURN(entry.arrived, report.GetAsync(entry.step.report));
    if (execution != nullptr) {
      entry.arrived->OnReady([execution](const absl::Status&) { execution->Finish(); });
    }
    entry.step.execution = std::move(execution);
    steps_.push_back(std::move(entry));
    return absl::OkStatus();
  }

  // Of the one that was added last: also measures when the other replicas, whose reports these are,
  // come to their end.
  absl::Status Watch(const runtime::Buffer& report) {
    Entry& entry = steps_.back();
    const auto execution = std::make_shared<IdleMeter::Execution>(*entry.step.execution);
    const auto copy = base::Array::Uninitialized(report.type().dtype, report.type().shape);
    PENSTOCK_ASSIGN_OR_RETURN(const auto arrived, report.GetAsync(copy));
    arrived->OnReady([execution, copy](const absl::Status&) { execution->Finish(); });
    entry.step.others.push_back(execution);
    entry.others_arrived.push_back(arrived);
    return absl::OkStatus();
  }

  // Waits for the oldest.
  absl::StatusOr<Step> Take() {
    Entry entry = std::move(steps_.front());
    steps_.pop_front();
    const absl::Status arrived = entry.arrived->Await();
    for (const auto& other : entry.others_arrived) other->Await().IgnoreError();
    PENSTOCK_RETURN_IF_ERROR(arrived);
    return std::move(entry.step);
  }

 private:
  struct Entry {
    Step step;
    std::vector<runtime::Buffers> arguments;
    std::shared_ptr<runtime::Event> arrived;
    std::vector<std::shared_ptr<runtime::Event>> others_arrived = {};
  };
  std::deque<Entry> steps_;
  size_t limit_ = kLimit;
  double device_seconds_ = 0, host_seconds_ = 0;  // of one execution, the last ones counting most
};

}  // namespace penstock::train
