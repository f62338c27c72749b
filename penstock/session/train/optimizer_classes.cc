// The optimizers of TensorFlow 1. Formulas that room nn lacks are here: those of Momentum and
// RMSProp (tensorflow/core/kernels/training_ops.cc).
#include "penstock/nn/optimizers.h"
#include "penstock/nn/optimizers/optimizer_body.h"
#include "penstock/session/train/optimizer.h"

namespace penstock::session::train {
namespace {

struct MomentumFormula : ::penstock::nn::OptimizerBody {
  MomentumFormula(double m, bool n) : momentum(m), use_nesterov(n) {}
  absl::string_view class_name() const override { return "Momentum"; }
  std::vector<::penstock::nn::SlotSpec> Slots(absl::string_view,
                                              const ir::TensorType& variable) const override {
    return ::penstock::nn::SlotsLike(variable, {"momentum"});
  }
  ::penstock::nn::UpdatedVariable Apply(const ::penstock::nn::VariableUpdate& in) const override {
    const ir::Value accumulation = in.slots[0] * momentum + in.gradient;
    const ir::Value direction = use_nesterov ? in.gradient + accumulation * momentum : accumulation;
    return {in.variable - in.learning_rate * direction, {accumulation}};
  }
  void Fields(::penstock::nn::Config&) override {}
  const double momentum;
  const bool use_nesterov;
};

struct RMSPropFormula : ::penstock::nn::OptimizerBody {
  RMSPropFormula(double d, double m, double e, bool c)
      : decay(d), momentum(m), epsilon(e), centered(c) {}
  absl::string_view class_name() const override { return "RMSProp"; }
  std::vector<::penstock::nn::SlotSpec> Slots(absl::string_view,
                                              const ir::TensorType& variable) const override {
    std::vector<::penstock::nn::SlotSpec> slots{{"rms", variable, 1}};
    if (centered) slots.push_back({"mg", variable});
    slots.push_back({"momentum", variable});
    return slots;
  }
  ::penstock::nn::UpdatedVariable Apply(const ::penstock::nn::VariableUpdate& in) const override {
    const ir::Value rms = ::penstock::nn::Averaged(in.slots[0], ir::Square(in.gradient), decay);
    ir::Values slots{rms};
    ir::Value spread = rms;
    if (centered) {
      slots.push_back(::penstock::nn::Averaged(in.slots[1], in.gradient, decay));
      spread = rms - ir::Square(slots[1]);
    }
    const ir::Value move =
        in.slots.back() * momentum + in.learning_rate * in.gradient / ir::Sqrt(spread + epsilon);
    slots.push_back(move);
    return {in.variable - move, slots};
  }
  void Fields(::penstock::nn::Config&) override {}
  const double decay, momentum, epsilon;
  const bool centered;
};

// The rate of an optimizer without a tensor as its rate.
double Number(const LearningRate& rate) { return rate.is_tensor() ? 0 : rate.number(); }

}  // namespace

GradientDescentOptimizer::GradientDescentOptimizer(const LearningRate& learning_rate,
                                                   absl::string_view name)
    : Optimizer(::penstock::nn::SGD({.learning_rate = Number(learning_rate)}), learning_rate, name,
                {.counts_updates = false}) {}

MomentumOptimizer::MomentumOptimizer(const LearningRate& learning_rate, double momentum,
                                     absl::string_view name, bool use_nesterov)
    : Optimizer(::penstock::nn::Optimizer(std::make_shared<MomentumFormula>(momentum, use_nesterov),
                                          Number(learning_rate), {}),
                learning_rate, name, {.slot_names = {"momentum"}, .counts_updates = false}) {}

AdamOptimizer::AdamOptimizer(const LearningRate& learning_rate, double beta1, double beta2,
                             double epsilon, absl::string_view name)
    : Optimizer(
          ::penstock::nn::Adam({.learning_rate = Number(learning_rate),
                                .beta_1 = beta1,
                                .beta_2 = beta2,
                                .epsilon = epsilon}),
          learning_rate, name,
          {.slot_names = {"m", "v"}, .has_beta_powers = true, .beta1 = beta1, .beta2 = beta2}) {}

AdagradOptimizer::AdagradOptimizer(const LearningRate& learning_rate,
                                   double initial_accumulator_value, absl::string_view name)
    : Optimizer(::penstock::nn::Adagrad({.learning_rate = Number(learning_rate),
                                         .initial_accumulator_value = initial_accumulator_value,
                                         .epsilon = 0}),
                learning_rate, name, {.slot_names = {"accumulator"}, .counts_updates = false}) {}

RMSPropOptimizer::RMSPropOptimizer(const LearningRate& learning_rate, double decay, double momentum,
                                   double epsilon, bool centered, absl::string_view name)
    : Optimizer(::penstock::nn::Optimizer(
                    std::make_shared<RMSPropFormula>(decay, momentum, epsilon, centered),
                    Number(learning_rate), {}),
                learning_rate, name,
                {.slot_names = centered ? std::vector<std::string>{"rms", "mg", "momentum"}
                                        : std::vector<std::string>{"rms", "momentum"},
                 .counts_updates = false}) {}

AdadeltaOptimizer::AdadeltaOptimizer(const LearningRate& learning_rate, double rho, double epsilon,
                                     absl::string_view name)
    : Optimizer(::penstock::nn::Adadelta(
                    {.learning_rate = Number(learning_rate), .rho = rho, .epsilon = epsilon}),
                learning_rate, name,
                {.slot_names = {"accum", "accum_update"}, .counts_updates = false}) {}

FtrlOptimizer::FtrlOptimizer(const LearningRate& learning_rate, double learning_rate_power,
                             double initial_accumulator_value, double l1_regularization_strength,
                             double l2_regularization_strength, const FtrlOptions& options)
    : Optimizer(::penstock::nn::Ftrl({.learning_rate = Number(learning_rate),
                                      .learning_rate_power = learning_rate_power,
                                      .initial_accumulator_value = initial_accumulator_value,
                                      .l1_regularization_strength = l1_regularization_strength,
                                      .l2_regularization_strength = l2_regularization_strength,
                                      .l2_shrinkage_regularization_strength =
                                          options.l2_shrinkage_regularization_strength}),
                learning_rate, options.name,
                {.slot_names = {"accum", "linear"},
                 .slot_variables = {options.accum_name, options.linear_name},
                 .counts_updates = false}) {}

}  // namespace penstock::session::train
