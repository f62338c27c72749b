#include "penstock/train/loop/idle_meter.h"

#include <algorithm>
#include <utility>

#include "penstock/profile/trace_files.h"

namespace penstock::train {

void IdleMeter::Begin() {
  const double now = clock_->Seconds();
  work_.now.store(HostWork::kHost, std::memory_order_relaxed);
  work_began_ = accounted_ = now;
  std::fill(std::begin(spent_), std::end(spent_), 0);
  spans_ = {{now, work()}};
  last_ = nullptr;
  stats_ = {};
}

const char* IdleMeter::NameOf(HostWork work) {
  // In the order of HostWork.
  static constexpr const char* kName[] = {"host",      profile::kTakeBatch,    "compile",
                                          "callbacks", "wait for the devices", "validation"};
  return kName[static_cast<int>(work)];
}

HostWork IdleMeter::Switch(HostWork work) {
  const double now = clock_->Seconds();
  const HostWork before = this->work();
  spent_[static_cast<int>(before)] += now - work_began_;
  if (before != HostWork::kExcluded) stats_.seconds += now - work_began_;
  work_began_ = now;
  spans_.push_back({now, work});
  work_.now.store(work, std::memory_order_relaxed);
  return before;
}

std::shared_ptr<ExecutionTimer> IdleMeter::Dispatched() {
  const double now = clock_->Seconds();
  Account(now);
  last_ = std::make_shared<ExecutionTimer>(clock_, now);
  ++stats_.executions;
  return last_;
}

FitStats IdleMeter::Take() {
  Switch(work());  // counts it up to now
  Account(work_began_);
  return std::exchange(stats_, {});
}

void IdleMeter::Account(double now) {
  const double finished = last_ == nullptr ? accounted_ : last_->finished();
  if (finished >= 0) {
    const double begin = std::max(accounted_, finished);
    for (size_t i = 0; i < spans_.size(); ++i) {
      const double end = i + 1 < spans_.size() ? spans_[i + 1].begin : now;
      AddIdle(spans_[i].work, std::min(end, now) - std::max(begin, spans_[i].begin));
    }
  }
  accounted_ = now;
  spans_ = {{now, work()}};
}

void IdleMeter::AddIdle(HostWork work, double seconds) {
  // In the order of HostWork; excluded time is not idle time.
  static constexpr double FitStats::*kCause[] = {&FitStats::idle_host,    &FitStats::idle_data,
                                                 &FitStats::idle_compile, &FitStats::idle_callbacks,
                                                 &FitStats::idle_host,    nullptr};
  double FitStats::*const cause = kCause[static_cast<int>(work)];
  if (seconds > 0 && cause != nullptr) stats_.*cause += seconds;
}

}  // namespace penstock::train
