#include "penstock/keras/learning_rate_finder.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/keras/keras.h"

namespace penstock::keras {
namespace {

using Json = nlohmann::ordered_json;

// Learning rate of step i.
double RateOf(const FindLearningRateOptions& options, int64_t i) {
  const double share = static_cast<double>(i) / static_cast<double>(options.steps - 1);
  return options.start * std::pow(options.end / options.start, share);
}

absl::Status CheckFindOptions(const FindLearningRateOptions& o) {
  constexpr int64_t kMaxSteps = 1000000;
  const auto wrong = [](const char* rule, double given) {
    return absl::InvalidArgumentError(absl::StrCat("FindLearningRate: ", rule, "; got ", given));
  };
  if (!(o.start > 0 && std::isfinite(o.start))) return wrong("start must be above 0", o.start);
  if (!(o.end > o.start && std::isfinite(o.end))) return wrong("end must be above start", o.end);
  if (o.steps < 10 || o.steps > kMaxSteps) {
    return wrong("steps must be from 10 to 1000000", static_cast<double>(o.steps));
  }
  if (!(o.beta >= 0 && o.beta < 1)) return wrong("beta must be at least 0 and below 1", o.beta);
  if (!(o.stop_factor > 1)) return wrong("stop_factor must be above 1", o.stop_factor);
  return absl::OkStatus();
}

// The optimizer with the growing learning rate; its other options stay.
absl::StatusOr<nn::Optimizer> WithGrowingRate(const nn::Optimizer& optimizer,
                                              const FindLearningRateOptions& options) {
  Json json = optimizer.ToJson();
  Json* config = &json.at("config");
  // LossScaleOptimizer wraps the optimizer that has the rate.
  if (config->contains("inner_optimizer")) config = &config->at("inner_optimizer").at("config");
  (*config)["learning_rate"] =
      nn::Schedule(nn::ExponentialDecay({.initial_learning_rate = options.start,
                                         .decay_steps = options.steps - 1,
                                         .decay_rate = options.end / options.start}))
          .ToJson();
  return nn::Optimizer::FromJson(json);
}

// Records the loss of each step. An epoch has one step, so that its loss is that of the batch.
class LossRecorder final : public Callback {
 public:
  LossRecorder(const FindLearningRateOptions& options, LearningRateCurve& curve)
      : options_(options), curve_(curve) {}

  absl::Status EpochEnd(train::TrainingContext& training, const train::Position&,
                        const Logs& logs) override {
    PENSTOCK_ASSIGN_OR_RETURN(const double loss, logs.Get("loss"));
    if (!std::isfinite(loss)) return Diverged(training);
    const auto i = static_cast<int64_t>(curve_.points.size());
    average_ = options_.beta * average_ + (1 - options_.beta) * loss;
    const double smoothed = average_ / (1 - std::pow(options_.beta, static_cast<double>(i + 1)));
    curve_.points.push_back({.rate = RateOf(options_, i), .loss = loss, .smoothed = smoothed});
    if (options_.on_step) options_.on_step(curve_.points.back());
    if (i == 0 || smoothed < best_) best_ = smoothed;
    // For positive losses: smoothed > stop_factor * best.
    if (smoothed - best_ > (options_.stop_factor - 1) * std::abs(best_)) return Diverged(training);
    return absl::OkStatus();
  }

 private:
  absl::Status Diverged(train::TrainingContext& training) {
    curve_.diverged = true;
    training.Stop("the loss has diverged");
    return absl::OkStatus();
  }

  const FindLearningRateOptions& options_;
  LearningRateCurve& curve_;
  double average_ = 0, best_ = 0;
};

}  // namespace

std::vector<double> SmoothedLosses(absl::Span<const double> losses, double beta) {
  std::vector<double> smoothed;
  double average = 0, power = 1;
  for (const double loss : losses) {
    average = beta * average + (1 - beta) * loss;
    power *= beta;
    smoothed.push_back(average / (1 - power));
  }
  return smoothed;
}

std::optional<double> SteepestDescent(absl::Span<const LearningRatePoint> points, int64_t steps) {
  constexpr size_t kSkippedAtEnd = 5;
  const auto half = static_cast<size_t>(std::max<int64_t>(1, steps / 20));
  const size_t first = std::max(static_cast<size_t>(steps / 10), half);
  if (points.size() <= first) return std::nullopt;
  // After its minimum the loss may rise to a peak and fall again, steeply and at useless rates.
  const auto minimum = static_cast<size_t>(
      std::min_element(points.begin() + static_cast<int64_t>(first), points.end(),
                       [](const LearningRatePoint& a, const LearningRatePoint& b) {
                         return a.smoothed < b.smoothed;
                       }) -
      points.begin());
  std::optional<double> best;
  double least = 0;
  for (size_t i = first; i < minimum && i + half + kSkippedAtEnd < points.size(); ++i) {
    const LearningRatePoint &before = points[i - half], &after = points[i + half];
    const double slope =
        (after.smoothed - before.smoothed) / (std::log(after.rate) - std::log(before.rate));
    if (slope >= least) continue;
    least = slope;
    best = points[i].rate;
  }
  return best;
}

absl::StatusOr<LearningRateCurve> FindLearningRate(const Model& model, const data::Dataset& dataset,
                                                   const FindLearningRateOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(CheckFindOptions(options));
  PENSTOCK_ASSIGN_OR_RETURN(const train::Trainer* trainer, model.trainer());
  train::Objective objective = trainer->objective();
  PENSTOCK_ASSIGN_OR_RETURN(objective.optimizer, WithGrowingRate(objective.optimizer, options));
  PENSTOCK_ASSIGN_OR_RETURN(base::NamedArrays weights, trainer->Weights());
  PENSTOCK_ASSIGN_OR_RETURN(const auto copy,
                            train::Trainer::Create({.objective = std::move(objective),
                                                    .strategy = trainer->strategy(),
                                                    .columns = trainer->columns(),
                                                    .seed = options.seed,
                                                    .initial_weights = std::move(weights)}));
  LearningRateCurve curve;
  PENSTOCK_ASSIGN_OR_RETURN(
      const History history,
      copy->Fit(dataset.Repeat(), {.epochs = static_cast<int>(options.steps),
                                   .callbacks = {std::make_shared<LossRecorder>(options, curve)},
                                   .steps_per_epoch = 1,
                                   .read = options.read}));
  if (curve.points.empty()) {
    return absl::InvalidArgumentError(
        curve.diverged ? "the loss of the first batch is not finite: the weights or the data are "
                         "the cause, no learning rate can help"
                       : absl::StrCat("no batch was trained: ", history.stop_reason));
  }
  curve.proposed = SteepestDescent(curve.points, options.steps);
  return curve;
}

}  // namespace penstock::keras
