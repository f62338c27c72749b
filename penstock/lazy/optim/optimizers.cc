#include "penstock/lazy/optim/optimizers.h"

#include <cmath>

namespace penstock::lazy::optim {
namespace {

using ir::Value;

// Options of the Adam family.
template <typename O>
Options AdamLike(const O& o) {
  return {{"lr", o.lr},   {"beta1", o.betas.first},         {"beta2", o.betas.second},
          {"eps", o.eps}, {"weight_decay", o.weight_decay}, {"maximize", 0}};
}

template <typename O>
Options WithMaximize(Options options, const O& o) {
  options["maximize"] = o.maximize;
  return options;
}

Options With(Options options, const char* name, double value) {
  options[name] = value;
  return options;
}

}  // namespace

// ---- SGD ----

SGD::SGD(const ParamGroups& groups, const SGDOptions& o)
    : Optimizer("SGD", groups,
                {{"lr", o.lr},
                 {"momentum", o.momentum},
                 {"dampening", o.dampening},
                 {"weight_decay", o.weight_decay},
                 {"nesterov", o.nesterov},
                 {"maximize", o.maximize}}) {
  Require(o.momentum >= 0, "momentum must not be negative");
  Require(!o.nesterov || (o.momentum > 0 && o.dampening == 0),
          "nesterov requires a momentum and zero dampening");
}

std::vector<std::string> SGD::Slots(const Options& options) const {
  if (options.at("momentum") == 0) return {};
  return {"momentum_buffer"};
}

// The first update is not damped.
bool SGD::UsesStep(const Options& options) const {
  return options.at("momentum") != 0 && options.at("dampening") != 0;
}

Optimizer::Updated SGD::Apply(const Update& in) const {
  const Value d = in.DecayedGradient();
  if (in.slots.empty()) return {in.param - in.Get("lr") * d, {}};
  Value buffer = in.slots[0] * in.Get("momentum");
  if (in.Number("dampening") == 0) {
    buffer = buffer + d;
  } else {
    const Value first = ir::LessEqual(in.step, ir::SplatLike(in.step, 1));
    buffer = ir::Select(first, d, buffer + d * in.OneMinus("dampening"));
  }
  const Value move = in.Flag("nesterov") ? d + buffer * in.Get("momentum") : buffer;
  return {in.param - in.Get("lr") * move, {buffer}};
}

// ---- Adam and AdamW ----

namespace {

std::vector<std::string> AdamSlots(const Options& options) {
  if (options.at("amsgrad") != 0) return {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
  return {"exp_avg", "exp_avg_sq"};
}

}  // namespace

Adam::Adam(const ParamGroups& groups, const AdamOptions& o)
    : Optimizer("Adam", groups, With(WithMaximize(AdamLike(o), o), "amsgrad", o.amsgrad)) {}
std::vector<std::string> Adam::Slots(const Options& options) const { return AdamSlots(options); }

AdamW::AdamW(const ParamGroups& groups, const AdamWOptions& o)
    : Optimizer("AdamW", groups, With(WithMaximize(AdamLike(o), o), "amsgrad", o.amsgrad)) {}
std::vector<std::string> AdamW::Slots(const Options& options) const { return AdamSlots(options); }

namespace {

struct AdamStep {
  Value param;
  ir::Values slots;
};
// The update of `param` with gradient `g`; Get and its kin are those of Optimizer::Update.
template <typename In>
AdamStep AdamUpdate(const In& in, Value param, Value g) {
  const Value m = in.slots[0] * in.Get("beta1") + g * in.OneMinus("beta1");
  const Value v = in.slots[1] * in.Get("beta2") + g * g * in.OneMinus("beta2");
  const Value rate = in.Get("lr") / in.BiasCorrection("beta1");
  const Value correction = ir::Sqrt(in.BiasCorrection("beta2"));
  ir::Values slots{m, v};
  Value largest = v;
  if (in.Flag("amsgrad")) {
    largest = ir::Maximum(in.slots[2], v);
    slots.push_back(largest);
  }
  const Value denominator = ir::Sqrt(largest) / correction + in.Number("eps");
  return {param - rate * (m / denominator), slots};
}

}  // namespace

Optimizer::Updated Adam::Apply(const Update& in) const {
  AdamStep step = AdamUpdate(in, in.param, in.DecayedGradient());
  return {step.param, step.slots};
}

Optimizer::Updated AdamW::Apply(const Update& in) const {
  Value param = in.param;
  if (in.Number("weight_decay") != 0) {
    param = param * (1.0 - in.Get("lr") * in.Get("weight_decay"));
  }
  AdamStep step = AdamUpdate(in, param, in.Gradient());
  return {step.param, step.slots};
}

// ---- Adamax, NAdam, RAdam ----

Adamax::Adamax(const ParamGroups& groups, const AdamaxOptions& o)
    : Optimizer("Adamax", groups, WithMaximize(AdamLike(o), o)) {}
std::vector<std::string> Adamax::Slots(const Options&) const { return {"exp_avg", "exp_inf"}; }

Optimizer::Updated Adamax::Apply(const Update& in) const {
  const Value g = in.DecayedGradient();
  const Value m = in.slots[0] * in.Get("beta1") + g * in.OneMinus("beta1");
  const Value largest = ir::Maximum(in.slots[1] * in.Get("beta2"), ir::Abs(g) + in.Number("eps"));
  const Value rate = in.Get("lr") / in.BiasCorrection("beta1");
  return {in.param - rate * (m / largest), {m, largest}};
}

NAdam::NAdam(const ParamGroups& groups, const NAdamOptions& o)
    : Optimizer("NAdam", groups, With(AdamLike(o), "momentum_decay", o.momentum_decay)) {}
std::vector<std::string> NAdam::Slots(const Options&) const {
  return {"exp_avg", "exp_avg_sq", "mu_product"};
}

// Dozat: Incorporating Nesterov momentum into Adam, 2016.
Optimizer::Updated NAdam::Apply(const Update& in) const {
  const Value g = in.DecayedGradient();
  const auto momentum = [&](Value step) {
    const Value decay = ir::Exp(step * (in.Number("momentum_decay") * std::log(0.96)));
    return in.Get("beta1") * (1.0 - 0.5 * in.Scalar(decay));
  };
  const Value mu = momentum(in.step), next = momentum(in.step + 1.0);
  const Value product = in.slots[2] * mu;
  const Value m = in.slots[0] * in.Get("beta1") + g * in.OneMinus("beta1");
  const Value v = in.slots[1] * in.Get("beta2") + g * g * in.OneMinus("beta2");
  const Value denominator = ir::Sqrt(v / in.BiasCorrection("beta2")) + in.Number("eps");
  const Value lr = in.Get("lr");
  const Value now = in.param - lr * ((1.0 - mu) / (1.0 - product)) * (g / denominator);
  return {now - lr * (next / (1.0 - product * next)) * (m / denominator), {m, v, product}};
}

RAdam::RAdam(const ParamGroups& groups, const RAdamOptions& o)
    : Optimizer("RAdam", groups, AdamLike(o)) {}
std::vector<std::string> RAdam::Slots(const Options&) const { return {"exp_avg", "exp_avg_sq"}; }

// Liu et al.: On the variance of the adaptive learning rate and beyond, 2019.
Optimizer::Updated RAdam::Apply(const Update& in) const {
  const Value g = in.DecayedGradient();
  const Value m = in.slots[0] * in.Get("beta1") + g * in.OneMinus("beta1");
  const Value v = in.slots[1] * in.Get("beta2") + g * g * in.OneMinus("beta2");
  const double beta2 = in.Number("beta2"), rho = 2 / (1 - beta2) - 1;
  const Value correction = in.BiasCorrection("beta2");
  const Value step = in.Scalar(in.step);
  const Value rho_t = rho - 2.0 * step * (1.0 - correction) / correction;
  const Value five = ir::SplatLike(rho_t, 5), rectifies = ir::Greater(rho_t, five);
  const Value safe = ir::Select(rectifies, rho_t, ir::SplatLike(rho_t, 6));
  const Value rectification =
      ir::Sqrt((safe - 4.0) * (safe - 2.0) * rho / ((rho - 4) * (rho - 2) * safe));
  const Value adaptive = ir::Sqrt(correction) / (ir::Sqrt(v) + in.Number("eps"));
  const Value factor = ir::Select(rectifies, adaptive * rectification, ir::SplatLike(adaptive, 1));
  return {in.param - m / in.BiasCorrection("beta1") * in.Get("lr") * factor, {m, v}};
}

// ---- Adagrad, Adadelta, RMSprop ----

Adagrad::Adagrad(const ParamGroups& groups, const AdagradOptions& o)
    : Optimizer("Adagrad", groups,
                {{"lr", o.lr},
                 {"lr_decay", o.lr_decay},
                 {"weight_decay", o.weight_decay},
                 {"initial_accumulator_value", o.initial_accumulator_value},
                 {"eps", o.eps},
                 {"maximize", o.maximize}}) {}
std::vector<std::string> Adagrad::Slots(const Options&) const { return {"sum"}; }
double Adagrad::InitialSlot(const std::string&, const Options& options) const {
  return options.at("initial_accumulator_value");
}
Optimizer::Updated Adagrad::Apply(const Update& in) const {
  const Value g = in.DecayedGradient();
  const Value rate = in.Get("lr") / (1.0 + (in.Scalar(in.step) - 1.0) * in.Number("lr_decay"));
  const Value sum = in.slots[0] + g * g;
  return {in.param - rate * (g / (ir::Sqrt(sum) + in.Number("eps"))), {sum}};
}

Adadelta::Adadelta(const ParamGroups& groups, const AdadeltaOptions& o)
    : Optimizer("Adadelta", groups,
                {{"lr", o.lr},
                 {"rho", o.rho},
                 {"eps", o.eps},
                 {"weight_decay", o.weight_decay},
                 {"maximize", o.maximize}}) {}
std::vector<std::string> Adadelta::Slots(const Options&) const {
  return {"square_avg", "acc_delta"};
}
Optimizer::Updated Adadelta::Apply(const Update& in) const {
  const Value g = in.DecayedGradient();
  const Value square = in.slots[0] * in.Get("rho") + g * g * in.OneMinus("rho");
  const double eps = in.Number("eps");
  const Value delta = ir::Sqrt(in.slots[1] + eps) / ir::Sqrt(square + eps) * g;
  const Value sum = in.slots[1] * in.Get("rho") + delta * delta * in.OneMinus("rho");
  return {in.param - in.Get("lr") * delta, {square, sum}};
}

RMSprop::RMSprop(const ParamGroups& groups, const RMSpropOptions& o)
    : Optimizer("RMSprop", groups,
                {{"lr", o.lr},
                 {"alpha", o.alpha},
                 {"eps", o.eps},
                 {"weight_decay", o.weight_decay},
                 {"momentum", o.momentum},
                 {"centered", o.centered},
                 {"maximize", o.maximize}}) {
  Require(o.momentum >= 0 && o.alpha >= 0, "momentum and alpha must not be negative");
}
std::vector<std::string> RMSprop::Slots(const Options& options) const {
  std::vector<std::string> slots{"square_avg"};
  if (options.at("momentum") > 0) slots.push_back("momentum_buffer");
  if (options.at("centered") != 0) slots.push_back("grad_avg");
  return slots;
}
Optimizer::Updated RMSprop::Apply(const Update& in) const {
  const Value g = in.DecayedGradient();
  const Value square = in.slots[0] * in.Get("alpha") + g * g * in.OneMinus("alpha");
  ir::Values slots{square};
  const bool has_momentum = in.Number("momentum") > 0;
  Value variance = square, average;
  if (in.Flag("centered")) {
    average = in.slots.back() * in.Get("alpha") + g * in.OneMinus("alpha");
    variance = square - average * average;
  }
  Value move = g / (ir::Sqrt(variance) + in.Number("eps"));
  if (has_momentum) {
    move = in.slots[1] * in.Get("momentum") + move;
    slots.push_back(move);
  }
  if (average.valid()) slots.push_back(average);
  return {in.param - in.Get("lr") * move, slots};
}

}  // namespace penstock::lazy::optim
