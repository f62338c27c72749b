#include "penstock/nn/optimizer.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/ir/rewrite.h"
#include "penstock/nn/constraints.h"
#include "penstock/nn/names.h"
#include "penstock/nn/optimizers/optimizer_body.h"

namespace penstock::nn {
namespace {

using base::DType;
using ir::Value;
using ir::Values;

constexpr char kAccumulator[] = "gradient_accumulator";

// State of a variable during its update, all of SlotType.
struct Course {
  Value variable, gradient;
  Values slots;  // slots of the body
  Value average, accumulated;
};

// The shared options' slots follow the body's.
Course Begin(const OptimizerStep::Variable& in, const OptimizerOptions& options) {
  const DType wide = Optimizer::SlotType(in.value.type()).dtype;
  Course course{.variable = ir::Convert(in.value, wide),
                .gradient = ir::Convert(in.gradient, wide),
                .slots = in.slots,
                .average = {},
                .accumulated = {}};
  const auto take = [&] {
    const Value last = course.slots.back();
    course.slots.pop_back();
    return last;
  };
  if (options.gradient_accumulation_steps.has_value()) course.accumulated = take();
  if (options.use_ema) course.average = take();
  return course;
}

// `which` ? yes : no; yes if `which` is invalid.
Value Choose(Value which, Value yes, Value no) {
  return which.valid() ? ir::Select(which, yes, no) : yes;
}

Values Choose(Value which, Values yes, const Values& no) {
  for (size_t i = 0; i < yes.size(); ++i) yes[i] = Choose(which, yes[i], no[i]);
  return yes;
}

Value Both(Value a, Value b) { return !a.valid() ? b : !b.valid() ? a : ir::And(a, b); }

OptimizerResult::Variable End(const Course& course, const Course& before,
                              const OptimizerStep::Variable& in, Value applies) {
  Value value = course.variable;
  if (!in.constraint.empty()) value = Constrain(in.constraint, value);
  OptimizerResult::Variable out{Choose(applies, ir::Convert(value, in.value.dtype()), in.value),
                                course.slots};
  if (course.average.valid()) {
    out.slots.push_back(Choose(applies, course.average, before.average));
  }
  if (course.accumulated.valid()) {
    out.slots.push_back(Choose(applies, course.accumulated, before.accumulated));
  }
  return out;
}

Value SumOfSquares(Value x) { return ir::ReduceSum(ir::Square(x)); }

void ClipByGlobalNorm(std::vector<Course>& courses, double limit) {
  // One reduction of a vector: XLA duplicates a chain of scalars wherever it is used, which is in
  // every update.
  Values squares;
  for (const Course& c : courses) {
    squares.push_back(ir::Reshape(ir::Convert(SumOfSquares(c.gradient), DType::kF32), {1}));
  }
  const Value norm = ir::Sqrt(ir::ReduceSum(ir::Concatenate(squares, 0)));
  // The last term is 0, or NaN if the norm is not finite.
  const Value scale =
      ir::Minimum(1.0 / norm, ir::SplatLike(norm, 1 / limit)) * limit + (norm - norm);
  for (Course& c : courses) c.gradient = c.gradient * ir::Convert(scale, c.gradient.dtype());
}

void Clip(std::vector<Course>& courses, const OptimizerOptions& options) {
  if (courses.empty()) return;
  if (const double limit = options.clipnorm.value_or(0); limit > 0) {
    for (Course& c : courses) {
      const Value norm = ir::Sqrt(SumOfSquares(c.gradient));
      c.gradient = c.gradient * limit / ir::Maximum(norm, ir::SplatLike(norm, limit));
    }
  } else if (const double limit = options.global_clipnorm.value_or(0); limit > 0) {
    ClipByGlobalNorm(courses, limit);
  } else if (const double limit = options.clipvalue.value_or(0); limit > 0) {
    for (Course& c : courses) {
      c.gradient = ir::Clamp(ir::SplatLike(c.gradient, -limit), c.gradient,
                             ir::SplatLike(c.gradient, limit));
    }
  }
}

// `update`: number of earlier updates.
void Average(Course& course, Value update, const OptimizerOptions& options) {
  const Value later = ir::Compare(update, ir::SplatLike(update, 0), ir::Comparison::kNe);
  const Value momentum = ir::Convert(later, course.variable.dtype()) * options.ema_momentum;
  course.average = momentum * course.average + (1.0 - momentum) * course.variable;
  if (!options.ema_overwrite_frequency.has_value()) return;
  const Value every = ir::SplatLike(update, static_cast<double>(*options.ema_overwrite_frequency));
  const Value left = ir::Remainder(update + 1.0, every);
  course.variable =
      ir::Select(ir::Equal(left, ir::SplatLike(left, 0)), course.average, course.variable);
}

// 2^100. A dynamic loss scale stays between its inverse and this value.
constexpr double kGreatestLossScale = 1.267650600228229401496703205376e30;

}  // namespace

absl::string_view Optimizer::class_name() const { return body_->class_name(); }

ir::TensorType Optimizer::SlotType(const ir::TensorType& variable) {
  const bool narrow = base::IsFloat(variable.dtype) && base::ByteWidth(variable.dtype) < 4;
  return {narrow ? DType::kF32 : variable.dtype, variable.shape};
}

std::vector<SlotSpec> Optimizer::Slots(absl::string_view name,
                                       const ir::TensorType& variable) const {
  const ir::TensorType type = SlotType(variable);
  std::vector<SlotSpec> slots = body_->Slots(name, type);
  if (options_.use_ema) slots.push_back({kAverage, type});
  if (options_.gradient_accumulation_steps.has_value()) slots.push_back({kAccumulator, type});
  return slots;
}

std::vector<SlotSpec> Optimizer::KerasSlots(absl::string_view name,
                                            const ir::TensorType& variable) const {
  const ir::TensorType type = SlotType(variable);
  std::vector<SlotSpec> slots = body_->KerasSlots(name, type);
  if (options_.use_ema) slots.push_back({.name = kAverage, .type = type, .keras_group = -2});
  if (options_.gradient_accumulation_steps.has_value()) {
    slots.push_back({.name = kAccumulator, .type = type, .keras_group = -1});
  }
  return slots;
}

// A step skipped by loss scaling does not count for schedules and formulas: `updates` counts the
// others.
std::vector<SlotSpec> Optimizer::SharedSlots() const {
  std::vector<SlotSpec> slots = body_->SharedSlots();
  if (!loss_scaling_.has_value()) return slots;
  slots.push_back({kDynamicScale, {DType::kF32, {}}, loss_scaling_->initial_scale});
  slots.push_back({"step_counter", {DType::kI32, {}}});
  slots.push_back({kUpdates, {DType::kI32, {}}});
  return slots;
}

Value Optimizer::LossScale(ir::Graph& graph, const Values& shared) const {
  if (loss_scaling_.has_value()) return shared[body_->SharedSlots().size()];
  if (!options_.loss_scale_factor.has_value()) return Value();
  return ir::Splat(graph, {DType::kF32, {}}, *options_.loss_scale_factor);
}

bool Optimizer::Decays(absl::string_view name) const {
  const auto& excluded = options_.exclude_from_weight_decay;
  return std::none_of(excluded.begin(), excluded.end(),
                      [&](const std::string& part) { return absl::StrContains(name, part); });
}

double Optimizer::RateFactor(absl::string_view name) const {
  for (const LearningRateMultiplier& group : options_.learning_rate_multipliers) {
    if (MatchesPathOrParent(group.pattern, name)) return group.factor;
  }
  return 1;
}

absl::Status Optimizer::CheckPatterns(const std::vector<std::string>& variables) const {
  for (const LearningRateMultiplier& group : options_.learning_rate_multipliers) {
    const bool matches = std::any_of(
        variables.begin(), variables.end(),
        [&](const std::string& name) { return MatchesPathOrParent(group.pattern, name); });
    if (matches) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        class_name(), "'s learning_rate_multipliers: no variable matches '", group.pattern,
        "'; the most similar are ", SimilarNames(group.pattern, variables)));
  }
  return absl::OkStatus();
}

OptimizerResult Optimizer::Apply(const OptimizerStep& in) const {
  if (loss_scaling_.has_value()) return ApplyWithLossScaling(in);
  if (!options_.loss_scale_factor.has_value()) return ApplyUnscaled(in);
  OptimizerStep step = in;
  for (OptimizerStep::Variable& v : step.variables) {
    v.gradient = v.gradient / *options_.loss_scale_factor;
  }
  return ApplyUnscaled(step);
}

OptimizerResult Optimizer::ApplyWithLossScaling(const OptimizerStep& in) const {
  const size_t own = body_->SharedSlots().size();
  const Value scale = in.shared[own], counter = in.shared[own + 1], updates = in.shared[own + 2];
  OptimizerStep step = in;
  step.shared.resize(own);
  step.iteration = updates;
  Values gradients;
  for (OptimizerStep::Variable& v : step.variables) {
    gradients.push_back(v.gradient);
    v.gradient = v.gradient / ir::Convert(scale, v.gradient.dtype());
  }
  if (gradients.empty()) {
    OptimizerResult result;
    result.shared = in.shared;
    return result;
  }
  const Value finite = ir::AllFinite(gradients);
  step.applies = Both(in.applies, finite);
  OptimizerResult result = ApplyUnscaled(step);
  const Value zero = ir::SplatLike(counter, 0);
  const Value last =
      ir::SplatLike(counter, static_cast<double>(loss_scaling_->dynamic_growth_steps - 1));
  const Value grows = ir::Equal(counter, last);
  // Clamped to remain usable: with a scale of 0 or infinity, every later step would be skipped.
  const Value greatest = ir::SplatLike(scale, kGreatestLossScale),
              smallest = ir::SplatLike(scale, 1 / kGreatestLossScale);
  const Value grown = ir::Minimum(scale * 2.0, greatest),
              shrunk = ir::Maximum(scale * 0.5, smallest);
  const Values next{Choose(finite, Choose(grows, grown, scale), shrunk),
                    Choose(finite, Choose(grows, zero, counter + 1.0), zero),
                    Choose(finite, updates + 1.0, updates)};
  for (const Value& value : Choose(in.applies, next, {scale, counter, updates})) {
    result.shared.push_back(value);
  }
  return result;
}

OptimizerResult Optimizer::ApplyUnscaled(const OptimizerStep& in) const {
  std::vector<Course> courses;
  for (const OptimizerStep::Variable& v : in.variables) {
    if (!v.value.valid() || !v.gradient.valid()) return {};
    courses.push_back(Begin(v, options_));
  }
  Value update = in.iteration;  // number of earlier updates
  Value due;  // whether this step updates (gradient accumulation); invalid: always
  const std::vector<Course> before = courses;
  if (options_.gradient_accumulation_steps.has_value()) {
    const auto steps = static_cast<double>(*options_.gradient_accumulation_steps);
    const Value every = ir::SplatLike(in.iteration, steps);
    update = in.iteration / every;
    const Value left = ir::Remainder(in.iteration + 1.0, every);
    due = ir::Equal(left, ir::SplatLike(left, 0));
    for (Course& c : courses) {
      const Value sum = c.gradient + c.accumulated;
      c.accumulated = ir::Select(due, ir::SplatLike(sum, 0), sum);
      c.gradient = sum / steps;
    }
  }
  const Value changes = Both(in.applies, due);

  Clip(courses, options_);
  // Schedules count steps, formulas count updates.
  const Value rate = in.learning_rate.valid()
                         ? in.learning_rate
                         : learning_rate_.At(ir::Convert(in.iteration, DType::kF32));
  const Value step = ir::Convert(update, DType::kF32) + 1.0;
  Values shared = body_->UpdateShared(in.shared, step);
  for (size_t i = 0; i < courses.size(); ++i) {
    Course& c = courses[i];
    const std::string& name = in.variables[i].name;
    Value own_rate = ir::Convert(rate, c.variable.dtype());
    if (const double factor = RateFactor(name); factor != 1) own_rate = own_rate * factor;
    const bool decays = Decays(name);
    const auto decay = body_->WeightDecay(name, c.variable.type(), options_.weight_decay);
    if (decays && decay.has_value()) c.variable = c.variable - c.variable * *decay * own_rate;
    const UpdatedVariable updated = body_->Apply({.name = name,
                                                  .decays = decays,
                                                  .variable = c.variable,
                                                  .gradient = c.gradient,
                                                  .slots = c.slots,
                                                  .shared = shared,
                                                  .learning_rate = own_rate,
                                                  .step = ir::Convert(step, c.variable.dtype())});
    // The update reads the selected slots, so that nothing needs the old ones anymore and each is
    // updated in place: otherwise XLA copies every slot.
    c.slots = Choose(changes, updated.slots, before[i].slots);
    c.variable =
        Choose(due, ir::Substitute(updated.variable, updated.slots, c.slots), before[i].variable);
  }
  OptimizerResult result;
  result.shared = Choose(changes, shared, in.shared);
  for (size_t i = 0; i < courses.size(); ++i) {
    if (options_.use_ema) Average(courses[i], update, options_);
    result.variables.push_back(End(courses[i], before[i], in.variables[i], in.applies));
  }
  return result;
}

absl::Status Optimizer::Check() const {
  PENSTOCK_RETURN_IF_ERROR(learning_rate_.Check());
  const auto wrong = [this](auto... message) {
    return absl::InvalidArgumentError(absl::StrCat(class_name(), "'s ", message...));
  };
  const OptimizerOptions& o = options_;
  if (o.clipnorm.has_value() + o.clipvalue.has_value() + o.global_clipnorm.has_value() > 1) {
    return wrong(
        "clipnorm, clipvalue and global_clipnorm are mutually exclusive; give one of them");
  }
  if (o.gradient_accumulation_steps.value_or(2) < 2) {
    return wrong("gradient_accumulation_steps must be 2 or more, got ",
                 *o.gradient_accumulation_steps);
  }
  if (!(o.ema_momentum >= 0 && o.ema_momentum <= 1)) {
    return wrong("ema_momentum must be within [0, 1], got ", o.ema_momentum);
  }
  if (o.ema_overwrite_frequency.value_or(1) < 1) {
    return wrong("ema_overwrite_frequency must be 1 or more, got ", *o.ema_overwrite_frequency);
  }
  if (!(o.loss_scale_factor.value_or(1) > 0)) {
    return wrong("loss_scale_factor must be above 0, got ", *o.loss_scale_factor);
  }
  for (const LearningRateMultiplier& group : o.learning_rate_multipliers) {
    if (group.factor > 0 && std::isfinite(group.factor)) continue;
    return wrong("learning_rate_multipliers must be finite and above 0, got ", group.factor,
                 " for '", group.pattern, "'; SetTrainable(false) freezes layers");
  }
  if (loss_scaling_.has_value() &&
      (!(loss_scaling_->initial_scale > 0) || loss_scaling_->dynamic_growth_steps < 1)) {
    return wrong("initial_scale must be above 0 and its dynamic_growth_steps 1 or more, got ",
                 loss_scaling_->initial_scale, " and ", loss_scaling_->dynamic_growth_steps);
  }
  return body_->Check();
}

Optimizer Optimizer::WithLossScaling(const LossScaleOptions& options) const {
  Optimizer scaled = *this;
  scaled.loss_scaling_ = options;
  scaled.options_.loss_scale_factor.reset();
  return scaled;
}

// ---- optimizer_body.h ----

std::vector<SlotSpec> SlotsLike(const ir::TensorType& variable,
                                const std::vector<std::string>& names) {
  std::vector<SlotSpec> slots;
  for (const std::string& name : names) slots.push_back({name, variable});
  return slots;
}

Value Averaged(Value old, Value sample, double decay) { return old + (sample - old) * (1 - decay); }

Value PowerOf(double number, Value exponent) {
  return ir::Power(ir::SplatLike(exponent, number), exponent);
}

absl::Status CheckWithin(const OptimizerBody& body, const char* option, double value, double low,
                         double high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      body.class_name(), "'s ", option, " must be within [", low, ", ", high, "], got ", value));
}

absl::Status CheckBelow(const OptimizerBody& body, const char* option, double value, double low,
                        double high) {
  if (value >= low && value < high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      body.class_name(), "'s ", option, " must be within [", low, ", ", high, "), got ", value));
}

}  // namespace penstock::nn
