// Options of `penstock train` for the optimizer, the learning rate, the loss and the metrics.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/cli/options.h"
#include "penstock/keras/keras.h"

namespace penstock::cli {

class Recipe {
 public:
  void Describe(Options& options);

  // Checks names and numbers, before any slow work.
  absl::Status Check() const;

  // The optimizer for a training of `steps` steps; `factor` multiplies the learning rate.
  absl::StatusOr<nn::Optimizer> Optimizer(int64_t steps, double factor = 1) const;
  nn::Loss Loss() const;
  // Accuracy, and the metrics of --metrics.
  absl::StatusOr<std::vector<keras::MetricArg>> Metrics(int64_t classes) const;
  // Weights of the classes in the loss; empty: none. Reads all records of the shards once.
  absl::StatusOr<std::map<int64_t, double>> ClassWeights(
      const std::vector<std::string>& shards) const;
  // Whether moving averages replace the weights (--ema).
  bool averages() const { return ema_ > 0; }

 private:
  absl::StatusOr<double> LearningRate() const;
  absl::StatusOr<nn::Schedule> Schedule(int64_t steps, double factor) const;

  std::string optimizer_ = "sgd", schedule_ = "cosine", class_weight_;
  double learning_rate_ = 0;  // 0: the default of the optimizer
  double momentum_ = 0.9, warmup_ = 0.05, clip_norm_ = 0;
  double weight_decay_ = -1;  // below 0: the default of the optimizer
  double label_smoothing_ = 0, ema_ = 0;
  std::vector<std::string> metrics_;
};

}  // namespace penstock::cli
