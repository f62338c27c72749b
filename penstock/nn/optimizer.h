// What an optimizer is, and what every optimizer can do; the catalogue of them is optimizers.h.
//
//   Optimizer optimizer = Adam({.learning_rate = 1e-3}, {.weight_decay = 0.01, .clipnorm = 1});
//
// An optimizer is a description. What it keeps between steps (slots) lives with whoever trains:
// some arrays for each variable, a few numbers for the optimizer as a whole. Variables of 16 bits
// have slots of 32, and their steps are reckoned in 32: sums that grow by little are lost in fewer.
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

// The options that every optimizer takes, as its second argument; names and meaning are Keras's.
struct OptimizerOptions {
  // Decoupled (Loshchilov and Hutter 2017): variable -= learning rate * weight_decay * variable,
  // before the step.
  std::optional<double> weight_decay = {};
  // Variables in whose names ("dense/bias") one of these appears do not decay.
  std::vector<std::string> exclude_from_weight_decay = {};
  // At most one of these three: each gradient's norm, each of its elements, the norm of all
  // together.
  std::optional<double> clipnorm = {};
  std::optional<double> clipvalue = {};
  std::optional<double> global_clipnorm = {};
  // A moving average of the variables, which replaces them when Fit ends, and before that every
  // `ema_overwrite_frequency` updates.
  bool use_ema = false;
  double ema_momentum = 0.99;
  std::optional<int64_t> ema_overwrite_frequency = {};
  // The loss is multiplied by it before it is differentiated and the gradients are divided by it,
  // so that small ones do not vanish in 16 bits. See also LossScaleOptimizer.
  std::optional<double> loss_scale_factor = {};
  // Gradients are gathered, and variables updated by their mean, every so many steps (2 or more).
  std::optional<int64_t> gradient_accumulation_steps = {};
};

// What an optimizer keeps between steps.
struct SlotSpec {
  std::string name;  // "momentum"
  ir::TensorType type;
  double initial_value = 0;
};

// A step of all trained variables.
struct OptimizerStep {
  struct Variable {
    std::string name;             // "dense/kernel"
    std::string constraint = {};  // constraints.h; empty: none
    ir::Value value = {}, gradient = {};
    ir::Values slots = {};  // in the order of Slots()
  };
  std::vector<Variable> variables = {};
  ir::Values shared = {};        // in the order of SharedSlots()
  ir::Value learning_rate = {};  // f32 scalar; invalid: what the schedule says
  ir::Value iteration = {};      // i32 scalar, finished steps
  ir::Value applies = {};        // bool scalar: if false, all stays as it is; invalid: true
};
struct OptimizerResult {
  struct Variable {
    ir::Value value;
    ir::Values slots;
  };
  std::vector<Variable> variables;
  ir::Values shared;
};

// The scale of LossScaleOptimizer.
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
  // Whether steps with gradients that are not finite are skipped, being expected.
  bool has_loss_scaling() const { return loss_scaling_.has_value(); }

  // What is kept for a variable, and for the optimizer as a whole ("dynamic_scale").
  std::vector<SlotSpec> Slots(absl::string_view name, const ir::TensorType& variable) const;
  std::vector<SlotSpec> SharedSlots() const;
  // The type in which a variable's step is reckoned: its own, but float32 for floats of 16 bits.
  static ir::TensorType SlotType(const ir::TensorType& variable);
  // Of Slots(): the average that takes the variable's place when training ends. Needs use_ema.
  static constexpr char kAverage[] = "average";
  // Names in SharedSlots() with loss scaling: the scale, f32, and the number of steps not skipped,
  // i32.
  static constexpr char kDynamicScale[] = "dynamic_scale", kUpdates[] = "updates";

  // What the loss is multiplied by before it is differentiated, an f32 scalar; invalid: nothing.
  ir::Value LossScale(ir::Graph& graph, const ir::Values& shared) const;
  // One step, in Keras's order: the gradients are unscaled, gathered, clipped; variables decay, are
  // updated, averaged, constrained. Gradients are those of the scaled loss, of SlotType.
  OptimizerResult Apply(const OptimizerStep& in) const;
  // What is wrong with the options, if anything.
  absl::Status Check() const;

  // This one with a dynamic loss scale (LossScaleOptimizer).
  Optimizer WithLossScaling(const LossScaleOptions& options) const;

  // As Keras writes it.
  nlohmann::ordered_json ToJson() const;
  static absl::StatusOr<Optimizer> FromJson(const nlohmann::ordered_json& json);
  // With default options: "sgd", "adam".
  static absl::StatusOr<Optimizer> FromName(absl::string_view name);

 private:
  OptimizerResult ApplyUnscaled(const OptimizerStep& in) const;
  OptimizerResult ApplyWithLossScaling(const OptimizerStep& in) const;
  bool Decays(absl::string_view name) const;
  void OptionFields(class Config& config);

  std::shared_ptr<OptimizerBody> body_;
  Schedule learning_rate_;
  OptimizerOptions options_;
  std::optional<LossScaleOptions> loss_scaling_;
};

// The names there are, "SGD" first.
std::vector<std::string> OptimizerNames();

}  // namespace penstock::nn
