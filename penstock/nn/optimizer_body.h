// What one kind of optimizer adds to what all have in common: for the files optimizers_*.cc. To add
// one: its options and function in optimizers.h, its body in the file of its family, a line in
// optimizer_table.cc, rows in tests/parity.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/status.h"
#include "penstock/nn/config.h"
#include "penstock/nn/optimizer.h"

namespace penstock::nn {

// One variable's update. All is of Optimizer::SlotType.
struct VariableUpdate {
  absl::string_view name;
  bool decays;  // not excluded from weight decay
  ir::Value variable, gradient;
  ir::Values slots;
  ir::Values shared;        // f32 scalars, as UpdateShared has left them
  ir::Value learning_rate;  // scalar
  ir::Value step;           // scalar, 1 in the first update
};
struct UpdatedVariable {
  ir::Value variable;
  ir::Values slots;
};

class OptimizerBody {
 public:
  virtual ~OptimizerBody() = default;
  virtual absl::string_view class_name() const = 0;
  // `variable` is of 32 bits and more.
  virtual std::vector<SlotSpec> Slots(absl::string_view name,
                                      const ir::TensorType& variable) const = 0;
  virtual UpdatedVariable Apply(const VariableUpdate& in) const = 0;
  // What is kept once and not for each variable, f32 scalars, and how a step (f32, 1 in the first)
  // changes it before the variables' updates.
  virtual std::vector<SlotSpec> SharedSlots() const { return {}; }
  virtual ir::Values UpdateShared(const ir::Values& shared, ir::Value /*step*/) const {
    return shared;
  }
  // The weight decay of a variable, when the options say `weight_decay`.
  virtual std::optional<double> WeightDecay(absl::string_view /*name*/,
                                            const ir::TensorType& /*variable*/,
                                            std::optional<double> weight_decay) const {
    return weight_decay;
  }
  virtual void Fields(Config& config) = 0;
  virtual absl::Status Check() const { return absl::OkStatus(); }
};

// A body that has its options.
template <typename Options>
class BodyWith : public OptimizerBody {
 public:
  explicit BodyWith(Options o) : options(std::move(o)) {}
  Options options;
};

template <typename Body, typename Options>
Optimizer MakeOptimizer(const Options& options, const OptimizerOptions& common) {
  return Optimizer(std::make_shared<Body>(options), options.learning_rate, common);
}

// Slots of these names, zero at first and like the variable.
std::vector<SlotSpec> SlotsLike(const ir::TensorType& variable,
                                const std::vector<std::string>& names);

// old + (sample - old) * (1 - decay): a moving average.
ir::Value Averaged(ir::Value old, ir::Value sample, double decay);
// number^exponent, of exponent's type.
ir::Value PowerOf(double number, ir::Value exponent);

// An error unless low <= value <= high (or < high).
absl::Status CheckWithin(const OptimizerBody& body, const char* option, double value, double low,
                         double high);
absl::Status CheckBelow(const OptimizerBody& body, const char* option, double value, double low,
                        double high);

}  // namespace penstock::nn
