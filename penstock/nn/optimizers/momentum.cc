// SGD, Lion, LARS.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/nn/optimizers.h"
#include "penstock/nn/optimizers/optimizer_body.h"

namespace penstock::nn {
namespace {

using ir::Value;

// Applies SGD's update; `move` is the learning rate times the gradient.
UpdatedVariable Move(Value variable, Value move, const ir::Values& slots, double momentum,
                     bool nesterov) {
  if (slots.empty()) return {variable - move, {}};
  const Value velocity = slots[0] * momentum - move;
  if (!nesterov) return {variable + velocity, {velocity}};
  return {variable + (velocity * momentum - move), {velocity}};
}

std::vector<SlotSpec> MomentumSlot(const ir::TensorType& variable, double momentum) {
  if (momentum == 0) return {};
  return SlotsLike(variable, {"momentum"});
}

struct SGDBody : BodyWith<SGDOptions> {
  using BodyWith::BodyWith;
  absl::string_view class_name() const override { return "SGD"; }
  std::vector<SlotSpec> Slots(absl::string_view, const ir::TensorType& variable) const override {
    return MomentumSlot(variable, options.momentum);
  }
  UpdatedVariable Apply(const VariableUpdate& in) const override {
    return Move(in.variable, in.learning_rate * in.gradient, in.slots, options.momentum,
                options.nesterov);
  }
  void Fields(Config& config) override {
    config("momentum", options.momentum)("nesterov", options.nesterov);
  }
  absl::Status Check() const override {
    return CheckWithin(*this, "momentum", options.momentum, 0, 1);
  }
};

struct LionBody : BodyWith<LionOptions> {
  using BodyWith::BodyWith;
  absl::string_view class_name() const override { return "Lion"; }
  std::vector<SlotSpec> Slots(absl::string_view, const ir::TensorType& variable) const override {
    return SlotsLike(variable, {"momentum"});
  }
  UpdatedVariable Apply(const VariableUpdate& in) const override {
    const auto mix = [&](double beta) { return in.slots[0] * beta + in.gradient * (1 - beta); };
    return {in.variable - in.learning_rate * ir::Sign(mix(options.beta_1)), {mix(options.beta_2)}};
  }
  void Fields(Config& config) override {
    config("beta_1", options.beta_1)("beta_2", options.beta_2);
  }
  absl::Status Check() const override {
    if (options.beta_1 > 0 && options.beta_1 <= 1) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("Lion's beta_1 must be within (0, 1], got ", options.beta_1));
  }
};

Value Norm(Value x) { return ir::Sqrt(ir::ReduceSum(ir::Square(x))); }

struct LARSBody : BodyWith<LARSOptions> {
  using BodyWith::BodyWith;
  absl::string_view class_name() const override { return "LARS"; }
  std::vector<SlotSpec> Slots(absl::string_view, const ir::TensorType& variable) const override {
    return MomentumSlot(variable, options.momentum);
  }
  bool Adapts(absl::string_view name) const {
    for (const std::string& part : options.exclude_from_layer_adaptation) {
      if (absl::StrContains(name, part)) return false;
    }
    return true;
  }
  UpdatedVariable Apply(const VariableUpdate& in) const override {
    const double decay = in.decays ? options.weight_decay_rate : 0;
    const Value gradient = decay == 0 ? in.gradient : in.gradient + in.variable * decay;
    Value rate = in.learning_rate;
    if (Adapts(in.name)) {
      const Value w = Norm(in.variable), g = Norm(in.gradient);
      const Value ratio = w * options.eeta / (g + w * decay + options.epsilon);
      const Value zero = ir::SplatLike(w, 0);
      const Value both = ir::And(ir::Greater(w, zero), ir::Greater(g, zero));
      rate = rate * ir::Select(both, ratio, ir::SplatLike(ratio, 1));
    }
    return Move(in.variable, rate * gradient, in.slots, options.momentum, options.nesterov);
  }
  void Fields(Config& config) override {
    config("momentum", options.momentum)("weight_decay_rate", options.weight_decay_rate)(
        "eeta", options.eeta)("epsilon", options.epsilon)("nesterov", options.nesterov)(
        "exclude_from_layer_adaptation", options.exclude_from_layer_adaptation);
  }
  absl::Status Check() const override {
    return CheckWithin(*this, "momentum", options.momentum, 0, 1);
  }
};

}  // namespace

Optimizer SGD(const SGDOptions& options) { return MakeOptimizer<SGDBody>(options); }
Optimizer Lion(const LionOptions& options) { return MakeOptimizer<LionBody>(options); }
Optimizer LARS(const LARSOptions& options) { return MakeOptimizer<LARSBody>(options); }

}  // namespace penstock::nn
