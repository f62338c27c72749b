// Options of Trainer and of its Fit, Evaluate and Predict.
//
// FitOptions, EvaluateOptions and PredictOptions have Keras's arguments of fit, evaluate and
// predict, in Keras's order, and the front ends use these structs as they are: keras::FitOptions is
// this FitOptions. A struct per front end would declare and copy every common field once more, and
// deriving one from the other is no way out: in C++20 designated initializers cannot name the
// members of a base, so `model.Fit(dataset, {.epochs = 5})` would not compile.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"

#include "penstock/base/clock.h"
#include "penstock/base/thread_pool.h"
#include "penstock/io/file_system.h"
#include "penstock/train/arrays.h"
#include "penstock/train/callback.h"
#include "penstock/train/feed.h"
#include "penstock/train/objective.h"
#include "penstock/train/profile_options.h"
#include "penstock/train/strategy.h"

namespace penstock::train {

// TrainerOptions::steps_per_execution: measured, as few as keep the host's work under 1 % of the
// time (loop/steps_tuner.h).
inline constexpr int64_t kAutoSteps = 0;
inline constexpr int64_t kMaxStepsPerExecution = 1 << 20;

struct TrainerOptions {
  Objective objective;
  Strategy strategy;
  Columns columns = {};
  // Number of training steps per execution: a loop on the devices over a stack of batches, so that
  // the host is involved that much less often. The results are those of single steps. BatchEnd is
  // called once per execution, and the batches of up to three executions are in memory.
  int64_t steps_per_execution = 1;
  // Seed of initial values, dropout and augmentation, and of dataset shuffles without one of their
  // own.
  uint64_t seed = 0;
  // Whether a program that needs more memory than its device has free is an error before its first
  // step, which names the largest values and a batch size that would fit. False: it is run anyway.
  bool check_memory = true;
  base::Clock* clock = base::Clock::Real();  // measures FitStats
  // Initial values of the network's variables, by name, as in Trainer::SetWeights: for a model that
  // is loaded. Its initializers are not run then. Default: the initializers' values.
  std::optional<base::NamedArrays> initial_weights = {};
};

// How a dataset is read.
// Where an input pipeline runs if the devices are on another host (room remote); no effect otherwise.
enum class PipelinePlace {
  // On the worker, if it can travel (data/travel/dataset_json.h) and every URI is in an object store that
  // the worker may read; else here. A note says which and why.
  kAuto,
  kWorker,  // on the worker; an error before the first step if it cannot run there
  kClient,  // here; batches are sent
};

struct ReadOptions {
  base::ThreadPool* pool = nullptr;  // default: a private one, with a thread per core
  std::shared_ptr<io::FileSystem> file_system = nullptr;  // default: io::FileSystem::Default()
  bool deterministic = true;
  PipelinePlace place = PipelinePlace::kAuto;
};

// Arguments of Fit. Fields marked "Arrays" are for Fit(x, y, options). A dataset has its own
// batches, order and weights: there they are an error, except `shuffle`, which has no effect.
struct FitOptions {
  // Arrays: rows per batch; default 32.
  std::optional<int64_t> batch_size = std::nullopt;
  // Number of the last epoch: with initial_epoch = 3 and epochs = 5 there are two.
  int epochs = 1;
  // 0: silent. 1, 2: the progress line (progress.h). Default (Keras's "auto"): keras::Model shows
  // it, Trainer does not.
  std::optional<int> verbose = std::nullopt;
  std::vector<std::shared_ptr<Callback>> callbacks = {};
  // Arrays: fraction of the rows, the last ones, that are held out for validation.
  double validation_split = 0;
  // Evaluated at the end of each epoch, as "val_...": a dataset, or arrays as {x, y} or
  // {x, y, sample_weight}. Data that is missing, empty or infinite is an error before the first
  // step. Whether it is empty is known from its number of batches (Dataset::Cardinality) or, if
  // that is unknown, from the first record or line of its files. Nothing else is read before the
  // first validation: no user function is called, no generator is started, and data that Filter or
  // IgnoreErrors leave empty is an error only there.
  ValidationData validation_data = {};
  // Arrays: whether rows are shuffled in each epoch.
  bool shuffle = true;
  // Weight of the examples of a class in the loss, by class number; default 1. For networks with
  // one output. Not used in validation.
  std::map<int64_t, double> class_weight = {};
  // Arrays: weight of each example, one number per row. A dataset has a column "sample_weight".
  ArraysArg sample_weight = {};
  // Number of the first epoch, from 0: for callbacks, shuffles and schedules by epoch. A resumed
  // training continues where it was instead.
  int initial_epoch = 0;
  // Steps per epoch. 0: an epoch is one pass over the dataset. Otherwise the dataset continues from
  // epoch to epoch, and should have Repeat(); if it ends early, training stops with a reason.
  int64_t steps_per_epoch = 0;
  // Maximum number of batches of a validation; 0: all.
  int64_t validation_steps = 0;
  // Rows per batch of validation arrays; default batch_size.
  std::optional<int64_t> validation_batch_size = std::nullopt;
  // Run validation every N epochs. Callbacks that monitor its numbers skip the other epochs, and
  // warn when training begins.
  int validation_freq = 1;
  ReadOptions read = {};
  // Devices on another host (room remote) may be lost: their worker is killed, or its machine is taken away.
  // Fit then waits until they are back (Client::Reopen), restores the newest checkpoint of its Checkpoint or
  // BackupAndRestore callback, or without one the state that it began with, and goes on; the result is that of
  // an undisturbed run. Number of times that it does so after a fault, and after a preemption that the worker
  // announced; -1: no limit, 0: Fit returns the error. After an announcement such a callback saves first, and Fit
  // returns with History.interrupted instead of an error; without one it does so whatever the limit.
  // Devices of this process are never lost.
  int max_device_losses = 3;
  int max_preemptions = -1;
  // Records where the time goes (docs/design/profile.md).
  std::optional<ProfileOptions> profile = {};
};

// Arguments of Evaluate. "Arrays": for Evaluate(x, y, options); with a dataset they are an error.
struct EvaluateOptions {
  // Arrays: rows per batch; default 32.
  std::optional<int64_t> batch_size = std::nullopt;
  // 0: silent. 1, 2: a progress line on stderr. Default (Keras's "auto"): keras::Model shows it,
  // except while Fit is running, whose line it would break; Trainer does not.
  std::optional<int> verbose = std::nullopt;
  // Arrays: weight of each example, one number per row.
  ArraysArg sample_weight = {};
  // Maximum number of batches; 0: all.
  int64_t steps = 0;
  // Their Test hooks are called (callback.h).
  std::vector<std::shared_ptr<Callback>> callbacks = {};
  ReadOptions read = {};
};

// Arguments of Predict. "Arrays": for Predict(x, options); with a dataset it is an error.
struct PredictOptions {
  // Arrays: rows per batch; default 32.
  std::optional<int64_t> batch_size = std::nullopt;
  // 0: silent, the default (Keras's is 1, also for a single row). 1, 2: a progress line on stderr.
  int verbose = 0;
  // Maximum number of batches; 0: all.
  int64_t steps = 0;
  // Their Predict hooks are called (callback.h).
  std::vector<std::shared_ptr<Callback>> callbacks = {};
  ReadOptions read = {};
};

// Takes the outputs of one batch of Trainer::PredictEach: `outputs` has an array of rows for each
// output of the network, `others` the columns of the dataset that are not the network's inputs.
using TakePredictions = std::function<absl::Status(const base::NamedArrays& others,
                                                   const std::vector<base::Array>& outputs)>;

// INVALID_ARGUMENT, naming the option, if one is invalid or a callback is null.
absl::Status CheckOptions(const FitOptions& options);
absl::Status CheckOptions(const EvaluateOptions& options);
absl::Status CheckOptions(const PredictOptions& options);

}  // namespace penstock::train
