#include "penstock/lazy/replicas.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/lazy/metrics.h"

namespace penstock::lazy {
namespace {

// The scope of the calling thread; a stack by ReplicaScope::outer_.
thread_local const ReplicaContext* current_replica = nullptr;

// "; their first difference: a of ordinal 0, b of ordinal 2" of two points that have parts.
std::string DifferenceText(const MeetingPoint& a, int ordinal_a, const MeetingPoint& b,
                           int ordinal_b) {
  if (a.parts == nullptr || b.parts == nullptr) return "";
  std::vector<std::string> left = a.parts(), right = b.parts();
  left.push_back("the end");
  right.push_back("the end");
  size_t i = 0;
  while (i + 1 < std::min(left.size(), right.size()) && left[i] == right[i]) ++i;
  if (left[i] == right[i]) return "";  // what is donated
  return absl::StrCat("; their first difference: ", left[i], " on ordinal ", ordinal_a, ", ",
                      right[i], " on ordinal ", ordinal_b);
}

constexpr absl::string_view kMeetingAdvice =
    "; every ordinal must reach the same collectives and rendezvous, in the same order";

}  // namespace

std::string OrdinalsText(const std::vector<int>& ordinals) {
  std::string text = ordinals.size() == 1 ? "ordinal " : "ordinals ";
  for (size_t i = 0; i < ordinals.size(); ++i) {
    if (i > 0) absl::StrAppend(&text, i + 1 == ordinals.size() ? " and " : ", ");
    absl::StrAppend(&text, ordinals[i]);
  }
  return text;
}

Replicas::Replicas(int size, double timeout_seconds)
    : timeout_seconds_(timeout_seconds), threads_(size) {}

bool Replicas::AllAgree() const {
  for (const Thread& thread : threads_) {
    if (thread.state != State::kWaiting) return false;
    if (thread.point->key != threads_[0].point->key) return false;
  }
  return true;
}

std::string Replicas::DescribeThreads() const {
  // Ordinals at one point are listed together, the points in order of their first ordinal.
  std::vector<std::pair<std::string, std::vector<int>>> places;
  for (int i = 0; i < size(); ++i) {
    const Thread& thread = threads_[i];
    const bool waits = thread.state == State::kWaiting;
    const std::string key = waits ? absl::StrCat("at ", thread.point->key)
                                  : absl::StrCat("state ", static_cast<int>(thread.state));
    auto place = std::find_if(places.begin(), places.end(),
                              [&](const auto& other) { return other.first == key; });
    if (place == places.end()) place = places.insert(place, {key, {}});
    place->second.push_back(i);
  }
  std::string text;
  for (const auto& [key, ordinals] : places) {
    const Thread& thread = threads_[ordinals[0]];
    const bool one = ordinals.size() == 1;
    absl::StrAppend(&text, text.empty() ? "" : "; ", OrdinalsText(ordinals));
    if (thread.state == State::kWaiting) {
      absl::StrAppend(&text, one ? " waits in " : " wait in ", thread.point->describe());
    } else {
      absl::StrAppend(&text, one ? " has " : " have ",
                      thread.state == State::kEnded ? "returned" : "not arrived");
    }
  }
  if (places.size() < 2) return text;
  const int a = places[0].second[0], b = places[1].second[0];
  if (threads_[a].state == State::kWaiting && threads_[b].state == State::kWaiting) {
    absl::StrAppend(&text, DifferenceText(*threads_[a].point, a, *threads_[b].point, b));
  }
  return text;
}

absl::Status Replicas::FindDisagreement() const {
  bool waiting = false, ended = false, differ = false;
  const MeetingPoint* first = nullptr;
  for (const Thread& thread : threads_) {
    // A thread that still runs may fail with a better reason, or arrive and complete the picture.
    if (thread.state != State::kWaiting && thread.state != State::kEnded) return absl::OkStatus();
    ended |= thread.state == State::kEnded;
    if (thread.state != State::kWaiting) continue;
    waiting = true;
    if (first == nullptr) first = thread.point;
    differ |= thread.point->key != first->key;
  }
  if (!waiting || !(ended || differ)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("replicas cannot meet: ", DescribeThreads(), kMeetingAdvice));
}

void Replicas::FailLocked(const absl::Status& failure, const absl::Status& first_error) {
  if (failure.ok() || !failure_.ok()) return;
  failure_ = failure;
  first_error_ = first_error;
  changed_.notify_all();
}

absl::Status Replicas::RunMeeting(int ordinal, Work work, std::unique_lock<std::mutex>& lock) {
  std::vector<std::any> values;
  for (Thread& thread : threads_) {
    thread.state = State::kMeeting;
    values.push_back(std::move(thread.value));
  }
  lock.unlock();
  const absl::Status status = base::CatchExceptions([&] { return work(values); });
  lock.lock();
  for (int i = 0; i < size(); ++i) {
    threads_[i].state = i == ordinal ? State::kRunning : State::kDone;
    threads_[i].status = status;
    threads_[i].value = i < static_cast<int>(values.size()) ? std::move(values[i]) : std::any();
  }
  changed_.notify_all();
  return status;
}

absl::StatusOr<std::any> Replicas::Meet(int ordinal, const MeetingPoint& point, std::any payload,
                                        Work work) {
  const met::TimeSample waited("RendezvousTime");
  const auto deadline =
      std::chrono::steady_clock::now() +
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(
          std::chrono::duration<double>(timeout_seconds_ > 1e8 ? 1e8 : timeout_seconds_));
  std::unique_lock lock(mutex_);
  if (!failure_.ok()) return failure_;
  Thread& self = threads_[ordinal];
  self.state = State::kWaiting;
  self.point = &point;
  self.value = std::move(payload);
  if (AllAgree()) {
    PENSTOCK_RETURN_IF_ERROR(RunMeeting(ordinal, work, lock));
    return std::move(self.value);
  }
  if (const absl::Status error = FindDisagreement(); !error.ok()) FailLocked(error, error);
  while (self.state != State::kDone && (self.state == State::kMeeting || failure_.ok())) {
    if (self.state == State::kMeeting) {  // may compile for minutes
      changed_.wait(lock);
    } else if (changed_.wait_until(lock, deadline) == std::cv_status::timeout &&
               self.state == State::kWaiting && failure_.ok()) {
      const absl::Status error = absl::DeadlineExceededError(
          absl::StrCat("ordinal ", ordinal, " has waited for others for ", timeout_seconds_,
                       " s: ", DescribeThreads(), kMeetingAdvice));
      FailLocked(error, error);
    }
  }
  const bool done = self.state == State::kDone;
  self.state = State::kRunning;
  self.point = nullptr;
  if (done) {
    PENSTOCK_RETURN_IF_ERROR(self.status);
    return std::move(self.value);
  }
  self.value.reset();
  const absl::Status failure = failure_;
  lock.unlock();
  RunCallbacks();
  return failure;
}

absl::StatusOr<std::vector<std::any>> Replicas::Exchange(int ordinal, const MeetingPoint& point,
                                                         std::any payload) {
  PENSTOCK_ASSIGN_OR_RETURN(
      const std::any all,
      Meet(ordinal, point, std::move(payload), [](std::vector<std::any>& payloads) {
        const auto shared = std::make_shared<const std::vector<std::any>>(payloads);
        for (std::any& payload : payloads) payload = shared;
        return absl::OkStatus();
      }));
  return *std::any_cast<std::shared_ptr<const std::vector<std::any>>>(all);
}

absl::StatusOr<runtime::Buffers> Replicas::Execute(
    int ordinal, const MeetingPoint& point, runtime::Buffers arguments,
    absl::FunctionRef<absl::StatusOr<std::shared_ptr<runtime::Executable>>()> executable) {
  const auto work = [&](std::vector<std::any>& payloads) -> absl::Status {
    PENSTOCK_ASSIGN_OR_RETURN(const std::shared_ptr<runtime::Executable> program, executable());
    std::vector<runtime::Buffers> all;
    for (std::any& payload : payloads) {
      all.push_back(std::move(*std::any_cast<runtime::Buffers>(&payload)));
    }
    PENSTOCK_ASSIGN_OR_RETURN(std::vector<runtime::Buffers> results, program->Execute(all));
    for (size_t i = 0; i < payloads.size(); ++i) payloads[i] = std::move(results[i]);
    return absl::OkStatus();
  };
  PENSTOCK_ASSIGN_OR_RETURN(std::any results,
                            Meet(ordinal, point, std::any(std::move(arguments)), work));
  return std::move(*std::any_cast<runtime::Buffers>(&results));
}

void Replicas::Ended(int ordinal, const absl::Status& status) {
  {
    const std::lock_guard lock(mutex_);
    threads_[ordinal].state = State::kEnded;
    changed_.notify_all();
    if (status.ok()) {
      if (const absl::Status error = FindDisagreement(); !error.ok()) FailLocked(error, error);
    } else {
      const std::string name = OrdinalsText({ordinal});
      FailLocked(absl::CancelledError(absl::StrCat(name, " failed: ", status.message())),
                 base::WithContext(status, name));
    }
  }
  RunCallbacks();
}

std::vector<int> Replicas::Running() const {
  std::vector<int> running;
  for (int i = 0; i < size(); ++i) {
    if (threads_[i].state != State::kEnded) running.push_back(i);
  }
  return running;
}

std::vector<int> Replicas::AwaitEnd(double seconds) const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !failure_.ok() || Running().empty(); });
  changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                    [&] { return Running().empty(); });
  return Running();
}

absl::Status Replicas::status() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

absl::Status Replicas::first_error() const {
  const std::lock_guard lock(mutex_);
  return first_error_;
}

int64_t Replicas::OnFailure(std::function<void(const absl::Status&)> callback) {
  int64_t id = 0;
  {
    const std::lock_guard lock(callbacks_mutex_);
    id = next_callback_++;
    callbacks_.emplace(id, std::move(callback));
  }
  RunCallbacks();
  return id;
}

void Replicas::RemoveOnFailure(int64_t id) {
  const std::lock_guard lock(callbacks_mutex_);
  callbacks_.erase(id);
}

void Replicas::RunCallbacks() {
  const absl::Status failure = status();
  if (failure.ok()) return;
  const std::lock_guard lock(callbacks_mutex_);
  const auto callbacks = std::exchange(callbacks_, {});
  for (const auto& [id, callback] : callbacks) callback(failure);
}

const ReplicaContext* CurrentReplica() { return current_replica; }

int CurrentNumReplicas() {
  return current_replica == nullptr ? 1 : current_replica->replicas->size();
}

ReplicaScope::ReplicaScope(ReplicaContext context)
    : context_(std::move(context)), outer_(std::exchange(current_replica, &context_)) {}

ReplicaScope::~ReplicaScope() { current_replica = outer_; }

CancelOnFailure::CancelOnFailure(std::function<void(const absl::Status&)> callback) {
  if (CurrentReplica() == nullptr) return;
  replicas_ = CurrentReplica()->replicas;
  id_ = replicas_->OnFailure(std::move(callback));
}

CancelOnFailure::~CancelOnFailure() {
  if (replicas_ != nullptr) replicas_->RemoveOnFailure(id_);
}

}  // namespace penstock::lazy
