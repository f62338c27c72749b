// MonitoredLoop: runs fetches in a session again and again, with hooks around each run, in the
// order of TensorFlow's MonitoredSession. Internal to room estimator.
//
//   MonitoredLoop loop(hooks, log);
//   PENSTOCK_RETURN_IF_ERROR(loop.Begin());                      // the graph can still be changed
//   ... make the session, initialize or restore ...
//   PENSTOCK_RETURN_IF_ERROR(loop.Start(session, options));
//   while (!loop.should_stop()) {
//     PENSTOCK_ASSIGN_OR_RETURN(const bool more, loop.Run(fetches, steps));
//     if (!more) break;
//   }
//   PENSTOCK_RETURN_IF_ERROR(loop.End());
//
// The global step is counted on the host, because reading it would be a round trip to the device in
// every step. The first 100 runs compare the count with the variable, and then every 100th does: one
// that did not add exactly 1 makes the loop read the variable after each run, as executions of
// several steps do. So a train_op may accumulate gradients, and continue in the middle of that.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/estimator/hooks/session_run_hook.h"

namespace penstock::estimator {

class MonitoredLoop {
 public:
  MonitoredLoop(Hooks hooks, std::function<void(absl::string_view)> log)
      : hooks_(std::move(hooks)), log_(std::move(log)) {}

  struct StartOptions {
    // The variable that counts steps, without ":0"; empty: each run is a step (Evaluate, Predict).
    std::string global_step = "";
    bool restored = false;
    std::function<absl::Status(absl::string_view)> write_beside = nullptr;
    std::function<void(absl::string_view)> remove_beside = nullptr;
    // Whether runs may leave the global step as it is: then it is read after each.
    bool runs_anything = false;
  };

  absl::Status Begin();
  absl::Status Start(session::Session& session, const StartOptions& options);
  // Runs `fetches` and what the hooks add, at most `steps` times in one execution. `values`, if not
  // null: receives the values of `fetches`. False at the end of the input.
  absl::StatusOr<bool> Run(const session::Fetches& fetches, int64_t steps,
                           std::vector<base::Array>* values = nullptr,
                           const session::FeedDict& feeds = {});
  absl::Status End();

  bool should_stop() const { return context_.has_value() && context_->stop_requested(); }
  int64_t global_step() const { return context_->global_step(); }
  // Number of steps since Start: of elements of the input that were used.
  int64_t steps_done() const { return context_->steps_run(); }

 private:
  // A prepared call for these fetches.
  struct Prepared {
    session::Fetches fetches;
    session::Callable callable;
  };
  // At most `steps` steps; `done` receives how many if that is above 1.
  absl::StatusOr<std::vector<base::Array>> Execute(int64_t steps, int64_t* done);
  absl::StatusOr<session::Callable*> Prepare();
  absl::StatusOr<int64_t> ReadGlobalStep();
  // After a run of `steps` steps.
  absl::Status CountSteps(int64_t steps);

  const Hooks hooks_;
  const std::function<void(absl::string_view)> log_;
  std::optional<RunContext> context_;
  std::string global_step_;
  bool runs_anything_ = false;
  bool exact_ = false;                         // the variable is read after each run
  int64_t compared_ = 0, since_compared_ = 0;  // runs
  int64_t runs_without_progress_ = 0;
  // Of the current run.
  session::Fetches fetches_;
  session::FeedDict feeds_;
  std::vector<size_t> first_;                        // of hook i's fetches
  std::vector<std::unique_ptr<Prepared>> prepared_;  // the one used last first
};

}  // namespace penstock::estimator
