// Learning rate range test: proposes a learning rate before training (Smith, Cyclical learning
// rates for training neural networks, 2015; fastai's lr_find).
//
//   PENSTOCK_ASSIGN_OR_RETURN(const keras::LearningRateCurve curve,
//                             keras::FindLearningRate(model, train_set));
//   if (curve.proposed.has_value()) {
//     PENSTOCK_RETURN_IF_ERROR(
//         model.Compile({.optimizer = keras::Adam({.learning_rate = *curve.proposed})}));
//   }
//
// A copy of the model is trained for `steps` batches while the learning rate grows exponentially,
//
//   rate_i = start (end / start)^(i / (steps - 1)),   i = 0 ... steps - 1
//
// and the loss of each batch is recorded and smoothed (exponential moving average with bias
// correction, as in Adam and fastai):
//
//   a_i = beta a_(i-1) + (1 - beta) loss_i,   a_(-1) = 0;   smoothed_i = a_i / (1 - beta^(i+1))
//
// The test ends early when the loss is no longer finite, or when the smoothed loss exceeds
// `stop_factor` times its minimum. The proposed rate is where the smoothed loss falls fastest over
// the logarithm of the rate: rate_i of the least
//
//   (smoothed_(i+h) - smoothed_(i-h)) / (ln rate_(i+h) - ln rate_(i-h)),   h = max(1, steps / 20)
//
// before the minimum of the smoothed loss, and without the first tenth of the steps and the last
// five points, where the curve is not meaningful yet or turns up. It is fastai's suggestion
// function `steep` with two changes: its h is half a step, over which single batches decide the
// slope, and it may propose a rate beyond the minimum, where the loss falls from a peak.
//
// The model itself is not changed: weights, optimizer state and metrics are those from before. The
// copy needs as much device memory as the model, weights and optimizer state.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "penstock/data/dataset.h"
#include "penstock/train/options.h"

namespace penstock::keras {

class Model;

struct LearningRatePoint {
  double rate = 0;
  double loss = 0;      // of one batch, at the weights before its step
  double smoothed = 0;  // moving average
};

struct FindLearningRateOptions {
  double start = 1e-7, end = 10;  // first and last rate
  int64_t steps = 100;     // number of batches, at least 10; the dataset is repeated if short
  double beta = 0.98;      // smoothing of the losses, at least 0 and below 1
  double stop_factor = 4;  // above 1
  uint64_t seed = 0;       // of dropout, augmentation and shuffling
  train::ReadOptions read = {};
  // Called after each step.
  std::function<void(const LearningRatePoint&)> on_step = nullptr;
};

struct LearningRateCurve {
  std::vector<LearningRatePoint> points;
  // The proposed rate; no value if the smoothed loss falls nowhere, or if the loss diverged within
  // the first steps.
  std::optional<double> proposed = {};
  // Whether the test ended before its last step because the loss grew.
  bool diverged = false;
};

// `model` must be compiled; its optimizer may have a schedule, which the test replaces. The dataset
// consists of batches, as for Fit.
absl::StatusOr<LearningRateCurve> FindLearningRate(const Model& model, const data::Dataset& dataset,
                                                   const FindLearningRateOptions& options = {});

// The smoothed losses by the formula above.
std::vector<double> SmoothedLosses(absl::Span<const double> losses, double beta);
// The rate of steepest descent by the formula above, of a test that was to take `steps` steps.
std::optional<double> SteepestDescent(absl::Span<const LearningRatePoint> points, int64_t steps);

}  // namespace penstock::keras
