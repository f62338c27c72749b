// Sorting along an axis.
#include <limits>

#include "absl/strings/str_cat.h"

#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/printer.h"

namespace penstock::ir {
namespace {

// Operands: values of one shape. The first is compared, the same permutation is applied to the
// others. Stable. NaNs come last, as in NumPy.

InferResult InferSort(const Node& node) {
  const Shape& shape = node.operands[0].shape();
  std::vector<TensorType> types;
  for (const Value& operand : node.operands) {
    if (!(operand.shape() == shape) || !base::IsNumeric(operand.dtype())) {
      return OpError(node, absl::StrCat("expects numbers of one shape, got ", TypesOf(node)));
    }
    types.push_back(operand.type());
  }
  return types;
}

// Prints whether %a comes before %b: a < b, or only b is a NaN.
void PrintComparator(Printer& printer, const Node& node) {
  std::vector<std::string> parameters;
  std::string a, b;
  for (const Value& operand : node.operands) {
    const std::string type = MlirType({operand.dtype(), {}});
    const std::string first = printer.FreshName(), second = printer.FreshName();
    parameters.push_back(absl::StrCat(first, ": ", type, ", ", second, ": ", type));
    if (a.empty()) {
      a = first;
      b = second;
    }
  }
  // Descending: b < a, or only a is a NaN.
  if (node.attributes.Get<bool>("descending")) std::swap(a, b);
  const DType dtype = node.operands[0].dtype();
  const std::string type = MlirType({dtype, {}});
  const char* kind = base::IsFloat(dtype) ? "FLOAT" : base::IsSigned(dtype) ? "SIGNED" : "UNSIGNED";
  const auto compare = [&](const char* direction, const std::string& x, const std::string& y) {
    std::string name = printer.FreshName();
    printer.PlainLine(absl::StrCat(name, " = stablehlo.compare ", direction, ", ", x, ", ", y, ", ",
                                   kind, " : (", type, ", ", type, ") -> tensor<i1>"));
    return name;
  };
  const auto combine = [&](const char* operation, const std::string& x, const std::string& y) {
    std::string name = printer.FreshName();
    printer.PlainLine(absl::StrCat(name, " = ", operation, " ", x, ", ", y, " : tensor<i1>"));
    return name;
  };
  printer.Indent(1);
  std::string header;
  for (const std::string& parameter : parameters) {
    absl::StrAppend(&header, header.empty() ? "" : ", ", parameter);
  }
  printer.PlainLine(absl::StrCat("^bb0(", header, "):"));
  std::string before = compare("LT", a, b);
  if (base::IsFloat(dtype)) {
    const std::string a_is_number = compare("EQ", a, a), b_is_nan = compare("NE", b, b);
    before = combine("stablehlo.or", before, combine("stablehlo.and", a_is_number, b_is_nan));
  }
  printer.PlainLine(absl::StrCat("stablehlo.return ", before, " : tensor<i1>"));
  printer.Indent(-1);
}

void PrintSort(Printer& printer, const Node& node) {
  printer.OpenLine(node, absl::StrCat("\"stablehlo.sort\"(", printer.Names(node.operands), ") ({"));
  PrintComparator(printer, node);
  printer.CloseLine(absl::StrCat("}) {dimension = ", node.attributes.Get<int64_t>("axis"),
                                 " : i64, is_stable = true} : ", FunctionType(node)));
}

Values EmitSort(const Values& xs, const Attributes& attributes);

// The permutation is found by sorting indices once more.
Values SortGradient(const GradientArgs& g) {
  const int64_t axis = g.node.attributes.Get<int64_t>("axis");
  const Value key = g.operand(0);
  const Value place = Iota(*key.graph(), {DType::kI32, key.shape()}, axis);
  const Value from = EmitSort({key, place}, g.node.attributes)[1];
  Values out(g.node.operands.size());
  for (size_t i = 0; i < out.size(); ++i) {
    if (g.cotangents[i].valid()) out[i] = PutAlongAxis(g.operand(i), from, g.cotangents[i], axis);
  }
  return out;
}

const OpDef kSort = {.name = "stablehlo.sort",
                     .infer = InferSort,
                     .gradient = SortGradient,
                     .print = PrintSort,
                     .expensive = true};

Values EmitSort(const Values& xs, const Attributes& attributes) {
  for (const Value& x : xs) {
    if (!x.valid()) return Values(xs.size());
  }
  const Values out = xs[0].graph()->Emit(kSort, xs, attributes);
  return out.empty() ? Values(xs.size()) : out;
}

// Indices are i32.
bool CheckExtent(Value x, int64_t axis, absl::string_view what) {
  const int64_t extent = x.shape().dim(static_cast<int>(axis));
  if (extent <= std::numeric_limits<int32_t>::max()) return true;
  x.graph()->Fail(absl::InvalidArgumentError(
      absl::StrCat(what, ": axis ", axis, " of ", x.type().ToString(), " is too long")));
  return false;
}

}  // namespace

Values Sort(const Values& xs, int64_t axis, bool descending) {
  if (xs.empty()) return {};
  if (!xs[0].valid() || !NormalizeAxis(xs[0], axis, "sort") || !CheckExtent(xs[0], axis, "sort")) {
    return Values(xs.size());
  }
  return EmitSort(xs, {{"axis", axis}, {"descending", descending}});
}

Value Sort(Value x, int64_t axis, bool descending) { return Sort(Values{x}, axis, descending)[0]; }

Value ArgSort(Value x, int64_t axis, bool descending) {
  if (!x.valid() || !NormalizeAxis(x, axis, "argsort")) return Value();
  const Value place = Iota(*x.graph(), {DType::kI32, x.shape()}, axis);
  return Sort({StopGradient(x), place}, axis, descending)[1];
}

TopKResult TopK(Value x, int64_t k, int64_t axis) {
  if (!x.valid() || !NormalizeAxis(x, axis, "top_k")) return {};
  const int64_t extent = x.shape().dim(static_cast<int>(axis));
  if (k < 0 || k > extent) {
    x.graph()->Fail(absl::InvalidArgumentError(absl::StrCat(
        "top_k: there are no ", k, " elements along axis ", axis, " of ", x.type().ToString())));
    return {};
  }
  const Value order = ArgSort(x, axis, /*descending=*/true);
  if (!order.valid()) return {};
  const Value indices = SliceAxis(order, axis, 0, k);
  // Taken by index instead of from the sorted values: the gradient need not sort again.
  const Value values = extent == 0 ? x : TakeAlongAxis(x, indices, axis);
  return {values, indices};
}

OpList SortingOps() {
  static constexpr const OpDef* kOps[] = {&kSort};
  return kOps;
}

}  // namespace penstock::ir
