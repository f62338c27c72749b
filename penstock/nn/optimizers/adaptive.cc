// RMSprop, Adagrad, Adadelta, Adafactor, Ftrl.
#include <cmath>

#include "absl/strings/str_cat.h"

#include "penstock/nn/optimizers.h"
#include "penstock/nn/optimizers/optimizer_body.h"

namespace penstock::nn {
namespace {

using ir::Value;

// Moving average in these optimizers' papers: old * rho + sample * (1 - rho).
Value Mixed(Value old, Value sample, double rho) { return old * rho + sample * (1 - rho); }

struct RMSpropBody : BodyWith<RMSpropOptions> {
  using BodyWith::BodyWith;
  absl::string_view class_name() const override { return "RMSprop"; }
  std::vector<SlotSpec> Slots(absl::string_view, const ir::TensorType& variable) const override {
    std::vector<std::string> names{"velocity"};
    if (options.momentum > 0) names.emplace_back("momentum");
    if (options.centered) names.emplace_back("average_gradient");
    std::vector<SlotSpec> slots = SlotsLike(variable, names);
    for (size_t i = 0; i < slots.size(); ++i) slots[i].keras_group = static_cast<int>(i);
    return slots;
  }
  UpdatedVariable Apply(const VariableUpdate& in) const override {
    const Value velocity = Mixed(in.slots[0], ir::Square(in.gradient), options.rho);
    ir::Values slots{velocity};
    Value spread = velocity, average;
    if (options.centered) {
      average = Mixed(in.slots.back(), in.gradient, options.rho);
      spread = velocity - ir::Square(average);
    }
    Value move = in.learning_rate * in.gradient / ir::Sqrt(spread + options.epsilon);
    if (options.momentum > 0) {
      move = in.slots[1] * options.momentum + move;
      slots.push_back(move);
    }
    if (options.centered) slots.push_back(average);
    return {in.variable - move, slots};
  }
  void Fields(Config& config) override {
    config("rho", options.rho)("momentum", options.momentum)("epsilon", options.epsilon)(
        "centered", options.centered);
  }
  absl::Status Check() const override {
    PENSTOCK_RETURN_IF_ERROR(CheckWithin(*this, "momentum", options.momentum, 0, 1));
    return CheckWithin(*this, "rho", options.rho, 0, 1);
  }
};

struct AdagradBody : BodyWith<AdagradOptions> {
  using BodyWith::BodyWith;
  absl::string_view class_name() const override { return "Adagrad"; }
  std::vector<SlotSpec> Slots(absl::string_view, const ir::TensorType& variable) const override {
    return {{"accumulator", variable, options.initial_accumulator_value}};
  }
  UpdatedVariable Apply(const VariableUpdate& in) const override {
    const Value accumulator = in.slots[0] + ir::Square(in.gradient);
    const Value move = in.learning_rate * in.gradient / ir::Sqrt(accumulator + options.epsilon);
    return {in.variable - move, {accumulator}};
  }
  void Fields(Config& config) override {
    config("initial_accumulator_value", options.initial_accumulator_value)("epsilon",
                                                                           options.epsilon);
  }
};

struct AdadeltaBody : BodyWith<AdadeltaOptions> {
  using BodyWith::BodyWith;
  absl::string_view class_name() const override { return "Adadelta"; }
  std::vector<SlotSpec> Slots(absl::string_view, const ir::TensorType& variable) const override {
    return SlotsLike(variable, {"accumulated_grad", "accumulated_delta_var"});
  }
  UpdatedVariable Apply(const VariableUpdate& in) const override {
    const auto root = [this](Value x) { return ir::Sqrt(x + options.epsilon); };
    const Value squares = Mixed(in.slots[0], ir::Square(in.gradient), options.rho);
    const Value delta = -(root(in.slots[1]) * in.gradient / root(squares));
    const Value deltas = Mixed(in.slots[1], ir::Square(delta), options.rho);
    return {in.variable + in.learning_rate * delta, {squares, deltas}};
  }
  void Fields(Config& config) override { config("rho", options.rho)("epsilon", options.epsilon); }
  absl::Status Check() const override { return CheckWithin(*this, "rho", options.rho, 0, 1); }
};

Value RootMeanSquare(Value x) { return ir::Sqrt(ir::ReduceMean(ir::Square(x))); }

struct AdafactorBody : BodyWith<AdafactorOptions> {
  using BodyWith::BodyWith;
  absl::string_view class_name() const override { return "Adafactor"; }
  // Slots of a variable with two axes or more: means of squares over the last axis, and over the
  // one before.
  std::vector<SlotSpec> Slots(absl::string_view, const ir::TensorType& variable) const override {
    const int rank = variable.shape.rank();
    if (rank < 2) return SlotsLike(variable, {"velocity"});
    std::vector<int64_t> rows(variable.shape.begin(), variable.shape.end()), columns = rows;
    rows.erase(rows.begin() + rank - 1);
    columns.erase(columns.begin() + rank - 2);
    return {{"r", {variable.dtype, base::Shape(rows)}},
            {"c", {variable.dtype, base::Shape(columns)}}};
  }
  // Keras has all three of every variable.
  std::vector<SlotSpec> KerasSlots(absl::string_view name,
                                   const ir::TensorType& variable) const override {
    std::vector<SlotSpec> slots = Slots(name, variable);
    if (variable.shape.rank() < 2) {
      slots.insert(slots.begin(), 2, {"", {base::DType::kF32, {}}});
    } else {
      slots.push_back({"", variable});
    }
    return slots;
  }
  UpdatedVariable Apply(const VariableUpdate& in) const override {
    const Value one = ir::SplatLike(in.step, 1);
    const Value rho = ir::Minimum(in.learning_rate, 1.0 / ir::Sqrt(in.step));
    const Value size = RootMeanSquare(in.variable);
    const Value rate = ir::Maximum(ir::SplatLike(size, options.epsilon_2), size) * rho;
    const Value squares = ir::Square(in.gradient) + options.epsilon_1;
    const Value old =
        1.0 -
        ir::Power(in.step,
                  ir::SplatLike(in.step, options.beta_2_decay));  // weight of the moving average
    const auto mixed = [&](Value slot, Value sample) { return slot * old + sample * (1.0 - old); };
    ir::Values slots;
    Value velocity;
    if (in.variable.rank() < 2) {
      velocity = mixed(in.slots[0], squares);
      slots = {velocity};
    } else {
      const Value r = mixed(in.slots[0], ir::ReduceMean(squares, {-1}));
      const Value c = mixed(in.slots[1], ir::ReduceMean(squares, {-2}));
      velocity = ir::ExpandDims(r / ir::ReduceMean(r, {-1}, /*keep_dims=*/true), -1) *
                 ir::ExpandDims(c, -2);
      slots = {r, c};
    }
    const Value update = in.gradient / ir::Sqrt(velocity);
    const Value clipped =
        update / ir::Maximum(one, RootMeanSquare(update) / options.clip_threshold);
    return {in.variable - rate * clipped, slots};
  }
  void Fields(Config& config) override {
    config("beta_2_decay", options.beta_2_decay)("epsilon_1", options.epsilon_1)(
        "epsilon_2", options.epsilon_2)("clip_threshold", options.clip_threshold)(
        "relative_step", options.relative_step);
  }
};

struct FtrlBody : BodyWith<FtrlOptions> {
  using BodyWith::BodyWith;
  absl::string_view class_name() const override { return "Ftrl"; }
  std::vector<SlotSpec> Slots(absl::string_view, const ir::TensorType& variable) const override {
    return {{"accumulator", variable, options.initial_accumulator_value}, {"linear", variable, 0}};
  }
  UpdatedVariable Apply(const VariableUpdate& in) const override {
    const Value rate = in.learning_rate;
    const Value l2 = options.beta / (rate * 2.0) + options.l2_regularization_strength;
    const Value gradient =
        in.gradient + in.variable * (2 * options.l2_shrinkage_regularization_strength);
    const Value squares = in.slots[0] + ir::Square(in.gradient);
    const auto power = [&](Value x) {
      return ir::Power(x, ir::SplatLike(x, -options.learning_rate_power));
    };
    const Value linear =
        in.slots[1] + (gradient - (power(squares) - power(in.slots[0])) / rate * in.variable);
    const Value quadratic = power(squares) / rate + l2 * 2.0;
    const double l1 = options.l1_regularization_strength;
    const Value near = ir::Clamp(ir::SplatLike(linear, -l1), linear, ir::SplatLike(linear, l1));
    return {(near - linear) / quadratic, {squares, linear}};
  }
  void Fields(Config& config) override {
    config("learning_rate_power", options.learning_rate_power)("initial_accumulator_value",
                                                               options.initial_accumulator_value)(
        "l1_regularization_strength", options.l1_regularization_strength)(
        "l2_regularization_strength", options.l2_regularization_strength)(
        "l2_shrinkage_regularization_strength", options.l2_shrinkage_regularization_strength)(
        "beta", options.beta);
  }
  absl::Status Check() const override {
    const std::pair<const char*, double> positive[] = {
        {"initial_accumulator_value", options.initial_accumulator_value},
        {"l1_regularization_strength", options.l1_regularization_strength},
        {"l2_regularization_strength", options.l2_regularization_strength},
        {"l2_shrinkage_regularization_strength", options.l2_shrinkage_regularization_strength}};
    for (const auto& [option, value] : positive) {
      PENSTOCK_RETURN_IF_ERROR(CheckBelow(*this, option, value, 0, HUGE_VAL));
    }
    if (options.learning_rate_power <= 0) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "Ftrl's learning_rate_power must be 0 or below, got ", options.learning_rate_power));
  }
};

}  // namespace

Optimizer RMSprop(const RMSpropOptions& options) { return MakeOptimizer<RMSpropBody>(options); }
Optimizer Adagrad(const AdagradOptions& options) { return MakeOptimizer<AdagradBody>(options); }
Optimizer Adadelta(const AdadeltaOptions& options) { return MakeOptimizer<AdadeltaBody>(options); }
Optimizer Adafactor(const AdafactorOptions& options) {
  return MakeOptimizer<AdafactorBody>(options);
}
Optimizer Ftrl(const FtrlOptions& options) { return MakeOptimizer<FtrlBody>(options); }

}  // namespace penstock::nn
