// The threads of one xmp::spawn: which ordinal a thread has, where the threads meet, and how they
// end together. Internal to the room; programs use xmp.h and xm_collectives.h.
//
// A meeting is a point that every ordinal must reach: a rendezvous, or the execution of a program
// with collectives. Each thread blocks in Meet until all have arrived; the last one runs the
// meeting's work for all. Threads that cannot meet end in an error instead of a hang:
//
//   - all of them wait, but at different points: at once, with what each one waits for;
//   - one has returned from its function while others wait: at once;
//   - one does not arrive within the timeout (it computes, or hangs): after the timeout;
//   - one failed: the others get CANCELLED "ordinal 3 failed: ...".
//
// After the first error every meeting returns it, so that all threads end.
//
// Thread-safe.
#pragma once

#include <any>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/lazy/tensor.h"
#include "penstock/runtime/client.h"

namespace penstock::lazy {

// A point at which all ordinals must meet.
struct MeetingPoint {
  // Ordinals meet if their keys are equal.
  std::string key;
  // What the thread does there, for errors: "rendezvous \"end\" (train.cc:40)". Called by any
  // thread while this one is blocked.
  std::function<std::string()> describe;
  // Parts of a program, in order: of two that differ, errors show the first difference. May be
  // empty.
  std::function<std::vector<std::string>()> parts = {};
};

class Replicas {
 public:
  // `timeout_seconds`: for how long a thread waits for others that do not arrive.
  Replicas(int size, double timeout_seconds);
  Replicas(const Replicas&) = delete;
  Replicas& operator=(const Replicas&) = delete;

  int size() const { return static_cast<int>(threads_.size()); }

  // Blocks until every ordinal has arrived at this point; returns this ordinal's result. `work` of
  // the last ordinal to arrive gets all payloads in order of ordinals and replaces each by that
  // ordinal's result; its error is returned to all.
  using Work = absl::FunctionRef<absl::Status(std::vector<std::any>& payloads)>;
  absl::StatusOr<std::any> Meet(int ordinal, const MeetingPoint& point, std::any payload,
                                Work work);

  // Meet whose result is all payloads, in order of ordinals.
  absl::StatusOr<std::vector<std::any>> Exchange(int ordinal, const MeetingPoint& point,
                                                 std::any payload);

  // Executes a program of size() replicas with the arguments of all ordinals; returns this
  // ordinal's results. `executable` is called by one thread. All ordinals must call it for the same
  // program: `point.key` identifies it.
  absl::StatusOr<runtime::Buffers> Execute(
      int ordinal, const MeetingPoint& point, runtime::Buffers arguments,
      absl::FunctionRef<absl::StatusOr<std::shared_ptr<runtime::Executable>>()> executable);

  // The thread of this ordinal has ended. An error ends the others, too.
  void Ended(int ordinal, const absl::Status& status);
  // Blocks until all threads have ended, or the group has failed and threads still run `seconds`
  // later: nothing interrupts a function that never returns. Returns the ordinals of these.
  std::vector<int> AwaitEnd(double seconds) const;
  // What every meeting returns since the group has failed: CANCELLED "ordinal 3 failed: ...", or
  // the error of threads that cannot meet. OK while nothing has failed.
  absl::Status status() const;
  // The error that made the group fail: "ordinal 3: ..." with the code of that thread's error.
  absl::Status first_error() const;

  // Calls `callback` when the group fails, immediately if it has failed already; for objects in
  // which threads of the group block (loaders). RemoveOnFailure waits until a running callback has
  // returned.
  int64_t OnFailure(std::function<void(const absl::Status&)> callback);
  void RemoveOnFailure(int64_t id);

 private:
  enum class State { kRunning, kWaiting, kMeeting, kDone, kEnded };
  struct Thread {
    State state = State::kRunning;
    const MeetingPoint* point = nullptr;  // while it waits
    std::any value;                       // its payload, then its result
    absl::Status status;                  // of the meeting
  };

  // These require mutex_.
  bool AllAgree() const;
  std::vector<int> Running() const;  // ordinals of the threads that have not ended
  // An error if the threads that wait can never meet.
  absl::Status FindDisagreement() const;
  std::string DescribeThreads() const;
  void FailLocked(const absl::Status& failure, const absl::Status& first_error);
  absl::Status RunMeeting(int ordinal, Work work, std::unique_lock<std::mutex>& lock);

  void RunCallbacks();

  const double timeout_seconds_;
  mutable std::mutex mutex_;  // guards the following
  mutable std::condition_variable changed_;
  std::vector<Thread> threads_;  // by ordinal
  absl::Status failure_, first_error_;

  std::recursive_mutex callbacks_mutex_;  // guards the following; held while callbacks run
  std::map<int64_t, std::function<void(const absl::Status&)>> callbacks_;
  int64_t next_callback_ = 0;
};

// The replica that a thread is: set by xmp::spawn for the threads that it starts.
struct ReplicaContext {
  std::shared_ptr<Replicas> replicas;
  int ordinal = 0;
  Device device;
};

// The calling thread's; nullptr outside of xmp::spawn.
const ReplicaContext* CurrentReplica();
// Number of replicas that the calling thread's programs with collectives have: 1 outside of spawn.
int CurrentNumReplicas();

// RAII: makes the calling thread a replica.
class ReplicaScope {
 public:
  explicit ReplicaScope(ReplicaContext context);
  ~ReplicaScope();
  ReplicaScope(const ReplicaScope&) = delete;
  ReplicaScope& operator=(const ReplicaScope&) = delete;

 private:
  ReplicaContext context_;
  const ReplicaContext* outer_;
};

// RAII: calls `callback` when the group of the calling thread fails; nothing outside of spawn. The
// destructor waits for a running callback.
class CancelOnFailure {
 public:
  explicit CancelOnFailure(std::function<void(const absl::Status&)> callback);
  ~CancelOnFailure();
  CancelOnFailure(const CancelOnFailure&) = delete;
  CancelOnFailure& operator=(const CancelOnFailure&) = delete;

 private:
  std::shared_ptr<Replicas> replicas_;  // null outside of spawn
  int64_t id_ = 0;
};

// "ordinals 0, 1 and 3", for messages.
std::string OrdinalsText(const std::vector<int>& ordinals);

}  // namespace penstock::lazy
