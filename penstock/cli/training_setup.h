// TrainingSetup: the compiled model and the dataset of `penstock train ARGUMENTS`, for commands
// that analyze a training.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/cli/shared_options.h"
#include "penstock/data/dataset.h"
#include "penstock/keras/keras.h"
#include "penstock/runtime/client.h"

namespace penstock::cli {

struct TrainingSetup {
  keras::Model model;  // compiled
  data::Dataset dataset;
  std::shared_ptr<runtime::Client> client;
  // Options of the dataset.
  std::vector<std::string> data;
  ImageShape image;
  int64_t batch_size = 0;
  int64_t shuffle = 0;
  int64_t steps = 0;  // of the first stage
};

// `arguments` follow "penstock train".
absl::StatusOr<TrainingSetup> SetUpTraining(const std::vector<std::string>& arguments);

// The options that `arguments` give, and defaults; INVALID_ARGUMENT: `penstock train` does not accept them.
absl::StatusOr<std::vector<OptionValues>> ParseTraining(const std::vector<std::string>& arguments);

}  // namespace penstock::cli
