// `penstock train --find-learning-rate`: a learning rate range test instead of a training
// (keras/learning_rate_finder.h), drawn in the terminal and as an SVG image.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

#include "penstock/cli/options.h"
#include "penstock/cli/training_setup.h"

namespace penstock::cli {

// --find-learning-rate, --learning-rate-curve.
struct FindLearningRateFlags {
  bool find = false;
  std::string curve;  // SVG file

  void Describe(Options& options);
  // Checks that the SVG file can be written.
  absl::Status CheckDestination() const;
  // Runs the test and prints the proposed rate. The model is not changed.
  absl::Status Run(const TrainingSetup& setup, uint64_t seed, bool json) const;
};

}  // namespace penstock::cli
