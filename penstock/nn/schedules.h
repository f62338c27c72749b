// Learning rate schedules, computed on the device. Names and formulas are Keras's
// (keras.optimizers.schedules), and two more: OneCycle, and WarmUp before any other schedule.
//
//   Schedule lr = 0.1;                                              // constant
//   lr = PiecewiseConstantDecay({.boundaries = {32000, 48000}, .values = {0.1, 0.01, 0.001}});
//   lr = WarmUp({.steps = 500}, CosineDecay({.initial_learning_rate = 0.4, .decay_steps = 10000}));
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

#include "penstock/ir/ops.h"
#include "penstock/nn/typed_options.h"

namespace penstock::nn {

class Config;
class Schedule;

// A schedule class: its options and its formula.
class ScheduleBody {
 public:
  virtual ~ScheduleBody() = default;
  virtual absl::string_view class_name() const = 0;
  // The error of an invalid option, if any.
  virtual absl::Status Check() const { return absl::OkStatus(); }
  // Learning rate at `step` (f32 scalar), the number of finished steps: 0 in the first step. The
  // result is an f32 scalar.
  virtual ir::Value At(ir::Value step) const = 0;
  virtual void Fields(Config& config) = 0;
  // The nested schedule, if there is one.
  virtual Schedule* inner() { return nullptr; }
};

class Schedule {
 public:
  Schedule(double constant);  // NOLINT: `.learning_rate = 0.1`
  explicit Schedule(std::shared_ptr<ScheduleBody> body) : body_(std::move(body)) {}

  // Whether the learning rate is constant: then it is a part of the training state, and callbacks
  // may set it.
  bool is_constant() const;
  double constant() const;  // requires is_constant()

  absl::Status Check() const { return body_->Check(); }
  ir::Value At(ir::Value step) const { return body_->At(step); }
  // A number for a constant; {"class_name", "config"} otherwise, as in Keras.
  nlohmann::ordered_json ToJson() const;
  static absl::StatusOr<Schedule> FromJson(const nlohmann::ordered_json& json);

 private:
  std::shared_ptr<ScheduleBody> body_;
};

// values[i] while step <= boundaries[i], the last value afterwards.
struct PiecewiseConstantDecayOptions {
  std::vector<double> boundaries = {};  // ascending
  std::vector<double> values = {};      // one more than boundaries
};
Schedule PiecewiseConstantDecay(const PiecewiseConstantDecayOptions& options);

// initial * decay_rate^(step / decay_steps); `staircase` rounds the exponent down.
struct ExponentialDecayOptions {
  double initial_learning_rate = 0;
  int64_t decay_steps = 0;
  double decay_rate = 0;
  bool staircase = false;
};
Schedule ExponentialDecay(const ExponentialDecayOptions& options);

// initial / (1 + decay_rate step / decay_steps); `staircase` rounds the fraction down.
struct InverseTimeDecayOptions {
  double initial_learning_rate = 0;
  int64_t decay_steps = 0;
  double decay_rate = 0;
  bool staircase = false;
};
Schedule InverseTimeDecay(const InverseTimeDecayOptions& options);

// From the initial rate to end_learning_rate within decay_steps as (1 - step / decay_steps)^power,
// then constant. With `cycle`, decay_steps is extended to the next multiple each time the step
// reaches it, so the decay starts again at a lower rate.
struct PolynomialDecayOptions {
  double initial_learning_rate = 0;
  int64_t decay_steps = 0;
  double end_learning_rate = 0.0001;
  double power = 1;
  bool cycle = false;
};
Schedule PolynomialDecay(const PolynomialDecayOptions& options);

// Cosine decay (Loshchilov and Hutter: SGDR, 2016): from the initial rate (after a linear warm-up
// to warmup_target within warmup_steps, if given) to alpha times it within decay_steps, then
// constant.
struct CosineDecayOptions {
  double initial_learning_rate = 0;
  int64_t decay_steps = 0;
  double alpha = 0;
  std::optional<double> warmup_target = {};
  int64_t warmup_steps = 0;  // ignored without a warmup_target, as in Keras
};
Schedule CosineDecay(const CosineDecayOptions& options);

// Cosine decay with warm restarts: each period is t_mul times as long and starts at m_mul times the
// rate of the previous one.
struct CosineDecayRestartsOptions {
  double initial_learning_rate = 0;
  int64_t first_decay_steps = 0;
  double t_mul = 2;
  double m_mul = 1;
  double alpha = 0;
};
Schedule CosineDecayRestarts(const CosineDecayRestartsOptions& options);

// One-cycle schedule (Smith and Topin: Super-convergence, 2018), with the names and formulas of
// PyTorch's OneCycleLR: up from max_learning_rate / div_factor during the first pct_start of the
// steps, then down to the initial rate / final_div_factor, where it stays; with three_phase, down
// to the initial rate as fast as it rose, and from there to the final one. Does not change the
// momentum.
struct OneCycleOptions {
  double max_learning_rate = 0;
  int64_t total_steps = 0;
  double pct_start = 0.3;
  AnnealStrategy anneal_strategy = "cos";  // or linear
  double div_factor = 25;
  double final_div_factor = 10000;
  bool three_phase = false;
};
Schedule OneCycle(const OneCycleOptions& options);

// Linear warm-up: for the first `steps` steps the rate rises linearly from `start` times to 1 times
// the initial rate of `then`; afterwards `then` applies, with steps counted from 0.
struct WarmUpOptions {
  int64_t steps = 0;
  double start = 0;
};
Schedule WarmUp(const WarmUpOptions& options, Schedule then);

// Linear scaling rule: the learning rate scaled by batch_size / base_batch_size (Goyal et al.:
// Accurate, large minibatch SGD, 2017, who combine it with a warm-up).
inline double LinearBatchScaling(double learning_rate, int64_t batch_size,
                                 int64_t base_batch_size = 256) {
  return learning_rate * static_cast<double>(batch_size) / static_cast<double>(base_batch_size);
}

// Names of all schedules that are not constant.
std::vector<std::string> ScheduleNames();

}  // namespace penstock::nn
