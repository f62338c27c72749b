// Optimizer: options and operations that all optimizers share; the catalog of optimizers is
// optimizers.h.
//
//   Optimizer optimizer = Adam({.learning_rate = 1e-3, .weight_decay = 0.01, .clipnorm = 1});
//
// An optimizer is a description. Its state between steps (slot variables) is stored by the training
// loop: a few arrays per variable, and a few numbers for the optimizer as a whole. 16-bit variables
// have float32 slots, and their updates are computed in float32: small increments of a sum would be
// lost otherwise.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

#include "penstock/ir/ops.h"
#include "penstock/nn/schedules.h"

namespace penstock::nn {

class OptimizerBody;  // optimizer_body.h

// A group of variables with a learning rate of its own: `factor` (above 0) times the optimizer's
// rate, whatever schedule or callback determines it. The group is updated as by an optimizer with
// that rate, decoupled weight decay included, like a parameter group with its own `lr` in PyTorch
// (torch.optim.AdamW: theta <- theta - lr * weight_decay * theta). Clipping by the global norm is
// still over all variables.
struct LearningRateMultiplier {
  // Matches variables by name, or by the path of a layer that contains them: "backbone",
  // "backbone/block1_*", "*/bias" ('*' stands for any characters, '/' included; '?' for one).
  std::string pattern;
  double factor;
  friend bool operator==(const LearningRateMultiplier&, const LearningRateMultiplier&) = default;
};

// Options that every optimizer has; names and meaning are Keras's, except for
// learning_rate_multipliers, which Keras lacks. The options struct of each class (optimizers.h) has
// these fields too.
struct OptimizerOptions {
  // Decoupled weight decay (Loshchilov and Hutter 2017): variable -= learning rate * weight_decay *
  // variable, before the update.
  std::optional<double> weight_decay = {};
  // Variables whose names ("dense/bias") contain one of these strings are not decayed.
  std::vector<std::string> exclude_from_weight_decay = {};
  // Gradient clipping, at most one of three: by the norm of each gradient, by value, by the global
  // norm of all gradients.
  std::optional<double> clipnorm = {};
  std::optional<double> clipvalue = {};
  std::optional<double> global_clipnorm = {};
  // Exponential moving average (EMA) of the variables, which replaces them when Fit ends, and
  // before that every `ema_overwrite_frequency` updates.
  bool use_ema = false;
  double ema_momentum = 0.99;
  std::optional<int64_t> ema_overwrite_frequency = {};
  // Constant loss scale: the loss is multiplied by it before differentiation and the gradients are
  // divided by it, so that small gradients do not underflow in 16 bits. See also
  // LossScaleOptimizer.
  std::optional<double> loss_scale_factor = {};
  // Gradient accumulation: variables are updated by the mean gradient of this many steps (2 or
  // more).
  std::optional<int64_t> gradient_accumulation_steps = {};
  // Learning rates of groups of variables, for fine-tuning: {{"backbone", 0.1}}. The first pattern
  // that matches a variable applies to it; the others have the optimizer's rate.
  std::vector<LearningRateMultiplier> learning_rate_multipliers = {};

  friend bool operator==(const OptimizerOptions&, const OptimizerOptions&) = default;
};

// A slot variable: state that an optimizer stores between steps.
struct SlotSpec {
  std::string name;  // "momentum"
  ir::TensorType type;
  double initial_value = 0;
  // In files of Keras, the slots of one group alternate from variable to variable, after those of
  // all variables in lower groups.
  int keras_group = 0;
};

// Inputs of an update of all trainable variables.
struct OptimizerStep {
  struct Variable {
    std::string name;             // "dense/kernel"
    std::string constraint = {};  // constraints.h; empty: none
    ir::Value value = {}, gradient = {};
    ir::Values slots = {};  // in the order of Slots()
  };
  std::vector<Variable> variables = {};
  ir::Values shared = {};        // in the order of SharedSlots()
  ir::Value learning_rate = {};  // f32 scalar; invalid: per the schedule
  ir::Value iteration = {};      // i32 scalar, number of finished steps
  ir::Value applies = {};        // bool scalar; false: nothing changes; invalid: true
};
struct OptimizerResult {
  struct Variable {
    ir::Value value;
    ir::Values slots;
  };
  std::vector<Variable> variables;
  ir::Values shared;
};

// Dynamic loss scale of LossScaleOptimizer.
struct LossScaleOptions {
  double initial_scale = 32768;
  int64_t dynamic_growth_steps = 2000;
};

class Optimizer {
 public:
  Optimizer(std::shared_ptr<OptimizerBody> body, Schedule learning_rate, OptimizerOptions options)
      : body_(std::move(body)),
        learning_rate_(std::move(learning_rate)),
        options_(std::move(options)) {}

  absl::string_view class_name() const;
  const Schedule& learning_rate() const { return learning_rate_; }
  const OptimizerOptions& options() const { return options_; }
  // Whether steps with non-finite gradients are expected, and are skipped.
  bool has_loss_scaling() const { return loss_scaling_.has_value(); }

  // Slots of a variable, and slots of the optimizer as a whole ("dynamic_scale").
  std::vector<SlotSpec> Slots(absl::string_view name, const ir::TensorType& variable) const;
  std::vector<SlotSpec> SharedSlots() const;
  // The slots of a variable as Keras's class makes them (SlotSpec::keras_group). One without a name
  // has no counterpart here: Keras does not use its value.
  std::vector<SlotSpec> KerasSlots(absl::string_view name, const ir::TensorType& variable) const;
  // Type in which a variable's update is computed: its own, but float32 for 16-bit floats.
  static ir::TensorType SlotType(const ir::TensorType& variable);
  // Name in Slots() of the moving average that replaces the variable when training ends. Requires
  // use_ema.
  static constexpr char kAverage[] = "average";
  // Names in SharedSlots() with loss scaling: the scale, f32, and the number of steps that were not
  // skipped, i32.
  static constexpr char kDynamicScale[] = "dynamic_scale", kUpdates[] = "updates";

  // Loss scale: factor of the loss before differentiation, an f32 scalar; invalid: none.
  ir::Value LossScale(ir::Graph& graph, const ir::Values& shared) const;
  // One update, in Keras's order: gradients are unscaled, accumulated, clipped; variables are
  // decayed, updated, averaged, constrained. Gradients are those of the scaled loss, of SlotType.
  OptimizerResult Apply(const OptimizerStep& in) const;
  // The error of an invalid option, if any.
  absl::Status Check() const;
  // An error if a pattern in learning_rate_multipliers matches none of these variables.
  absl::Status CheckPatterns(const std::vector<std::string>& variables) const;

  // This optimizer with a dynamic loss scale (LossScaleOptimizer).
  Optimizer WithLossScaling(const LossScaleOptions& options) const;

  // Keras's JSON.
  nlohmann::ordered_json ToJson() const;
  static absl::StatusOr<Optimizer> FromJson(const nlohmann::ordered_json& json);
  // The optimizer with default options, by name: "sgd", "adam".
  static absl::StatusOr<Optimizer> FromName(absl::string_view name);

 private:
  OptimizerResult ApplyUnscaled(const OptimizerStep& in) const;
  OptimizerResult ApplyWithLossScaling(const OptimizerStep& in) const;
  bool Decays(absl::string_view name) const;
  // Factor of the learning rate of a variable.
  double RateFactor(absl::string_view name) const;
  void OptionFields(class Config& config);

  std::shared_ptr<OptimizerBody> body_;
  Schedule learning_rate_;
  OptimizerOptions options_;
  std::optional<LossScaleOptions> loss_scaling_;
};

// Names of all optimizers, "SGD" first.
std::vector<std::string> OptimizerNames();

}  // namespace penstock::nn
