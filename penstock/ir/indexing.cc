// Elements picked by index.
#include "absl/strings/str_cat.h"

#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/printer.h"

namespace penstock::ir {
namespace {

using Ints = std::vector<int64_t>;

// Operands: x, indices (integers, within range). x's `axis` is replaced by indices' axes.
InferResult InferTake(const Node& node) {
  const TensorType &x = node.operands[0].type(), &indices = node.operands[1].type();
  const int64_t axis = node.attributes.Get<int64_t>("axis");
  if (!base::IsInteger(indices.dtype)) {
    return OpError(node, absl::StrCat("indices are integers, got ", indices.ToString()));
  }
  Ints dims(x.shape.begin(), x.shape.begin() + axis);
  dims.insert(dims.end(), indices.shape.begin(), indices.shape.end());
  dims.insert(dims.end(), x.shape.begin() + axis + 1, x.shape.end());
  if (dims.size() > base::kMaxRank)
    return OpError(node, absl::StrCat("the result has ", dims.size(), " axes"));
  return std::vector<TensorType>{{x.dtype, Shape(dims)}};
}

// The result's axes that come from x: before `axis`, and after the indices.
std::string OffsetDims(const Node& node, int64_t x_rank) {
  const int64_t axis = node.attributes.Get<int64_t>("axis"), index_rank = node.operands[1].rank();
  Ints offsets;
  for (int64_t i = 0; i < axis; ++i) offsets.push_back(i);
  for (int64_t i = axis + 1; i < x_rank; ++i) offsets.push_back(i - 1 + index_rank);
  return MlirList(offsets);
}

void PrintTake(Printer& printer, const Node& node) {
  const int64_t axis = node.attributes.Get<int64_t>("axis");
  Ints sizes(node.operands[0].shape().begin(), node.operands[0].shape().end());
  sizes[axis] = 1;
  printer.Line(node, absl::StrCat("\"stablehlo.gather\"(", printer.Names(node.operands),
                                  ") {dimension_numbers = #stablehlo.gather<offset_dims = ",
                                  OffsetDims(node, node.operands[0].rank()),
                                  ", collapsed_slice_dims = [", axis, "], start_index_map = [",
                                  axis, "], index_vector_dim = ", node.operands[1].rank(),
                                  ">, indices_are_sorted = false, slice_sizes = ", MlirArray(sizes),
                                  "} : ", FunctionType(node)));
}

Value ScatterAdd(Value x, Value indices, Value updates, int64_t axis);
Value TakeInRange(Value x, Value indices, int64_t axis);

const OpDef kGather = {
    .name = "stablehlo.gather",
    .infer = InferTake,
    .gradient = [](const GradientArgs& g) -> Values {
      const int64_t axis = g.node.attributes.Get<int64_t>("axis");
      return {ScatterAdd(SplatLike(g.operand(0), 0), g.operand(1), g.cotangent(), axis), Value()};
    },
    .print = PrintTake};

// Operands: x, indices, updates of the type that Take(x, indices) has. Adds each update to its
// place in x.
InferResult InferScatterAdd(const Node& node) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<TensorType> wanted, InferTake(node));
  if (!(node.operands[2].type() == wanted[0])) {
    return OpError(node, absl::StrCat("updates are ", wanted[0].ToString(), ", got ",
                                      node.operands[2].type().ToString()));
  }
  return std::vector<TensorType>{node.operands[0].type()};
}

void PrintScatterAdd(Printer& printer, const Node& node) {
  const int64_t axis = node.attributes.Get<int64_t>("axis");
  printer.OpenLine(node,
                   absl::StrCat("\"stablehlo.scatter\"(", printer.Names(node.operands), ") ({"));
  printer.ReducerRegion("stablehlo.add", node.results[0].dtype);
  printer.CloseLine(absl::StrCat(
      "}) {indices_are_sorted = false, scatter_dimension_numbers = ",
      "#stablehlo.scatter<update_window_dims = ", OffsetDims(node, node.operands[0].rank()),
      ", inserted_window_dims = [", axis, "], scatter_dims_to_operand_dims = [", axis,
      "], index_vector_dim = ", node.operands[1].rank(),
      ">, unique_indices = false} : ", FunctionType(node)));
}

const OpDef kScatterAdd = {
    .name = "stablehlo.scatter",
    .infer = InferScatterAdd,
    .gradient = [](const GradientArgs& g) -> Values {
      const int64_t axis = g.node.attributes.Get<int64_t>("axis");
      return {g.cotangent(), Value(), TakeInRange(g.cotangent(), g.operand(1), axis)};
    },
    .print = PrintScatterAdd,
    .adds_to_first = true};

// Operands: x, update, then one integer scalar for each axis.
const OpDef kAddToSlice = {
    .name = "penstock.add_to_slice",
    .infer = InferByDecomposing,
    .gradient = [](const GradientArgs& g) -> Values {
      const Values begin(g.node.operands.begin() + 2, g.node.operands.end());
      const Shape& sizes = g.operand(1).shape();
      Values out(g.node.operands.size());
      out[0] = g.cotangent();
      out[1] = DynamicSlice(g.cotangent(), begin, Ints(sizes.begin(), sizes.end()));
      return out;
    },
    .decompose = [](Graph&, const Node&, const Values& in) -> Values {
      const Values begin(in.begin() + 2, in.end());
      const Shape& sizes = in[1].shape();
      if (IsZeros(in[0])) return {DynamicUpdateSlice(in[0], in[1], begin)};
      const Value before = DynamicSlice(in[0], begin, Ints(sizes.begin(), sizes.end()));
      return {DynamicUpdateSlice(in[0], before + in[1], begin)};
    },
    .adds_to_first = true};

Value ScatterAdd(Value x, Value indices, Value updates, int64_t axis) {
  return EmitOne(kScatterAdd, {x, indices, updates}, {{"axis", axis}});
}

Value TakeInRange(Value x, Value indices, int64_t axis) {
  return EmitOne(kGather, {x, indices}, {{"axis", axis}});
}

}  // namespace

Value Take(Value x, Value indices, int64_t axis) {
  if (!x.valid() || !indices.valid() || !NormalizeAxis(x, axis, "take")) return Value();
  const int64_t extent = x.shape().dim(static_cast<int>(axis));
  if (extent == 0 || !base::IsInteger(indices.dtype())) {
    x.graph()->Fail(absl::InvalidArgumentError(
        absl::StrCat("take: wants elements along axis ", axis, " and integer indices, got ",
                     x.type().ToString(), " and ", indices.type().ToString())));
    return Value();
  }
  // Out of range, gather would clamp and its gradient would drop; clamped first, both agree. A type
  // too narrow to hold the last index cannot go beyond it.
  Value inside = Maximum(indices, SplatLike(indices, 0));
  const int bits = base::BitWidth(indices.dtype()) - (base::IsSigned(indices.dtype()) ? 1 : 0);
  if (bits >= 63 || extent - 1 <= (int64_t{1} << bits) - 1) {
    inside = Minimum(inside, SplatLike(indices, static_cast<double>(extent - 1)));
  }
  return TakeInRange(x, inside, axis);
}

Value AddToSlice(Value x, Value update, const Values& begin) {
  Values operands{x, update};
  operands.insert(operands.end(), begin.begin(), begin.end());
  return EmitOne(kAddToSlice, std::move(operands));
}

Value OneHot(Value indices, int64_t depth, DType dtype) {
  if (!indices.valid()) return Value();
  if (!base::IsInteger(indices.dtype()) || indices.rank() == base::kMaxRank || depth < 0) {
    indices.graph()->Fail(absl::InvalidArgumentError(absl::StrCat(
        "one_hot: wants integers of less than ", base::kMaxRank,
        " axes and a depth of at least 0, got ", indices.type().ToString(), " and depth ", depth)));
    return Value();
  }
  std::vector<int64_t> dims(indices.shape().begin(), indices.shape().end());
  dims.push_back(depth);
  // Compared as 32-bit numbers or wider, so that a depth above 127 works with int8 indices.
  const DType wide = base::BitWidth(indices.dtype()) < 32 ? DType::kI32 : indices.dtype();
  const Value place =
      Iota(*indices.graph(), {wide, Shape(dims)}, static_cast<int64_t>(dims.size()) - 1);
  return Convert(Equal(ExpandDims(Convert(indices, wide), indices.rank()), place), dtype);
}

OpList IndexingOps() {
  static constexpr const OpDef* kOps[] = {&kGather, &kScatterAdd, &kAddToSlice};
  return kOps;
}

}  // namespace penstock::ir
