#include "penstock/nn/regularizers.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/status.h"
#include "penstock/nn/named_call.h"
#include "penstock/nn/names.h"

namespace penstock::nn {
namespace {

using ir::Value;

Value L1L2(double l1, double l2, Value x) {
  Value penalty = ir::Splat(*x.graph(), {x.dtype(), {}}, 0);
  if (l1 != 0) penalty = penalty + ir::ReduceSum(ir::Abs(x)) * l1;
  if (l2 != 0) penalty = penalty + ir::ReduceSum(ir::Square(x)) * l2;
  return penalty;
}

// Rows of x scaled to length 1, or shorter for those below 1e-7.
Value UnitRows(Value x) {
  const Value length_squared = ir::ReduceSum(ir::Square(x), {1}, /*keep_dims=*/true);
  const Value inverse = ir::Rsqrt(length_squared);
  return x * ir::Minimum(inverse, ir::SplatLike(inverse, 1e7));
}

Value Orthogonal(double factor, absl::string_view mode, Value x) {
  const Value unit = UnitRows(mode == "rows" ? x : ir::Transpose(x, {1, 0}));
  if (!unit.valid()) return Value();
  const int64_t size = unit.shape().dim(0);
  const Value cosines =
      ir::DotGeneral(unit, unit, {.lhs_contracting = {1}, .rhs_contracting = {1}});
  const ir::TensorType places{base::DType::kI32, {size, size}};
  ir::Graph& graph = *x.graph();
  const Value diagonal = ir::Equal(ir::Iota(graph, places, 0), ir::Iota(graph, places, 1));
  const Value between = ir::Select(diagonal, ir::SplatLike(cosines, 0), cosines);
  const double pairs = static_cast<double>(size) * (static_cast<double>(size) - 1) / 2;
  return ir::ReduceSum(ir::Abs(between)) * (factor * 0.5) / pairs;
}

absl::Status NotNegative(const NamedCall& call, double number) {
  if (number >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(call.name, " takes non-negative numbers, got ", number));
}

absl::StatusOr<Value> ApplyL1(const NamedCall& call, Value x) {
  double l1 = 0.01;
  PENSTOCK_RETURN_IF_ERROR(CallArguments(call)("l1", l1).Finish());
  PENSTOCK_RETURN_IF_ERROR(NotNegative(call, l1));
  return L1L2(l1, 0, x);
}

absl::StatusOr<Value> ApplyL2(const NamedCall& call, Value x) {
  double l2 = 0.01;
  PENSTOCK_RETURN_IF_ERROR(CallArguments(call)("l2", l2).Finish());
  PENSTOCK_RETURN_IF_ERROR(NotNegative(call, l2));
  return L1L2(0, l2, x);
}

absl::StatusOr<Value> ApplyL1L2(const NamedCall& call, Value x) {
  double l1 = 0, l2 = 0;
  PENSTOCK_RETURN_IF_ERROR(CallArguments(call)("l1", l1)("l2", l2).Finish());
  PENSTOCK_RETURN_IF_ERROR(NotNegative(call, l1));
  PENSTOCK_RETURN_IF_ERROR(NotNegative(call, l2));
  return L1L2(l1, l2, x);
}

absl::StatusOr<Value> ApplyOrthogonal(const NamedCall& call, Value x) {
  double factor = 0.01;
  std::string mode = "rows";
  PENSTOCK_RETURN_IF_ERROR(CallArguments(call)("factor", factor)("mode", mode).Finish());
  PENSTOCK_RETURN_IF_ERROR(NotNegative(call, factor));
  if (mode != "rows" && mode != "columns") {
    return absl::InvalidArgumentError(
        absl::StrCat(call.name, "'s mode must be rows or columns, got '", mode, "'"));
  }
  if (x.rank() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(call.name, " takes a matrix, got ", x.type().ToString()));
  }
  return Orthogonal(factor, mode, x);
}

struct RegularizerRow {
  const char* name;
  absl::StatusOr<Value> (*apply)(const NamedCall& call, Value x);
};

constexpr RegularizerRow kRegularizers[] = {
    {"l1", ApplyL1},
    {"l2", ApplyL2},
    {"l1_l2", ApplyL1L2},
    {"orthogonal_regularizer", ApplyOrthogonal},
};

absl::StatusOr<Value> ApplyRegularizer(absl::string_view regularizer, Value x) {
  PENSTOCK_ASSIGN_OR_RETURN(const NamedCall call, ParseNamedCall(regularizer));
  const bool wide = x.dtype() == base::DType::kF64;
  for (const RegularizerRow& row : kRegularizers) {
    if (SameName(call.name, row.name)) {
      return row.apply(call, wide ? x : ir::Convert(x, base::DType::kF32));
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown regularizer '", call.name,
                   "'; available: ", absl::StrJoin(RegularizerNames(), ", ")));
}

}  // namespace

Value Regularize(absl::string_view regularizer, Value x) {
  if (!x.valid()) return Value();
  const absl::StatusOr<Value> penalty = ApplyRegularizer(regularizer, x);
  if (penalty.ok()) return *penalty;
  x.graph()->Fail(base::WithContext(penalty.status(), "regularizer"));
  return Value();
}

std::vector<std::string> RegularizerNames() {
  std::vector<std::string> names;
  for (const RegularizerRow& row : kRegularizers) names.emplace_back(row.name);
  return names;
}

}  // namespace penstock::nn
