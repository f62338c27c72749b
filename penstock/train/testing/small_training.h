// Small trainings for tests: computed data, and networks that compile in milliseconds.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "penstock/data/dataset.h"
#include "penstock/nn/optimizers.h"
#include "penstock/train/trainer.h"

namespace penstock::train::testing {

// `rows` points x [rows, 4] and their classes (0, 1, 2): the nearest of three fixed directions.
base::NamedArrays Points(int64_t rows, uint64_t seed = 1);

// The column x, negated: a function for Map.
absl::Status NegateX(const base::NamedArrays& in, base::NamedArrays* out);
// 76 or other points: a shuffle and a C++ function upstream of Cache(where), a shuffle downstream, batches of 8. Counts the
// calls of the function.
data::Dataset CachedPoints(const std::string& where, int64_t rows = 76,
                           std::atomic<int>* calls = nullptr);

// Dense 4 -> 8 (tanh) -> 3, named "hidden" and "logits".
nn::Network SmallNet(double dropout = 0, bool batch_norm = false);

struct SmallOptions {
  nn::Network network = SmallNet();
  nn::Optimizer optimizer = nn::SGD({.learning_rate = 0.1, .momentum = 0.9});
  int replicas = 1;
  std::shared_ptr<runtime::Client> client = nullptr;  // null: TestClient
  uint64_t seed = 7;
  int64_t steps_per_execution = 1;
  base::Clock* clock = base::Clock::Real();
};
absl::StatusOr<std::unique_ptr<Trainer>> SmallTrainer(const SmallOptions& options = {});

// Trains such a network for two batches, with a maximized metric "loss_like" and "mean" without a
// direction, and returns the error. There is no validation data unless it is set in `options`.
absl::Status FitError(std::vector<std::shared_ptr<Callback>> callbacks, FitOptions options = {},
                      nn::Optimizer optimizer = nn::SGD({.learning_rate = 0.1}));

// Size of the state that a training step changes; all variables are trainable, and the learning
// rate is constant.
int64_t ChangingBytes(const StateLayout& layout, bool halt_on_nan = false);

// Maximum difference of two sets of arrays, relative to the maximum element of each.
double LargestDifference(const base::NamedArrays& a, const base::NamedArrays& b);

}  // namespace penstock::train::testing
