#include "penstock/train/loop/steps_tuner.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "penstock/base/median.h"
#include "penstock/train/loop/in_flight.h"

namespace penstock::train {
namespace {

constexpr double kOverhead = 0.01;
// The first estimate is too low by up to this factor: a single step takes longer than a step of the
// loop, by the time to start an execution.
constexpr double kMargin = 4;

// CPU time of an execution's messages on the threads of a connection, at least: the host's work does not
// contain it.
constexpr double kConnectionSeconds = 200e-6;

// Number of steps of `step` seconds that hide `host` seconds of host work, at most `max_steps`.
int64_t StepsThatHide(double host, double step, double margin, int64_t max_steps) {
  if (step <= 0) return max_steps;
  const double steps = std::ceil(margin * host / (kOverhead * step));
  return steps < static_cast<double>(max_steps) ? std::max<int64_t>(1, static_cast<int64_t>(steps))
                                                : max_steps;
}

// Number of steps of `step` seconds with which a quarter of the executions that may be in flight fill a round
// trip, at most `max_steps`.
int64_t StepsThatFill(double round_trip, double step, int64_t max_steps) {
  constexpr double kInFlight = InFlight::kMaxLimit / 4;
  const double steps = std::ceil(round_trip / (kInFlight * std::max(step, 1e-9)));
  return steps < static_cast<double>(max_steps) ? std::max<int64_t>(1, static_cast<int64_t>(steps))
                                                : max_steps;
}

double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// The next power of two, or the greatest one that is at most `max_steps`.
int64_t PowerOfTwo(int64_t depth, int64_t max_steps) {
  return static_cast<int64_t>(std::min(std::bit_ceil(static_cast<uint64_t>(depth)),
                                       std::bit_floor(static_cast<uint64_t>(max_steps))));
}

}  // namespace

std::optional<StepsTuner::Found> StepsTuner::found() const {
  if (!automatic_ || stage_ == Stage::kOneStep) return std::nullopt;
  return Found{.depth = depth_,
               .steps = steps_,
               .settled = stage_ == Stage::kSettled,
               .attempts = std::min(attempts_, kAttemptsAtOnce)};
}

void StepsTuner::Restore(const Found& found) {
  if (!automatic_ || found.depth < 1 || found.depth > kMaxDepth || found.steps < 1 ||
      found.steps > found.depth || found.attempts < 0 || found.attempts > kAttemptsAtOnce) {
    return;
  }
  depth_ = found.depth;
  steps_ = found.steps;
  stage_ = found.settled || depth_ == 1 ? Stage::kSettled : Stage::kLoop;
  attempts_ = found.attempts > 0 && depth_ > 1 ? found.attempts + 1 : 0;
  held_ = attempts_ > kAttemptsAtOnce;
  seen_ = 0;
  host_.clear();
  step_.clear();
}

void StepsTuner::Measured(const Measurement& execution) {
  if (execution.depth != depth_) return;
  if (stage_ != Stage::kOneStep) attempts_ = 0;  // it has run
  if (stage_ == Stage::kSettled || ++seen_ <= kSkipped) return;
  host_.push_back(execution.host_seconds);
  step_.push_back(execution.device_seconds / static_cast<double>(execution.steps));
  if (static_cast<int>(host_.size()) < kSamples) return;
  const double round_trip = execution.round_trip_seconds;
  // Reports that come from elsewhere arrive in bursts: the median would be the time within one.
  const double host = std::max(base::Median(host_), round_trip > 0 ? kConnectionSeconds : 0);
  const double step = round_trip > 0 ? Mean(step_) : base::Median(step_);
  host_.clear();
  step_.clear();
  seen_ = 0;
  if (stage_ == Stage::kLoop) {
    steps_ =
        std::max(StepsThatHide(host, step, 1, depth_), StepsThatFill(round_trip, step, depth_));
    stage_ = Stage::kSettled;
    return;
  }
  int64_t max_steps =
      std::clamp<int64_t>(kMaxBytes / std::max<int64_t>(1, execution.batch_bytes), 1, kMaxDepth);
  if (execution.steps_per_epoch > 0) max_steps = std::min(max_steps, execution.steps_per_epoch);
  // With three executions in flight a step that takes no time seems to take a third of the round trip.
  const bool hidden_by_round_trip = 2 * step <= round_trip;
  const bool enough = !hidden_by_round_trip && StepsThatHide(host, step, 1, max_steps) == 1;
  const int64_t needed =
      hidden_by_round_trip ? max_steps : StepsThatHide(host, step, kMargin, max_steps);
  depth_ = steps_ = enough ? 1 : PowerOfTwo(needed, max_steps);
  stage_ = depth_ == 1 ? Stage::kSettled : Stage::kLoop;
  attempts_ = depth_ == 1 ? 0 : 1;
}

}  // namespace penstock::train
