// Learning rates that change with the step, computed on the device. Names and formulas are Keras's
// (keras.optimizers.schedules), and one more: WarmUp in front of any other.
//
//   Schedule lr = 0.1;                                              // constant
//   lr = PiecewiseConstantDecay({.boundaries = {32000, 48000}, .values = {0.1, 0.01, 0.001}});
//   lr = WarmUp({.steps = 500}, CosineDecay({.initial_learning_rate = 0.4, .decay_steps = 10000}));
#pragma once

#include <memory>
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

// Loshchilov and Hutter: SGDR, 2016. From the initial rate (after a linear warm-up to
// warmup_target, if warmup_steps are given) to alpha times it within decay_steps, then constant.
struct CosineDecayOptions {
  double initial_learning_rate = 0;
  int64_t decay_steps = 0;
  double alpha = 0;
  double warmup_target = 0;  // used when warmup_steps > 0
  int64_t warmup_steps = 0;
};
Schedule CosineDecay(const CosineDecayOptions& options);

// For the first `steps` steps the rate goes in a straight line from `start` times to once what
// `then` gives at its own first step; afterwards `then` takes over, counting from 0.
struct WarmUpOptions {
  int64_t steps = 0;
  double start = 0;
};
Schedule WarmUp(const WarmUpOptions& options, Schedule then);

}  // namespace penstock::nn
