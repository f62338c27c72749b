// How fast a training runs on the data that it has, and how fast it could run.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

#include "penstock/base/clock.h"
#include "penstock/data/dataset.h"
#include "penstock/keras/keras.h"

namespace penstock::diagnose {

struct StepSpeedOptions {
  double seconds = 3;
  int64_t steps = 0;  // at most; 0: any number
  base::Clock* clock = base::Clock::Real();
};

struct StepSpeed {
  int64_t steps = 0;   // that were measured, after those that warm up
  double seconds = 0;  // of them
  double examples_per_second = 0;
};

// Trains on `dataset`, again and again, and measures the steps once the program is compiled and the
// first batches are through. The model's weights change; nothing is written.
absl::StatusOr<StepSpeed> MeasureSteps(keras::Model& model, const data::Dataset& dataset,
                                       const StepSpeedOptions& options);

// The first batch of `dataset` as a dataset of its own that costs nothing to read: what remains is
// the accelerator.
absl::StatusOr<data::Dataset> FirstBatchInMemory(const data::Dataset& dataset);

}  // namespace penstock::diagnose
