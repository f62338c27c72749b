// TrainAndEvaluate: training with evaluations between checkpoints, in one process
// (tf.estimator.train_and_evaluate, run locally).
//
//   PENSTOCK_ASSIGN_OR_RETURN(
//       EvalResult result,
//       TrainAndEvaluate(estimator, {.input_fn = TrainInput, .max_steps = 10000},
//                        {.input_fn = TestInput, .steps = {}}));
//
// As in TensorFlow, a checkpoint that is saved is evaluated, but the one before the first step and
// those that come within throttle_secs after the last evaluation began; the last one always is. How often
// checkpoints are saved is said by RunConfig. To evaluate in another process, call Evaluate there
// in a loop over new values of LatestCheckpoint.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"

#include "penstock/estimator/estimator.h"
#include "penstock/estimator/exporter.h"

namespace penstock::estimator {

struct TrainSpec {
  InputFn input_fn = {};
  // Global step at which training ends; not set: with the input, or never.
  std::optional<int64_t> max_steps = {};
  Hooks hooks = {};
  SavingListeners saving_listeners = {};
};

struct EvalSpec {
  InputFn input_fn = {};
  std::optional<int64_t> steps = 100;  // batches; not set: the whole input
  std::string name = "";
  Hooks hooks = {};
  Exporters exporters = {};
  // Seconds after the beginning of training, and of an evaluation, in which no evaluation begins.
  // TensorFlow counts start_delay_secs only in a process of its own, where it is 120.
  double start_delay_secs = 0;
  double throttle_secs = 600;
};

// Returns the result of the last evaluation. An exporter that fails ends it with that error; the
// checkpoint that it would have exported is saved already, and the next call continues from it.
absl::StatusOr<EvalResult> TrainAndEvaluate(Estimator& estimator, const TrainSpec& train_spec,
                                            const EvalSpec& eval_spec);

}  // namespace penstock::estimator
