// MonitoredTrainingSession: a session for a training loop of the program's own. It initializes the
// variables or restores them from the newest checkpoint, runs hooks around each Run, and saves
// checkpoints and summaries (tf.train.MonitoredTrainingSession of TensorFlow 1.15).
//
//   tf::Operation train = optimizer.Minimize(loss, tf::GetOrCreateGlobalStep());
//   estimator::MonitoredTrainingSession session(
//       {.checkpoint_dir = "gs://bucket/run",
//        .hooks = {estimator::StopAtStepHook({.last_step = 1000})}});
//   while (!session.should_stop()) {
//     const auto results = session.Run({train, loss});
//     if (absl::IsOutOfRange(results.status())) break;           // the end of the input
//     PENSTOCK_RETURN_IF_ERROR(results.status());
//   }
//   PENSTOCK_RETURN_IF_ERROR(session.Close());
//
// The hooks (hooks/hooks.h) are called in this order: StepCounterHook, SummarySaverHook and
// CheckpointSaverHook, which it has if there is a checkpoint_dir (the last one unless the program's
// hooks contain one), then the program's. The graph is the thread's default graph when it is
// constructed; nothing may be added to it afterwards, except by Begin of hooks.
//
// Close calls the hooks' End, which saves the last checkpoint. Without it, as after an error, the
// newest checkpoint is that of the last interval, and a MonitoredTrainingSession of the same
// checkpoint_dir continues there. One process at a time may have a checkpoint_dir.
//
// Differences from TensorFlow 1.15: a broken session is not made again; is_chief, chief_only_hooks,
// stop_grace_period_secs and max_wait_secs are left out, as there is one process. With a checkpoint
// directory TensorFlow's MonitoredSession and SingularMonitoredSession restore and do not save:
// that is save_checkpoint_secs = 0, save_summaries_steps = 0 and log_step_count_steps = 0.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/base/clock.h"
#include "penstock/estimator/hooks/session_run_hook.h"
#include "penstock/estimator/run_config.h"
#include "penstock/io/file_system.h"
#include "penstock/session/session.h"

namespace penstock::estimator {

// How variables get their values if there is no checkpoint (tf.train.Scaffold).
struct Scaffold {
  session::Operation init_op = {};  // default: GlobalVariablesInitializer()
  session::FeedDict init_feed_dict = {};
  // Called after init_op: pretrained weights.
  std::function<absl::Status(session::Session& session)> init_fn = nullptr;
  // Run in any case, after a checkpoint was restored, too. Default: LocalVariablesInitializer().
  session::Operation local_init_op = {};
};

struct MonitoredTrainingSessionOptions {
  std::string master = "";  // Session's target
  // Folder of checkpoints and summaries, of any file system. Empty: none are saved.
  std::string checkpoint_dir = "";
  Scaffold scaffold = {};
  Hooks hooks = {};
  // Interval between checkpoints, in seconds or in steps (give one of them); another one is saved at
  // the end. Default: 600 seconds. 0: none, also not at the end.
  std::optional<double> save_checkpoint_secs = {};
  std::optional<int64_t> save_checkpoint_steps = {};
  int max_to_keep = 5;  // number of the newest checkpoints to keep; 0: all
  // Interval between summaries, in steps or in seconds. Default: 100 steps. 0: none.
  std::optional<int64_t> save_summaries_steps = {};
  std::optional<double> save_summaries_secs = {};
  session::ConfigProto config = {};
  int64_t log_step_count_steps = 100;  // between lines of steps per second; 0: none
  std::string summary_dir = "";        // default: checkpoint_dir
  LogSink log = LogToStderr;
  std::shared_ptr<io::FileSystem> file_system = nullptr;  // default: io::FileSystem::Default()
  base::Clock* clock = base::Clock::Real();
};

class MonitoredTrainingSession {
 public:
  // Errors of opening the devices, of hooks' Begin, and of initializing or restoring are returned
  // by each Run; status() has them before. FAILED_PRECONDITION names variables that have no value
  // afterwards.
  explicit MonitoredTrainingSession(const MonitoredTrainingSessionOptions& options = {});
  ~MonitoredTrainingSession();
  MonitoredTrainingSession(MonitoredTrainingSession&&) noexcept;
  MonitoredTrainingSession& operator=(MonitoredTrainingSession&&) noexcept;

  const absl::Status& status() const;
  // Session::Run with the hooks around it. OUT_OF_RANGE at the end of an iterator; should_stop() is
  // true then. After another error, or Close, it is FAILED_PRECONDITION.
  absl::StatusOr<std::vector<base::Array>> Run(const session::Fetches& fetches,
                                               const session::FeedDict& feeds = {});
  absl::Status Run(const session::Operation& fetch, const session::FeedDict& feeds = {});
  // Whether a hook has requested to stop, the input has ended, or there was an error.
  bool should_stop() const;
  // Calls End of the hooks. Nothing after an error of Run, or the second time.
  absl::Status Close();

  // The global step; 0 without one.
  int64_t global_step() const;
  // The session below, whose Runs are without hooks (raw_session()); null if there was an error
  // before it was made.
  session::Session* raw_session();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock::estimator
