// Optimizers, schedules, regularizers and constraints.
#include "penstock/nn/optimizer.h"

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/ir/gradients.h"
#include "penstock/nn/constraints.h"
#include "penstock/nn/named_call.h"
#include "penstock/nn/regularizers.h"
#include "penstock/nn/schedules.h"

#include "tests/parity/kinds.h"

namespace penstock::tests {
namespace {

using ir::Value;
using ir::Values;

Values InitialSlots(ir::Graph& graph, const std::vector<nn::SlotSpec>& slots) {
  Values values;
  for (const nn::SlotSpec& slot : slots)
    values.push_back(ir::Splat(graph, slot.type, slot.initial_value));
  return values;
}

// The initial variables of a row, with their slots.
absl::StatusOr<nn::OptimizerStep> FirstStep(const Row& row, const nn::Optimizer& optimizer,
                                            RowBuilder& builder) {
  PENSTOCK_ASSIGN_OR_RETURN(const base::DType dtype,
                            base::DTypeFromName(row.spec["dtype"].get<std::string>()));
  nn::OptimizerStep step{.shared = InitialSlots(builder.graph(), optimizer.SharedSlots())};
  for (size_t i = 0; i < row.spec["variables"].size(); ++i) {
    const auto& spec = row.spec["variables"][i];
    nn::OptimizerStep::Variable variable{
        .name = spec["name"],
        .value = ir::Convert(builder.Input(row.Get(absl::StrCat("start/", i))), dtype)};
    if (!spec["constraint"].is_null()) {
      PENSTOCK_ASSIGN_OR_RETURN(variable.constraint, nn::NamedCallFromJson(spec["constraint"]));
    }
    variable.slots =
        InitialSlots(builder.graph(), optimizer.Slots(variable.name, variable.value.type()));
    step.variables.push_back(std::move(variable));
  }
  return step;
}

}  // namespace

absl::Status BuildOptimizer(const Row& row, RowBuilder& builder) {
  PENSTOCK_ASSIGN_OR_RETURN(const nn::Optimizer optimizer,
                            nn::Optimizer::FromJson(row.spec["optimizer"]));
  PENSTOCK_RETURN_IF_ERROR(optimizer.Check());
  PENSTOCK_ASSIGN_OR_RETURN(nn::OptimizerStep step, FirstStep(row, optimizer, builder));
  for (int t = 0; row.Has(absl::StrCat("gradient/", t, "/0")); ++t) {
    step.iteration = ir::Splat(builder.graph(), {base::DType::kI32, {}}, t);
    for (size_t i = 0; i < step.variables.size(); ++i) {
      step.variables[i].gradient = builder.Input(row.Get(absl::StrCat("gradient/", t, "/", i)));
    }
    const nn::OptimizerResult result = optimizer.Apply(step);
    PENSTOCK_RETURN_IF_ERROR(builder.graph().status());
    for (size_t i = 0; i < step.variables.size(); ++i) {
      step.variables[i].value = result.variables[i].value;
      step.variables[i].slots = result.variables[i].slots;
      builder.Expect(absl::StrCat("variable ", i, " after step ", t),
                     ir::Convert(result.variables[i].value, base::DType::kF32),
                     row.Get(absl::StrCat("value/", t, "/", i)));
    }
    step.shared = result.shared;
    const std::string scale = absl::StrCat("scale/", t);
    if (row.Has(scale)) {
      builder.Expect(absl::StrCat("loss scale after step ", t),
                     optimizer.LossScale(builder.graph(), step.shared), row.Get(scale));
    }
  }
  return absl::OkStatus();
}

absl::Status BuildSchedule(const Row& row, RowBuilder& builder) {
  PENSTOCK_ASSIGN_OR_RETURN(const nn::Schedule schedule,
                            nn::Schedule::FromJson(row.spec["schedule"]));
  PENSTOCK_RETURN_IF_ERROR(schedule.Check());
  const Value steps = builder.Input(row.Get("steps"));
  Values rates;
  for (int64_t i = 0; i < steps.shape().dim(0); ++i) {
    const Value step = ir::Reshape(ir::SliceAxis(steps, 0, i, i + 1), {});
    rates.push_back(ir::Reshape(schedule.At(step), {1}));
  }
  PENSTOCK_RETURN_IF_ERROR(builder.graph().status());
  builder.Expect("rates", ir::Concatenate(rates, 0), row.Get("rates"));
  return absl::OkStatus();
}

absl::Status BuildRegularizer(const Row& row, RowBuilder& builder) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string regularizer,
                            nn::NamedCallFromJson(row.spec["regularizer"]));
  const Value x = builder.Input(row.Get("x"));
  const Value penalty = nn::Regularize(regularizer, x);
  PENSTOCK_RETURN_IF_ERROR(builder.graph().status());
  builder.Expect("penalty", penalty, row.Get("output"));
  builder.Expect("gradient", ir::Gradients(penalty, {x})[0], row.Get("gradient"));
  return absl::OkStatus();
}

absl::Status BuildConstraint(const Row& row, RowBuilder& builder) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string constraint,
                            nn::NamedCallFromJson(row.spec["constraint"]));
  const Value w = builder.Input(row.Get("x"));
  const Value result = nn::Constrain(constraint, w);
  PENSTOCK_RETURN_IF_ERROR(builder.graph().status());
  builder.Expect("weight", result, row.Get("output"));
  const Value cotangent = builder.Input(row.Get("cotangent"));
  builder.Expect("gradient", ir::Gradients(result, {w}, cotangent)[0], row.Get("gradient"));
  return absl::OkStatus();
}

}  // namespace penstock::tests
