// The built-in hooks (tf.train.StepCounterHook and others). Names of options and defaults are
// TensorFlow's.
//
//   estimator.Train(input_fn, {.hooks = {LoggingTensorHook({.tensors = {{"loss", loss}},
//                                                           .every_n_iter = 10})},
//                              .steps = 1000});
//
// A function below returns a new hook, which belongs to one call of Train, Evaluate or Predict at a
// time. Invalid options are an error of Begin.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/clock.h"
#include "penstock/estimator/hooks/session_run_hook.h"
#include "penstock/estimator/hooks/timer.h"
#include "penstock/estimator/named_tensors.h"
#include "penstock/io/file_system.h"

namespace penstock::estimator {

// Stops when the global step is `last_step`, or `num_steps` beyond the step at the start; exactly
// one is given, and above 0.
struct StopAtStepOptions {
  std::optional<int64_t> num_steps = {};
  std::optional<int64_t> last_step = {};
};
Hook StopAtStepHook(const StopAtStepOptions& options);

// Prints "global_step/sec: 1,234" every N steps or seconds, and writes it as a summary to
// output_dir if that is not empty.
struct StepCounterOptions {
  std::optional<int64_t> every_n_steps = 100;
  std::optional<double> every_n_secs = {};
  std::string output_dir = "";
  std::shared_ptr<io::FileSystem> file_system = nullptr;  // default: io::FileSystem::Default()
  base::Clock* clock = base::Clock::Real();
};
Hook StepCounterHook(const StepCounterOptions& options = {});

// Tensors by the name under which they are printed. A tensor is one of the graph, or its name there
// for a hook that is made before the model_fn has built the graph: "dense/BiasAdd:0", or the name of
// an operation with one output.
//
//   LoggingTensorHook({.tensors = {{"probabilities", "softmax_tensor"}}, .every_n_iter = 50});
class LoggedTensors {
 public:
  using Entry = std::pair<std::string, session::Fetch>;
  LoggedTensors() = default;
  LoggedTensors(std::initializer_list<Entry> entries) : entries_(entries) {}
  LoggedTensors(const NamedTensors& tensors)
      : entries_(tensors.begin(), tensors.end()) {}  // NOLINT

  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
};

// Prints the values of tensors every N steps or seconds, beginning with the first step, and at the
// end: "step 200: loss = 0.31, accuracy = 0.9". Exactly one of every_n_iter and every_n_secs is
// given, or at_end alone.
struct LoggingTensorOptions {
  LoggedTensors tensors = {};
  std::optional<int64_t> every_n_iter = {};
  std::optional<double> every_n_secs = {};
  bool at_end = false;
  // Makes the line from the values; default: as above.
  std::function<std::string(const base::NamedArrays& values)> formatter = nullptr;
  base::Clock* clock = base::Clock::Real();
};
Hook LoggingTensorHook(LoggingTensorOptions options);

// Ends training with an error that names the step if the loss is NaN. The step is recorded on the
// device; the host looks at it every `every_n_steps` steps, before each checkpoint and at the end,
// so that it does not block on every step. With fail_on_nan_loss false it stops without an error.
struct NanTensorOptions {
  session::Tensor loss_tensor;
  bool fail_on_nan_loss = true;
  int64_t every_n_steps = 100;
};
Hook NanTensorHook(const NanTensorOptions& options);

// Writes summaries (session/summary.h) every N steps or seconds, beginning with the first
// step.
struct SummarySaverOptions {
  std::optional<int64_t> save_steps = {};
  std::optional<double> save_secs = {};
  std::string output_dir = "";
  session::Tensors summary_ops = {};  // empty: all of the graph, outside of shards
  session::Tensor loss = {};          // written as "loss", unless a summary has that name
  std::shared_ptr<io::FileSystem> file_system = nullptr;  // default: io::FileSystem::Default()
  base::Clock* clock = base::Clock::Real();
};
Hook SummarySaverHook(SummarySaverOptions options);

// Evaluates tensors when the loop ends.
class FinalOpsHook : public SessionRunHook {
 public:
  explicit FinalOpsHook(session::Fetches final_ops, session::FeedDict feeds = {})
      : final_ops_(std::move(final_ops)), feeds_(std::move(feeds)) {}
  // Their values, once the loop has ended.
  const std::vector<base::Array>& final_ops_values() const { return values_; }
  absl::Status End(RunContext& context) override;

 private:
  session::Fetches final_ops_;
  session::FeedDict feeds_;
  std::vector<base::Array> values_;
};

// Called around each checkpoint (tf.train.CheckpointSaverListener).
class CheckpointSaverListener {
 public:
  virtual ~CheckpointSaverListener() = default;
  virtual absl::Status Begin() { return absl::OkStatus(); }
  virtual absl::Status BeforeSave(RunContext& context, int64_t global_step);
  // `context.RequestStop()` ends training.
  virtual absl::Status AfterSave(RunContext& context, int64_t global_step);
  virtual absl::Status End(RunContext& context, int64_t global_step);
};

// Saves checkpoints: when the session is created (unless it was restored from the checkpoint of
// this step), every N steps or seconds, and at the end. Train adds one according to its RunConfig,
// unless the program's hooks contain one, which then calls Train's listeners, too.
struct CheckpointSaverOptions {
  std::string checkpoint_dir;
  std::optional<double> save_secs = {};
  std::optional<int64_t> save_steps = {};
  std::string checkpoint_basename = "model.ckpt";
  int max_to_keep = 5;  // 0: all
  double keep_checkpoint_every_n_hours = 10000;
  SavingListeners listeners = {};
  std::shared_ptr<io::FileSystem> file_system = nullptr;  // default: io::FileSystem::Default()
  base::Clock* clock = base::Clock::Real();
};
Hook CheckpointSaverHook(CheckpointSaverOptions options);

}  // namespace penstock::estimator
