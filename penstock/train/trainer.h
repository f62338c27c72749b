// Trainer: runs the step programs over a dataset. Front ends are thin layers over it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

#include "penstock/base/clock.h"
#include "penstock/data/dataset.h"
#include "penstock/runtime/compile_history.h"
#include "penstock/runtime/out_of_memory.h"
#include "penstock/train/callback.h"
#include "penstock/train/feed.h"
#include "penstock/train/profile_options.h"
#include "penstock/train/state.h"
#include "penstock/train/step_program.h"
#include "penstock/train/steps_tuner.h"
#include "penstock/train/strategy.h"

namespace penstock::train {

// As few as keep the host's work under 1 % of the time, found by measuring (steps_tuner.h).
inline constexpr int64_t kAutoSteps = 0;
inline constexpr int64_t kMostStepsPerExecution = 1 << 20;

struct TrainerOptions {
  Objective objective;
  Strategy strategy;
  Columns columns = {};
  // So many training steps are one execution: a loop on the devices, which wait for the host that
  // much less often. The numbers are those of single steps. Reports come, and BatchEnd is called,
  // after each execution; the batches of three executions are in memory.
  int64_t steps_per_execution = 1;
  // Of the first values, dropout and augmentation. Datasets whose shuffles have no seed of their
  // own get theirs from it too.
  uint64_t seed = 0;
  // A program that needs more memory than its device has left is an error before its first step,
  // which says what is large and which batch would fit. False: it is tried all the same.
  bool check_memory = true;
  base::Clock* clock = base::Clock::Real();  // measures FitStats
};

// How data is read.
struct ReadOptions {
  base::ThreadPool* pool = nullptr;
  std::shared_ptr<io::FileSystem> file_system = nullptr;
  bool deterministic = true;
};

struct FitOptions {
  // The number of the last epoch: with initial_epoch = 3 and epochs = 5 there are two.
  int epochs = 1;
  // Where counting begins (from 0): for callbacks, shuffles and schedules by the epoch. A resumed
  // training goes on where it was instead.
  int initial_epoch = 0;
  // 0: an epoch is one pass over the dataset. Otherwise the dataset goes on from epoch to epoch,
  // and should have Repeat(); when it ends early, training stops and says so.
  int64_t steps_per_epoch = 0;
  // Measured at the end of each epoch, as "val_...". Data that is missing, empty or without an end
  // is an error before the first step. Whether it is empty is known from its number of batches
  // (Dataset::Cardinality) or, where that is unknown, from the first record or line of its files.
  // Nothing else is read for it: no user function is called, a generator is not begun, and what
  // Filter or IgnoreErrors leaves is found out at the first validation.
  const data::Dataset* validation = nullptr;
  // Run validation every N epochs. Callbacks that monitor its numbers skip the other epochs, and
  // warn when training begins.
  int validation_freq = 1;
  // How much the examples of a class count, by its number; those of other classes count 1. For
  // networks with one output. Not in validation.
  std::map<int64_t, double> class_weight = {};
  std::vector<std::shared_ptr<Callback>> callbacks = {};
  ReadOptions read = {};
  // Where the time goes, as pictures and tables.
  std::optional<ProfileOptions> profile = {};
};

struct History {
  std::vector<Logs> epochs;
  // Of each epoch; empty ones for those before a resumed training.
  std::vector<FitStats> stats;
  // Why training ended before its last epoch; empty when it did not.
  std::string stop_reason;
};

class Profiler;

class Trainer {
 public:
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(TrainerOptions options);
  ~Trainer();

  // Trains. Another Fit goes on with the weights and the optimizer's state as they are.
  // FAILED_PRECONDITION while a Fit of this trainer is running, in another thread or called from a
  // callback: both would step the same state.
  absl::StatusOr<History> Fit(const data::Dataset& dataset, const FitOptions& options);
  bool fitting() const { return fitting_.load(); }
  // What ReportNames lists, over one pass.
  absl::StatusOr<Logs> Evaluate(const data::Dataset& dataset, const ReadOptions& read = {});
  // The network's outputs for every row of one pass, one array each; float32 where the network
  // computes in fewer bits.
  absl::StatusOr<std::vector<Array>> Predict(const data::Dataset& dataset,
                                             const ReadOptions& read = {});

  // Variables of the network, by name.
  absl::StatusOr<NamedArrays> Weights() const;
  // All of them; the error names what is missing, too much or of another shape. Floats may be of
  // another width: they are rounded, so that weights fit under another policy.
  absl::Status SetWeights(const NamedArrays& weights);
  // Of the next step. Only a rate that is not a schedule's can be set.
  absl::StatusOr<double> LearningRate() const;
  absl::Status SetLearningRate(double rate);
  // Variables, slots, step, random key, sums of metrics.
  absl::StatusOr<NamedArrays> State() const;
  absl::Status SetState(const NamedArrays& state);

  const Objective& objective() const { return options_.objective; }
  const Strategy& strategy() const { return options_.strategy; }
  const Columns& columns() const { return options_.columns; }
  const StateLayout& layout() const { return layout_; }

 private:
  friend class FitRun;

  explicit Trainer(TrainerOptions options)
      : options_(std::move(options)), steps_tuner_(options_.steps_per_execution) {}

  // Create and Predict, which catch what user-defined layers, losses and metrics throw.
  static absl::StatusOr<std::unique_ptr<Trainer>> Make(TrainerOptions options);
  absl::StatusOr<std::vector<Array>> PredictRows(const data::Dataset& dataset,
                                                 const ReadOptions& read);

  // Compiled programs are kept for the types they were compiled for.
  struct Compiled {
    BatchTypes types;
    std::shared_ptr<runtime::Executable> executable;
  };
  using Print = std::function<absl::StatusOr<ir::Program>()>;
  absl::StatusOr<std::shared_ptr<runtime::Executable>> Compile(
      std::vector<Compiled>& kept, const BatchTypes& types,
      absl::Span<const std::shared_ptr<Callback>> callbacks, base::Trace* trace,
      const Print& print);
  runtime::BatchMemory MemoryOf(const BatchTypes& types, bool with_state) const;
  absl::StatusOr<Logs> EvaluateWith(const data::Dataset& dataset, const ReadOptions& read,
                                    absl::Span<const std::shared_ptr<Callback>> callbacks,
                                    Profiler* profiler);
  // The targets whose losses are asked about their labels; null for a step of one's own.
  const std::vector<Target>* TargetsToCheck() const;
  // What looks wrong about the objective: a softmax that is missing, or one too many.
  std::vector<std::string> Advice() const;
  // Metric sums of zero, for each replica.
  absl::StatusOr<std::vector<runtime::Buffers>> ZeroMetrics() const;
  Logs LogsOf(const Array& report) const;

  TrainerOptions options_;
  StateLayout layout_;
  std::vector<std::string> report_names_;
  DeviceState state_;
  runtime::CompileHistory compile_history_;
  std::atomic<bool> fitting_{false};
  StepsTuner steps_tuner_;  // what one Fit found out the next one need not measure again
  std::vector<Compiled> train_steps_, halting_train_steps_, evaluate_steps_, predict_steps_;
};

}  // namespace penstock::train
