// OptimizerBody: the update rule of one optimizer class. To add an optimizer: its options and
// function in optimizers.h, its body in the file of its family, a row in optimizer_table.cc, rows
// in tests/parity. Internal to room nn.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/status.h"
#include "penstock/nn/config.h"
#include "penstock/nn/optimizer.h"

namespace penstock::nn {

// Inputs of the update of one variable. All values have type Optimizer::SlotType.
struct VariableUpdate {
  absl::string_view name;
  bool decays;  // not excluded from weight decay
  ir::Value variable, gradient;
  ir::Values slots;
  ir::Values shared;        // f32 scalars, results of UpdateShared
  ir::Value learning_rate;  // scalar
  ir::Value step;           // scalar, 1 in the first update
};
struct UpdatedVariable {
  ir::Value variable;
  ir::Values slots;
};

// An optimizer class: its options, its slots and its update rule.
class OptimizerBody {
 public:
  virtual ~OptimizerBody() = default;
  virtual absl::string_view class_name() const = 0;
  // Slots of a variable, which has at least 32 bits.
  virtual std::vector<SlotSpec> Slots(absl::string_view name,
                                      const ir::TensorType& variable) const = 0;
  // Optimizer::KerasSlots without those of the options that every optimizer has.
  virtual std::vector<SlotSpec> KerasSlots(absl::string_view name,
                                           const ir::TensorType& variable) const {
    return Slots(name, variable);
  }
  virtual UpdatedVariable Apply(const VariableUpdate& in) const = 0;
  // Slots of the optimizer as a whole, f32 scalars, and their values after a step (f32, 1 in the
  // first), which are computed before the variables' updates.
  virtual std::vector<SlotSpec> SharedSlots() const { return {}; }
  virtual ir::Values UpdateShared(const ir::Values& shared, ir::Value /*step*/) const {
    return shared;
  }
  // Weight decay of a variable, given the option `weight_decay`.
  virtual std::optional<double> WeightDecay(absl::string_view /*name*/,
                                            const ir::TensorType& /*variable*/,
                                            std::optional<double> weight_decay) const {
    return weight_decay;
  }
  virtual void Fields(Config& config) = 0;
  virtual absl::Status Check() const { return absl::OkStatus(); }
};

// A body with options.
template <typename Options>
class BodyWith : public OptimizerBody {
 public:
  explicit BodyWith(Options o) : options(std::move(o)) {}
  Options options;
};

// The options that every optimizer has, copied from those of one class.
template <typename Options>
OptimizerOptions SharedOptions(const Options& o) {
  return {.weight_decay = o.weight_decay,
          .exclude_from_weight_decay = o.exclude_from_weight_decay,
          .clipnorm = o.clipnorm,
          .clipvalue = o.clipvalue,
          .global_clipnorm = o.global_clipnorm,
          .use_ema = o.use_ema,
          .ema_momentum = o.ema_momentum,
          .ema_overwrite_frequency = o.ema_overwrite_frequency,
          .loss_scale_factor = o.loss_scale_factor,
          .gradient_accumulation_steps = o.gradient_accumulation_steps,
          .learning_rate_multipliers = o.learning_rate_multipliers};
}

// Makes an optimizer. The body uses only the optimizer's own options; the learning rate and the
// shared options belong to the Optimizer, which reads them from JSON.
template <typename Body, typename Options>
Optimizer MakeOptimizer(const Options& options) {
  return Optimizer(std::make_shared<Body>(options), options.learning_rate, SharedOptions(options));
}

// Slots with these names, the type of the variable, and initial value zero.
std::vector<SlotSpec> SlotsLike(const ir::TensorType& variable,
                                const std::vector<std::string>& names);

// Exponential moving average: old + (sample - old) * (1 - decay).
ir::Value Averaged(ir::Value old, ir::Value sample, double decay);
// number^exponent, of exponent's type.
ir::Value PowerOf(double number, ir::Value exponent);

// An error unless low <= value <= high (or < high).
absl::Status CheckWithin(const OptimizerBody& body, const char* option, double value, double low,
                         double high);
absl::Status CheckBelow(const OptimizerBody& body, const char* option, double value, double low,
                        double high);

}  // namespace penstock::nn
