// SessionRunHook: code that runs around the calls of Session::Run in Train, Evaluate and Predict
// (tf.train.SessionRunHook). The order of calls is TensorFlow's:
//
//   Begin                  once, while the graph can still be changed
//   AfterCreateSession     once, when variables have been initialized or restored
//   BeforeRun, AfterRun    around every execution: of one step, or of iterations_per_loop steps
//   End                    once, unless there was an error
//
// Hooks are called in the order of their list. Checkpoints and summaries come first, then the
// program's hooks, then StopAtStepHook, NanTensorHook, the progress line and the hooks of the
// EstimatorSpec, as in TensorFlow.
//
//   class CountSteps : public SessionRunHook {
//    public:
//     absl::Status AfterRun(RunContext& context, const RunValues&) override {
//       if (++runs_ == 100) context.RequestStop();
//       return absl::OkStatus();
//     }
//    private:
//     int runs_ = 0;
//   };
//
// Each set of fetches is a program of its own, which is compiled when it first runs. A hook that
// needs a number in some steps only fetches it in all of them; a hook that needs large values in a
// few steps fetches them only there, for the price of a second compilation.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/session/session.h"

namespace penstock::estimator {

// What a hook adds to the next call of Run (tf.train.SessionRunArgs).
struct SessionRunArgs {
  session::Fetches fetches = {};
  session::FeedDict feeds = {};
};

// Results of a Run for one hook: the values of its fetches, in their order; that of an operation is
// invalid.
struct RunValues {
  std::vector<base::Array> results = {};
};

// The Run that is about to happen or has happened.
class RunContext {
 public:
  RunContext(session::Session& session, std::function<void(absl::string_view)> log)
      : session_(&session), log_(std::move(log)) {}

  session::Session& session() { return *session_; }
  // Global step: in BeforeRun before the execution, in AfterRun after it. Known without a transfer.
  int64_t global_step() const { return global_step_; }
  // Number of steps of this execution; of all executions of this loop.
  int64_t steps() const { return steps_; }
  int64_t steps_run() const { return steps_run_; }
  // Ends the loop after this execution; AfterRun of the other hooks is still called.
  void RequestStop() { stop_requested_ = true; }
  bool stop_requested() const { return stop_requested_; }
  // Prints a line to RunConfig.log.
  void Log(absl::string_view line) const {
    if (log_ != nullptr) log_(line);
  }

  // Whether the session was restored from a checkpoint of model_dir.
  bool restored() const { return restored_; }

  // For hooks that save checkpoints. CheckBeforeSave runs the checks that other hooks have added:
  // whether the values are worth saving. WriteBeside writes what belongs to the checkpoint of this
  // path besides the variables, the position in the input, and is called before it is published;
  // RemoveBeside removes it.
  absl::Status CheckBeforeSave();
  void AddCheckBeforeSave(std::function<absl::Status(RunContext&)> check) {
    checks_.push_back(std::move(check));
  }
  absl::Status WriteBeside(absl::string_view checkpoint_path);
  void RemoveBeside(absl::string_view checkpoint_path);

 private:
  friend class MonitoredLoop;  // monitored_loop.h, which makes contexts

  session::Session* session_;
  std::function<void(absl::string_view)> log_;
  int64_t global_step_ = 0, steps_ = 1, steps_run_ = 0;
  bool stop_requested_ = false, restored_ = false;
  std::vector<std::function<absl::Status(RunContext&)>> checks_;
  std::function<absl::Status(absl::string_view)> write_beside_;
  std::function<void(absl::string_view)> remove_beside_;
};

class CheckpointSaverListener;  // hooks.h
using SavingListeners = std::vector<std::shared_ptr<CheckpointSaverListener>>;

class SessionRunHook {
 public:
  virtual ~SessionRunHook() = default;

  // The graph is the thread's default graph. An error ends the loop, as in all methods.
  virtual absl::Status Begin() { return absl::OkStatus(); }
  virtual absl::Status AfterCreateSession(RunContext& context);
  virtual SessionRunArgs BeforeRun(RunContext& context);
  virtual absl::Status AfterRun(RunContext& context, const RunValues& values);
  virtual absl::Status End(RunContext& context);

  // Number of steps until this hook must run next, at least 1: the device loop of a TPUEstimator is
  // not longer. Default: no limit.
  virtual int64_t StepsUntilNext(int64_t global_step) const;

  // Whether this hook saves checkpoints, so that Train adds no CheckpointSaverHook of its own; it
  // then calls these listeners, too, until Train is called again. Default: false.
  virtual bool SavesCheckpoints(const SavingListeners& listeners);
};

using Hook = std::shared_ptr<SessionRunHook>;
using Hooks = std::vector<Hook>;

}  // namespace penstock::estimator
