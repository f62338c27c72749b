// Measurement of training steps: with the data of a training, and with data in memory.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

#include "penstock/base/clock.h"
#include "penstock/data/dataset.h"
#include "penstock/keras/keras.h"

namespace penstock::diagnose {

struct StepSpeedOptions {
  double seconds = 3;
  int64_t steps = 0;  // maximum number of steps; 0: no limit
  base::Clock* clock = base::Clock::Real();
};

struct StepSpeed {
  int64_t steps = 0;   // number of measured steps, without the warm-up
  double seconds = 0;  // duration of these steps
  double examples_per_second = 0;
};

// Trains on `dataset`, repeated indefinitely, and measures the steps after compilation and warm-up.
// Changes the model's weights; writes no files.
absl::StatusOr<StepSpeed> MeasureSteps(keras::Model& model, const data::Dataset& dataset,
                                       const StepSpeedOptions& options);

// Returns a dataset of the first batch of `dataset`, in memory. Reading it costs nothing, so that
// the steps measure the accelerator alone.
absl::StatusOr<data::Dataset> FirstBatchInMemory(const data::Dataset& dataset);

}  // namespace penstock::diagnose
