// Adam and its variants.
#include "penstock/nn/optimizers.h"
#include "penstock/nn/optimizers/optimizer_body.h"

namespace penstock::nn {
namespace {

using ir::Value;

absl::Status CheckBetas(const OptimizerBody& body, double beta_1, double beta_2) {
  PENSTOCK_RETURN_IF_ERROR(CheckBelow(body, "beta_1", beta_1, 0, 1));
  return CheckBelow(body, "beta_2", beta_2, 0, 1);
}

// Bias correction: 1 - beta^step, the total weight in a moving average that started at zero.
Value Seen(double beta, Value step) { return 1.0 - PowerOf(beta, step); }

struct AdamBody : BodyWith<AdamOptions> {
  explicit AdamBody(const AdamOptions& o, const char* class_name = "Adam")
      : BodyWith(o), class_name_(class_name) {}
  absl::string_view class_name() const override { return class_name_; }
  std::vector<SlotSpec> Slots(absl::string_view, const ir::TensorType& variable) const override {
    std::vector<SlotSpec> slots = SlotsLike(variable, {"momentum", "velocity"});
    if (options.amsgrad) {
      slots.push_back({.name = "velocity_hat", .type = variable, .keras_group = 1});
    }
    return slots;
  }
  UpdatedVariable Apply(const VariableUpdate& in) const override {
    const Value rate =
        in.learning_rate * ir::Sqrt(Seen(options.beta_2, in.step)) / Seen(options.beta_1, in.step);
    const Value m = Averaged(in.slots[0], in.gradient, options.beta_1);
    const Value v = Averaged(in.slots[1], ir::Square(in.gradient), options.beta_2);
    ir::Values slots{m, v};
    if (options.amsgrad) slots.push_back(ir::Maximum(in.slots[2], v));
    return {in.variable - rate * m / (ir::Sqrt(slots.back()) + options.epsilon), slots};
  }
  void Fields(Config& config) override {
    config("beta_1", options.beta_1)("beta_2", options.beta_2)("epsilon", options.epsilon)(
        "amsgrad", options.amsgrad);
  }
  absl::Status Check() const override { return CheckBetas(*this, options.beta_1, options.beta_2); }
  const char* class_name_;
};

struct AdamaxBody : BodyWith<AdamaxOptions> {
  using BodyWith::BodyWith;
  absl::string_view class_name() const override { return "Adamax"; }
  std::vector<SlotSpec> Slots(absl::string_view, const ir::TensorType& variable) const override {
    return SlotsLike(variable, {"momentum", "norm"});
  }
  UpdatedVariable Apply(const VariableUpdate& in) const override {
    const Value m = Averaged(in.slots[0], in.gradient, options.beta_1);
    const Value u = ir::Maximum(in.slots[1] * options.beta_2, ir::Abs(in.gradient));
    const Value move =
        in.learning_rate * m / (Seen(options.beta_1, in.step) * (u + options.epsilon));
    return {in.variable - move, {m, u}};
  }
  void Fields(Config& config) override {
    config("beta_1", options.beta_1)("beta_2", options.beta_2)("epsilon", options.epsilon);
  }
  absl::Status Check() const override { return CheckBetas(*this, options.beta_1, options.beta_2); }
};

struct NadamBody : BodyWith<NadamOptions> {
  using BodyWith::BodyWith;
  absl::string_view class_name() const override { return "Nadam"; }
  std::vector<SlotSpec> Slots(absl::string_view, const ir::TensorType& variable) const override {
    return SlotsLike(variable, {"momentum", "velocity"});
  }
  // Momentum of a step, which increases toward beta_1.
  Value Momentum(Value step) const { return (1.0 - PowerOf(0.96, step) * 0.5) * options.beta_1; }
  // Product of the momenta of all steps so far.
  std::vector<SlotSpec> SharedSlots() const override {
    return {{"u_product", {base::DType::kF32, {}}, 1}};
  }
  ir::Values UpdateShared(const ir::Values& shared, Value step) const override {
    return {shared[0] * Momentum(step)};
  }
  UpdatedVariable Apply(const VariableUpdate& in) const override {
    const Value u = Momentum(in.step), u_next = Momentum(in.step + 1.0);
    const Value product = ir::Convert(in.shared[0], in.variable.dtype());
    const Value m = Averaged(in.slots[0], in.gradient, options.beta_1);
    const Value v = Averaged(in.slots[1], ir::Square(in.gradient), options.beta_2);
    const Value m_hat =
        u_next * m / (1.0 - product * u_next) + (1.0 - u) * in.gradient / (1.0 - product);
    const Value v_hat = v / Seen(options.beta_2, in.step);
    return {in.variable - m_hat * in.learning_rate / (ir::Sqrt(v_hat) + options.epsilon), {m, v}};
  }
  void Fields(Config& config) override {
    config("beta_1", options.beta_1)("beta_2", options.beta_2)("epsilon", options.epsilon);
  }
  absl::Status Check() const override { return CheckBetas(*this, options.beta_1, options.beta_2); }
};

struct LambBody : BodyWith<LambOptions> {
  using BodyWith::BodyWith;
  absl::string_view class_name() const override { return "Lamb"; }
  std::vector<SlotSpec> Slots(absl::string_view, const ir::TensorType& variable) const override {
    return SlotsLike(variable, {"momentum", "velocity"});
  }
  UpdatedVariable Apply(const VariableUpdate& in) const override {
    const Value m = Averaged(in.slots[0], in.gradient, options.beta_1);
    const Value v = Averaged(in.slots[1], ir::Square(in.gradient), options.beta_2);
    const Value update = m / Seen(options.beta_1, in.step) /
                         (ir::Sqrt(v / Seen(options.beta_2, in.step)) + options.epsilon);
    const auto norm = [](Value x) { return ir::Sqrt(ir::ReduceSum(ir::Square(x))); };
    const Value w_norm = norm(in.variable), u_norm = norm(update), zero = ir::SplatLike(w_norm, 0);
    const Value both = ir::And(ir::Greater(w_norm, zero), ir::Greater(u_norm, zero));
    const Value ratio = ir::Select(both, w_norm / u_norm, ir::SplatLike(w_norm, 1));
    return {in.variable - ratio * in.learning_rate * update, {m, v}};
  }
  void Fields(Config& config) override {
    config("beta_1", options.beta_1)("beta_2", options.beta_2)("epsilon", options.epsilon);
  }
  absl::Status Check() const override { return CheckBetas(*this, options.beta_1, options.beta_2); }
};

}  // namespace

Optimizer Adam(const AdamOptions& options) { return MakeOptimizer<AdamBody>(options); }
Optimizer AdamW(const AdamWOptions& options) {
  const AdamOptions adam{.learning_rate = options.learning_rate,
                         .beta_1 = options.beta_1,
                         .beta_2 = options.beta_2,
                         .epsilon = options.epsilon,
                         .amsgrad = options.amsgrad};
  return Optimizer(std::make_shared<AdamBody>(adam, "AdamW"), options.learning_rate,
                   SharedOptions(options));
}
Optimizer Adamax(const AdamaxOptions& options) { return MakeOptimizer<AdamaxBody>(options); }
Optimizer Nadam(const NadamOptions& options) { return MakeOptimizer<NadamBody>(options); }
Optimizer Lamb(const LambOptions& options) { return MakeOptimizer<LambBody>(options); }

}  // namespace penstock::nn
