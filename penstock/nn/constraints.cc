#include "penstock/nn/constraints.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/status.h"
#include "penstock/nn/labels.h"
#include "penstock/nn/named_call.h"
#include "penstock/nn/names.h"

namespace penstock::nn {
namespace {

using ir::Value;

Value Norms(Value w, const ir::Axes& axes) {
  return ir::Sqrt(ir::ReduceSum(ir::Square(w), axes, /*keep_dims=*/true));
}

Value Clipped(Value x, double low, double high) {
  return ir::Minimum(ir::Maximum(x, ir::SplatLike(x, low)), ir::SplatLike(x, high));
}

absl::StatusOr<Value> MaxNorm(const NamedCall& call, Value w) {
  double max_value = 2;
  ir::Axes axes = {0};
  PENSTOCK_RETURN_IF_ERROR(CallArguments(call)("max_value", max_value)("axis", axes).Finish());
  const Value norms = Norms(w, axes);
  if (!norms.valid()) return Value();
  return w * (Clipped(norms, 0, max_value) / (norms + kEpsilon));
}

absl::StatusOr<Value> NonNeg(const NamedCall& call, Value w) {
  PENSTOCK_RETURN_IF_ERROR(CallArguments(call).Finish());
  return ir::Maximum(w, ir::SplatLike(w, 0));
}

absl::StatusOr<Value> UnitNorm(const NamedCall& call, Value w) {
  ir::Axes axes = {0};
  PENSTOCK_RETURN_IF_ERROR(CallArguments(call)("axis", axes).Finish());
  return w / (Norms(w, axes) + kEpsilon);
}

absl::StatusOr<Value> MinMaxNorm(const NamedCall& call, Value w) {
  double min_value = 0, max_value = 1, rate = 1;
  ir::Axes axes = {0};
  PENSTOCK_RETURN_IF_ERROR(CallArguments(call)("min_value", min_value)("max_value", max_value)(
                               "rate", rate)("axis", axes)
                               .Finish());
  const Value norms = Norms(w, axes);
  if (!norms.valid()) return Value();
  const Value desired = Clipped(norms, min_value, max_value) * rate + norms * (1 - rate);
  return w * (desired / (norms + kEpsilon));
}

struct ConstraintRow {
  const char* name;
  absl::StatusOr<Value> (*apply)(const NamedCall& call, Value w);
};

constexpr ConstraintRow kConstraints[] = {
    {"max_norm", MaxNorm},
    {"non_neg", NonNeg},
    {"unit_norm", UnitNorm},
    {"min_max_norm", MinMaxNorm},
};

absl::StatusOr<Value> ApplyConstraint(absl::string_view constraint, Value w) {
  PENSTOCK_ASSIGN_OR_RETURN(const NamedCall call, ParseNamedCall(constraint));
  const bool narrow = base::IsFloat(w.dtype()) && base::ByteWidth(w.dtype()) < 4;
  for (const ConstraintRow& row : kConstraints) {
    if (SameName(call.name, row.name)) {
      PENSTOCK_ASSIGN_OR_RETURN(const Value result,
                                row.apply(call, narrow ? ir::Convert(w, base::DType::kF32) : w));
      return ir::Convert(result, w.dtype());
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown constraint '", call.name, "'; available: ", absl::StrJoin(ConstraintNames(), ", ")));
}

}  // namespace

Value Constrain(absl::string_view constraint, Value w) {
  if (!w.valid()) return Value();
  const absl::StatusOr<Value> constrained = ApplyConstraint(constraint, w);
  if (constrained.ok()) return *constrained;
  w.graph()->Fail(base::WithContext(constrained.status(), "constraint"));
  return Value();
}

std::vector<std::string> ConstraintNames() {
  std::vector<std::string> names;
  for (const ConstraintRow& row : kConstraints) names.emplace_back(row.name);
  return names;
}

}  // namespace penstock::nn
