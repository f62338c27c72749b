// Learning rates that change with the step, computed on the device. Names and formulas are Keras's
// (keras.optimizers.schedules), and two more: OneCycle, and WarmUp in front of any other.
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

namespace penstock::nn {

class Config;
class Schedule;

class ScheduleBody {
 public:
  virtual ~ScheduleBody() = default;
  virtual absl::string_view class_name() const = 0;
  // What is wrong with the options, if anything.
  virtual absl::Status Check() const { return absl::OkStatus(); }
  // `step` (f32 scalar) counts finished steps: 0 in the first. The result is an f32 scalar.
  virtual ir::Value At(ir::Value step) const = 0;
  virtual void Fields(Config& config) = 0;
  // The schedule inside this one, if there is one.
  virtual Schedule* inner() { return nullptr; }
};

class Schedule {
 public:
  Schedule(double constant);  // NOLINT: `.learning_rate = 0.1`
  explicit Schedule(std::shared_ptr<ScheduleBody> body) : body_(std::move(body)) {}

  // The learning rate if it never changes: then it lives in the training state, where callbacks may
  // set it.
  bool is_constant() const;
  double constant() const;  // needs is_constant()

  absl::Status Check() const { return body_->Check(); }
  ir::Value At(ir::Value step) const { return body_->At(step); }
  // A number for a constant; {"class_name", "config"} otherwise, as Keras writes it.
  nlohmann::ordered_json ToJson() const;
  static absl::StatusOr<Schedule> FromJson(const nlohmann::ordered_json& json);

 private:
  std::shared_ptr<ScheduleBody> body_;
};

// values[i] while step <= boundaries[i], the last one afterwards.
struct PiecewiseConstantDecayOptions {
  std::vector<double> boundaries = {};  // rising
  std::vector<double> values = {};      // one more than boundaries
};
Schedule PiecewiseConstantDecay(const PiecewiseConstantDecayOptions& options);

// initial * decay_rate^(step / decay_steps); with `staircase` the exponent is rounded down.
struct ExponentialDecayOptions {
  double initial_learning_rate = 0;
  int64_t decay_steps = 0;
  double decay_rate = 0;
  bool staircase = false;
};
Schedule ExponentialDecay(const ExponentialDecayOptions& options);

// initial / (1 + decay_rate step / decay_steps); with `staircase` the fraction is rounded down.
struct InverseTimeDecayOptions {
  double initial_learning_rate = 0;
  int64_t decay_steps = 0;
  double decay_rate = 0;
  bool staircase = false;
};
Schedule InverseTimeDecay(const InverseTimeDecayOptions& options);

// From the initial rate to end_learning_rate within decay_steps as (1 - done)^power, then constant;
// with `cycle` it begins again each time at a lower rate: decay_steps is the next multiple of it.
struct PolynomialDecayOptions {
  double initial_learning_rate = 0;
  int64_t decay_steps = 0;
  double end_learning_rate = 0.0001;
  double power = 1;
  bool cycle = false;
};
Schedule PolynomialDecay(const PolynomialDecayOptions& options);

// Loshchilov and Hutter: SGDR, 2016. From the initial rate (after a linear warm-up to warmup_target
// within warmup_steps, if that is given) to alpha times it within decay_steps, then constant.
struct CosineDecayOptions {
  double initial_learning_rate = 0;
  int64_t decay_steps = 0;
  double alpha = 0;
  std::optional<double> warmup_target = {};
  int64_t warmup_steps = 0;  // as in Keras, nothing without a warmup_target
};
Schedule CosineDecay(const CosineDecayOptions& options);

// The same again and again: each time t_mul times as long and from m_mul times the rate.
struct CosineDecayRestartsOptions {
  double initial_learning_rate = 0;
  int64_t first_decay_steps = 0;
  double t_mul = 2;
  double m_mul = 1;
  double alpha = 0;
};
Schedule CosineDecayRestarts(const CosineDecayRestartsOptions& options);

// Smith and Topin: Super-convergence, 2018, with the names and formulas of PyTorch's OneCycleLR: up
// from max_learning_rate / div_factor during the first pct_start of the steps, then down to the
// initial rate / final_div_factor, where it stays; with three_phase down to the initial rate as
// fast as it came, and from there to the final one. Momentum is left alone.
struct OneCycleOptions {
  double max_learning_rate = 0;
  int64_t total_steps = 0;
  double pct_start = 0.3;
  std::string anneal_strategy = "cos";  // or "linear"
  double div_factor = 25;
  double final_div_factor = 10000;
  bool three_phase = false;
};
Schedule OneCycle(const OneCycleOptions& options);

// For the first `steps` steps the rate goes in a straight line from `start` times to once what
// `then` gives at its own first step; afterwards `then` takes over, counting from 0.
struct WarmUpOptions {
  int64_t steps = 0;
  double start = 0;
};
Schedule WarmUp(const WarmUpOptions& options, Schedule then);

// The rate for another batch size than the one it was found with: as many times larger as the batch
// is (Goyal et al.: Accurate, large minibatch SGD, 2017, who add a WarmUp).
inline double LinearBatchScaling(double learning_rate, int64_t batch_size,
                                 int64_t base_batch_size = 256) {
  return learning_rate * static_cast<double>(batch_size) / static_cast<double>(base_batch_size);
}

// The names of those that change.
std::vector<std::string> ScheduleNames();

}  // namespace penstock::nn
