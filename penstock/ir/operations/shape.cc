// Constants, and operations that move elements without computing.
#include <algorithm>
#include <limits>
#include <numeric>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"

#include "penstock/ir/dynamic_forms.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/printer.h"
#include "penstock/ir/region.h"

namespace penstock::ir {
namespace {

using G = const GradientArgs&;
using Ints = std::vector<int64_t>;

const Ints& IntsOf(const Node& node, absl::string_view name) {
  return node.attributes.Get<Ints>(name);
}

// ---- Constants ----

const OpDef kConstant = {
    .name = "stablehlo.constant",
    .infer = [](const Node& node) -> InferResult {
      const Array& array = node.attributes.Get<Array>("value");
      if (!base::IsNumeric(array.dtype())) {
        return OpError(node, absl::StrCat("holds numbers, not ", array.TypeString()));
      }
      return std::vector<TensorType>{{array.dtype(), array.shape()}};
    },
    .zero_gradient = true,
    .print =
        [](Printer& printer, const Node& node) {
          const Array& array = node.attributes.Get<Array>("value");
          printer.Line(node, absl::StrCat("stablehlo.constant ", MlirDense(array), " : ",
                                          MlirType(node.results[0])));
        }};

// A constant with equal elements, stored as one number whatever the shape.
const OpDef kSplat = {
    .name = "stablehlo.constant",
    .infer = [](const Node& node) -> InferResult {
      const DType dtype = node.attributes.Get<DType>("dtype");
      if (!base::IsNumeric(dtype))
        return OpError(node, absl::StrCat("holds numbers, not ", base::DTypeName(dtype)));
      return std::vector<TensorType>{{dtype, Shape(IntsOf(node, "shape"))}};
    },
    .zero_gradient = true,
    .print =
        [](Printer& printer, const Node& node) {
          const TensorType& type = node.results[0];
          const std::string number = absl::StrCat(
              "stablehlo.constant ", MlirDense(node.attributes.Get<Array>("value")), " : ");
          if (!IsDynamic(type.shape)) return printer.Line(node, number + MlirType(type));
          const TensorType scalar{type.dtype, {}};
          const std::string name = printer.FreshName();
          printer.CloseLine(absl::StrCat(name, " = ", number, MlirType(scalar)));
          printer.Line(node, BroadcastText(printer, name, scalar, {}, type));
        },
    .has_dynamic_form = true};

const OpDef kIota = {
    .name = "stablehlo.iota",
    .infer = [](const Node& node) -> InferResult {
      const TensorType type{node.attributes.Get<DType>("dtype"), Shape(IntsOf(node, "shape"))};
      const int64_t axis = node.attributes.Get<int64_t>("axis");
      if (axis < 0 || axis >= type.shape.rank()) {
        return OpError(node, absl::StrCat("there is no axis ", axis, " in ", type.ToString()));
      }
      if (!base::IsInteger(type.dtype) && !base::IsFloat(type.dtype)) {
        return OpError(node, absl::StrCat("counts in integers or floats, not ", type.ToString()));
      }
      return std::vector<TensorType>{type};
    },
    .zero_gradient = true,
    .print =
        [](Printer& printer, const Node& node) {
          const TensorType& type = node.results[0];
          printer.Line(node, IotaText(printer, node.attributes.Get<int64_t>("axis"), type));
        },
    .has_dynamic_form = true};

// ---- Broadcast, reshape, transpose, reverse ----

const OpDef kBroadcastInDim = {
    .name = "stablehlo.broadcast_in_dim",
    .infer = [](const Node& node) -> InferResult {
      const TensorType& from = node.operands[0].type();
      const TensorType to{from.dtype, Shape(IntsOf(node, "shape"))};
      const Ints& axes = IntsOf(node, "axes");
      bool fits = static_cast<int>(axes.size()) == from.shape.rank();
      for (size_t i = 0; fits && i < axes.size(); ++i) {
        fits = axes[i] >= 0 && axes[i] < to.shape.rank() && (i == 0 || axes[i] > axes[i - 1]) &&
               (from.shape.dim(i) == 1 || from.shape.dim(i) == to.shape.dim(axes[i]));
      }
      if (fits) return std::vector<TensorType>{to};
      return OpError(node, absl::StrCat(from.ToString(), " cannot be broadcast to ", to.ToString(),
                                        " along axes ", MlirList(axes),
                                        " (an extent must be 1 or stay unchanged)"));
    },
    .gradient = [](G g) -> Values {
      // Copied elements are summed: over added axes, and over broadcast axes.
      const Ints& axes = IntsOf(g.node, "axes");
      const Shape& from = g.operand(0).shape();
      const Shape& to = g.result().shape();
      Axes summed;
      for (int64_t d = 0; d < to.rank(); ++d) {
        const auto at = std::find(axes.begin(), axes.end(), d);
        if (at == axes.end() || (from.dim(at - axes.begin()) == 1 && to.dim(d) != 1))
          summed.push_back(d);
      }
      const Value sum = summed.empty() ? g.cotangent() : ReduceSum(g.cotangent(), summed);
      return {Reshape(sum, from)};
    },
    .print =
        [](Printer& printer, const Node& node) {
          const Value& x = node.operands[0];
          printer.Line(node, BroadcastText(printer, printer.Name(x), x.type(), IntsOf(node, "axes"),
                                           node.results[0]));
        },
    .has_dynamic_form = true};

const OpDef kReshape = {
    .name = "stablehlo.reshape",
    .infer = [](const Node& node) -> InferResult {
      const TensorType& from = node.operands[0].type();
      const TensorType to{from.dtype, Shape(IntsOf(node, "shape"))};
      if (from.shape.num_elements() == to.shape.num_elements()) return std::vector<TensorType>{to};
      return OpError(
          node, absl::StrCat(from.ToString(), " has ", from.shape.num_elements(), " elements, ",
                             to.shape.ToString(), " has ", to.shape.num_elements()));
    },
    .gradient = [](G g) -> Values { return {Reshape(g.cotangent(), g.operand(0).shape())}; },
    .print =
        [](Printer& printer, const Node& node) {
          const Value& x = node.operands[0];
          printer.Line(node, ReshapeText(printer, printer.Name(x), x.type(), node.results[0]));
        },
    .has_dynamic_form = true};

const OpDef kTranspose = {
    .name = "stablehlo.transpose",
    .infer = [](const Node& node) -> InferResult {
      const TensorType& from = node.operands[0].type();
      const Ints& permutation = IntsOf(node, "permutation");
      Ints sorted = permutation;
      std::sort(sorted.begin(), sorted.end());
      Ints all_axes(from.shape.rank());
      std::iota(all_axes.begin(), all_axes.end(), 0);
      if (sorted != all_axes) {
        return OpError(node, absl::StrCat(MlirList(permutation), " does not name each axis of ",
                                          from.ToString(), " once"));
      }
      std::vector<int64_t> dims;
      for (int64_t axis : permutation) dims.push_back(from.shape.dim(axis));
      return std::vector<TensorType>{{from.dtype, Shape(dims)}};
    },
    .gradient = [](G g) -> Values {
      const Ints& permutation = IntsOf(g.node, "permutation");
      Axes inverse(permutation.size());
      for (size_t i = 0; i < permutation.size(); ++i) inverse[permutation[i]] = i;
      return {Transpose(g.cotangent(), inverse)};
    },
    .print =
        [](Printer& printer, const Node& node) {
          PrintWith(printer, node,
                    absl::StrCat(", dims = ", MlirList(IntsOf(node, "permutation"))));
        }};

const OpDef kReverse = {
    .name = "stablehlo.reverse",
    .infer = [](const Node& node) -> InferResult {
      return std::vector<TensorType>{node.operands[0].type()};
    },
    .gradient = [](G g) -> Values { return {Reverse(g.cotangent(), IntsOf(g.node, "axes"))}; },
    .print =
        [](Printer& printer, const Node& node) {
          PrintWith(printer, node, absl::StrCat(", dims = ", MlirList(IntsOf(node, "axes"))));
        }};

// ---- Concatenate, slice, pad ----

const OpDef kConcatenate = {
    .name = "stablehlo.concatenate",
    .infer = [](const Node& node) -> InferResult {
      const int64_t axis = node.attributes.Get<int64_t>("axis");
      TensorType type = node.operands[0].type();
      int64_t extent = 0;
      for (const Value& operand : node.operands) {
        TensorType other = operand.type();
        const bool same_rank = other.shape.rank() == type.shape.rank();
        if (same_rank) {
          extent += other.shape.dim(axis);
          other.shape.set_dim(axis, type.shape.dim(axis));
        }
        if (!same_rank || !(other == type)) {
          return OpError(node, absl::StrCat("values may differ only along axis ", axis, ", got ",
                                            TypesOf(node)));
        }
      }
      type.shape.set_dim(axis, extent);
      return std::vector<TensorType>{type};
    },
    .gradient = [](G g) -> Values {
      const int64_t axis = g.node.attributes.Get<int64_t>("axis");
      Ints extents;
      for (const Value& operand : g.node.operands) extents.push_back(operand.shape().dim(axis));
      return Split(g.cotangent(), extents, axis);
    },
    .print =
        [](Printer& printer, const Node& node) {
          PrintWith(printer, node, absl::StrCat(", dim = ", node.attributes.Get<int64_t>("axis")));
        }};

const OpDef kSlice = {
    .name = "stablehlo.slice",
    .infer = [](const Node& node) -> InferResult {
      const TensorType& from = node.operands[0].type();
      const Ints &begin = IntsOf(node, "begin"), &end = IntsOf(node, "end"),
                 &strides = IntsOf(node, "strides");
      const size_t rank = from.shape.rank();
      bool fits = begin.size() == rank && end.size() == rank && strides.size() == rank;
      std::vector<int64_t> dims;
      for (size_t i = 0; fits && i < rank; ++i) {
        fits = begin[i] >= 0 && begin[i] <= end[i] && end[i] <= from.shape.dim(i) && strides[i] > 0;
        if (fits) dims.push_back((end[i] - begin[i] + strides[i] - 1) / strides[i]);
      }
      if (fits) return std::vector<TensorType>{{from.dtype, Shape(dims)}};
      return OpError(node,
                     absl::StrCat("begin ", MlirList(begin), ", end ", MlirList(end), ", strides ",
                                  MlirList(strides), " do not lie within ", from.ToString()));
    },
    .gradient = [](G g) -> Values {
      const Ints &begin = IntsOf(g.node, "begin"), &strides = IntsOf(g.node, "strides");
      const Shape &from = g.operand(0).shape(), &to = g.result().shape();
      std::vector<PadAxis> padding(from.rank());
      for (int i = 0; i < from.rank(); ++i) {
        const int64_t spread = to.dim(i) == 0 ? 0 : (to.dim(i) - 1) * strides[i] + 1;
        padding[i] = {begin[i], from.dim(i) - begin[i] - spread, strides[i] - 1};
      }
      return {Pad(g.cotangent(), 0, padding)};
    },
    .print =
        [](Printer& printer, const Node& node) {
          const Value& x = node.operands[0];
          const SliceRange range{IntsOf(node, "begin"), IntsOf(node, "end"),
                                 IntsOf(node, "strides")};
          printer.Line(node, SliceText(printer, printer.Name(x), x.type(), range, node.results[0]));
        },
    .has_dynamic_form = true};

// Operands: the value and the scalar fill value.
const OpDef kPad = {
    .name = "stablehlo.pad",
    .infer = [](const Node& node) -> InferResult {
      const TensorType& from = node.operands[0].type();
      const Ints &low = IntsOf(node, "low"), &high = IntsOf(node, "high"),
                 &interior = IntsOf(node, "interior");
      if (low.size() != static_cast<size_t>(from.shape.rank())) {
        return OpError(node, absl::StrCat("expects padding for each axis of ", from.ToString(),
                                          ", got ", low.size()));
      }
      std::vector<int64_t> dims;
      for (size_t i = 0; i < low.size(); ++i) {
        const int64_t extent = from.shape.dim(i);
        const absl::int128 between = extent == 0 ? 0 : absl::int128(extent - 1) * interior[i];
        const absl::int128 padded = between + extent + low[i] + high[i];
        if (interior[i] < 0 || padded < 0 || padded > std::numeric_limits<int64_t>::max()) {
          return OpError(
              node, absl::StrCat("axis ", i, " of ", from.ToString(), " cannot be padded by ",
                                 low[i], ", ", high[i], " and ", interior[i], " between elements"));
        }
        dims.push_back(static_cast<int64_t>(padded));
      }
      return std::vector<TensorType>{{from.dtype, Shape(dims)}};
    },
    .gradient = [](G g) -> Values {
      const Ints &low = IntsOf(g.node, "low"), &high = IntsOf(g.node, "high"),
                 &interior = IntsOf(g.node, "interior");
      const Shape& from = g.operand(0).shape();
      // Gradient: crop or pad the edges, then take every (interior + 1)th element.
      std::vector<PadAxis> edges;
      std::vector<int64_t> begin(low.size()), end, strides;
      for (size_t i = 0; i < low.size(); ++i) {
        edges.push_back({-low[i], -high[i], 0});
        strides.push_back(interior[i] + 1);
        end.push_back(from.dim(i) == 0 ? 0 : (from.dim(i) - 1) * strides[i] + 1);
      }
      const Value inner = Slice(Pad(g.cotangent(), 0, edges), begin, end, strides);
      // The fill value gets everything that did not come from the operand.
      return {inner, ReduceSum(g.cotangent()) - ReduceSum(inner)};
    },
    .print =
        [](Printer& printer, const Node& node) {
          PrintWith(printer, node,
                    absl::StrCat(", low = ", MlirList(IntsOf(node, "low")),
                                 ", high = ", MlirList(IntsOf(node, "high")),
                                 ", interior = ", MlirList(IntsOf(node, "interior"))));
        }};

// Operands: the value, then one integer scalar for each axis.
const OpDef kDynamicSlice = {
    .name = "stablehlo.dynamic_slice",
    .infer = [](const Node& node) -> InferResult {
      const TensorType& from = node.operands[0].type();
      const Ints& sizes = IntsOf(node, "sizes");
      bool fits = sizes.size() == static_cast<size_t>(from.shape.rank()) &&
                  node.operands.size() == sizes.size() + 1;
      for (size_t i = 0; fits && i < sizes.size(); ++i) {
        fits = sizes[i] >= 0 && sizes[i] <= from.shape.dim(i) && node.operands[i + 1].rank() == 0 &&
               base::IsInteger(node.operands[i + 1].dtype());
      }
      if (fits) return std::vector<TensorType>{{from.dtype, Shape(sizes)}};
      return OpError(
          node,
          absl::StrCat("expects one integer scalar for each axis and sizes within the value; got ",
                       TypesOf(node), " and sizes ", MlirList(sizes)));
    },
    .gradient = [](G g) -> Values {
      Values begin(g.node.operands.begin() + 1, g.node.operands.end());
      Values out(g.node.operands.size());
      out[0] = AddToSlice(SplatLike(g.operand(0), 0), g.cotangent(), begin);
      return out;
    },
    .print =
        [](Printer& printer, const Node& node) {
          const Value& x = node.operands[0];
          std::vector<std::string> begin;
          for (size_t i = 1; i < node.operands.size(); ++i) {
            begin.push_back(printer.Name(node.operands[i]));
          }
          const DType index = node.operands.size() > 1 ? node.operands[1].dtype() : DType::kI32;
          printer.Line(node, DynamicSliceText(printer, printer.Name(x), x.type(), begin, index,
                                              node.results[0]));
        },
    .has_dynamic_form = true};

// Operands: the value, its replacement part, then one integer scalar for each axis.
const OpDef kDynamicUpdateSlice = {
    .name = "stablehlo.dynamic_update_slice",
    .infer = [](const Node& node) -> InferResult {
      const TensorType &to = node.operands[0].type(), &update = node.operands[1].type();
      bool fits = to.dtype == update.dtype && to.shape.rank() == update.shape.rank() &&
                  node.operands.size() == static_cast<size_t>(to.shape.rank()) + 2;
      for (int i = 0; fits && i < to.shape.rank(); ++i) {
        fits = update.shape.dim(i) <= to.shape.dim(i) && node.operands[i + 2].rank() == 0 &&
               base::IsInteger(node.operands[i + 2].dtype());
      }
      if (fits) return std::vector<TensorType>{to};
      return OpError(node, absl::StrCat("expects a value, a part that fits into it and one integer "
                                        "scalar for each axis; got ",
                                        TypesOf(node)));
    },
    .gradient = [](G g) -> Values {
      Values begin(g.node.operands.begin() + 2, g.node.operands.end());
      Values out(g.node.operands.size());
      const Value update = g.operand(1);
      out[0] = DynamicUpdateSlice(g.cotangent(), SplatLike(update, 0), begin);
      out[1] = DynamicSlice(g.cotangent(), begin, ListOf(update.shape()));
      return out;
    },
    .print = PrintConverting};

// Appends the indices of a slice. StableHLO's have one type: integers of several types become i64.
void AppendIndices(const Values& begin, Values& operands) {
  const auto is_integer = [](const Value& index) { return base::IsInteger(index.dtype()); };
  const auto differs = [&](const Value& index) { return index.dtype() != begin[0].dtype(); };
  const bool mixed = AllValid(begin) && std::all_of(begin.begin(), begin.end(), is_integer) &&
                     std::any_of(begin.begin(), begin.end(), differs);
  for (const Value& index : begin) operands.push_back(mixed ? Convert(index, DType::kI64) : index);
}

}  // namespace

Value Constant(Graph& graph, const Array& array) {
  // MLIR packs the bits of a bool array; bytes and a conversion are simpler.
  if (array.dtype() == DType::kBool) {
    const absl::StatusOr<Array> bytes = array.Cast(DType::kU8);
    return Convert(Constant(graph, *bytes), DType::kBool);
  }
  const Values results = graph.Emit(kConstant, {}, {{"value", array}});
  return results.empty() ? Value() : results[0];
}

Value Splat(Graph& graph, const TensorType& type, double value) {
  const Array scalar =
      base::IsNumeric(type.dtype) ? NearestScalar(type.dtype, value) : Array::Scalar(value);
  const Values results = graph.Emit(
      kSplat, {}, {{"dtype", type.dtype}, {"shape", ListOf(type.shape)}, {"value", scalar}});
  return results.empty() ? Value() : results[0];
}

bool IsZeros(Value x) {
  if (x.node().op != &kSplat) return false;
  return x.node().attributes.Get<Array>("value").Cast(DType::kF64)->item<double>() == 0;
}

Value SplatLike(Value like, double value) {
  return like.valid() ? Splat(*like.graph(), like.type(), value) : Value();
}

Value Iota(Graph& graph, const TensorType& type, int64_t axis) {
  if (axis < 0) axis += type.shape.rank();
  const Values results =
      graph.Emit(kIota, {}, {{"dtype", type.dtype}, {"shape", ListOf(type.shape)}, {"axis", axis}});
  return results.empty() ? Value() : results[0];
}

Value BroadcastInDim(Value x, const Shape& shape, const Axes& axes) {
  return EmitOne(kBroadcastInDim, {x}, {{"shape", ListOf(shape)}, {"axes", axes}});
}

Value BroadcastTo(Value x, const Shape& shape) {
  if (!x.valid() || x.shape() == shape) return x;
  if (x.rank() > shape.rank()) {
    x.graph()->Fail(absl::InvalidArgumentError(absl::StrCat(
        "broadcast: ", x.type().ToString(), " has more axes than ", shape.ToString())));
    return Value();
  }
  Axes axes;
  for (int i = 0; i < x.rank(); ++i) axes.push_back(shape.rank() - x.rank() + i);
  return BroadcastInDim(x, shape, axes);
}

Value Reshape(Value x, const Shape& shape) {
  if (!x.valid() || x.shape() == shape) return x;
  Shape known = shape;
  int unknown = -1;
  int64_t rest = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape.dim(i) >= 0) {
      // Saturates: no tensor has as many elements.
      constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
      rest = shape.dim(i) > 0 && rest > kMost / shape.dim(i) ? kMost : rest * shape.dim(i);
    } else if (unknown < 0) {
      unknown = i;
    } else {
      unknown = shape.rank();  // more than one -1
    }
  }
  if (unknown == shape.rank() ||
      (unknown >= 0 && (rest == 0 || x.shape().num_elements() % rest != 0))) {
    x.graph()->Fail(absl::InvalidArgumentError(
        absl::StrCat("reshape: ", x.type().ToString(), " does not fit ", shape.ToString())));
    return Value();
  }
  if (unknown >= 0) known.set_dim(unknown, x.shape().num_elements() / rest);
  return EmitOne(kReshape, {x}, {{"shape", ListOf(known)}});
}

Value Transpose(Value x, const Axes& permutation) {
  Axes order = permutation;
  if (!x.valid() || !NormalizeAxes(x, order, "transpose")) return Value();
  const bool moves = !std::is_sorted(order.begin(), order.end());
  if (!moves && static_cast<int>(order.size()) == x.rank()) return x;
  return EmitOne(kTranspose, {x}, {{"permutation", order}});
}

Value ExpandDims(Value x, int64_t axis) {
  if (!x.valid()) return x;
  if (axis < 0) axis += x.rank() + 1;
  if (axis < 0 || axis > x.rank()) {
    x.graph()->Fail(absl::InvalidArgumentError(absl::StrCat(
        "expand_dims: invalid position ", axis, " among the axes of ", x.type().ToString())));
    return Value();
  }
  if (x.rank() == base::kMaxRank) {
    x.graph()->Fail(
        absl::InvalidArgumentError(absl::StrCat("expand_dims: ", x.type().ToString(), " has ",
                                                base::kMaxRank, " axes, which is the maximum")));
    return Value();
  }
  std::vector<int64_t> dims = ListOf(x.shape());
  dims.insert(dims.begin() + axis, 1);
  return Reshape(x, Shape(dims));
}

Value Squeeze(Value x, const Axes& axes) {
  if (!x.valid()) return x;
  Axes normal = axes;
  if (!NormalizeAxes(x, normal, "squeeze")) return Value();
  std::vector<int64_t> dims;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (std::find(normal.begin(), normal.end(), i) == normal.end()) {
      dims.push_back(x.shape().dim(i));
    } else if (x.shape().dim(i) != 1) {
      x.graph()->Fail(absl::InvalidArgumentError(
          absl::StrCat("squeeze: axis ", i, " of ", x.type().ToString(), " is not 1")));
      return Value();
    }
  }
  return Reshape(x, Shape(dims));
}

Value Reverse(Value x, const Axes& axes) {
  if (!x.valid() || axes.empty()) return x;
  Axes normal = axes;
  if (!NormalizeAxes(x, normal, "reverse")) return Value();
  return EmitOne(kReverse, {x}, {{"axes", normal}});
}

Value Concatenate(const Values& xs, int64_t axis) {
  for (const Value& x : xs) {
    if (!x.valid()) return Value();
  }
  if (xs.empty()) return Value();
  if (!NormalizeAxis(xs[0], axis, "concatenate")) return Value();
  if (xs.size() == 1) return xs[0];
  return EmitOne(kConcatenate, xs, {{"axis", axis}});
}

Value Slice(Value x, const std::vector<int64_t>& begin, const std::vector<int64_t>& end,
            const std::vector<int64_t>& strides) {
  const Ints steps = strides.empty() ? Ints(begin.size(), 1) : strides;
  return EmitOne(kSlice, {x}, {{"begin", begin}, {"end", end}, {"strides", steps}});
}

Value SliceAxis(Value x, int64_t axis, int64_t begin, int64_t end, int64_t stride) {
  if (!x.valid() || !NormalizeAxis(x, axis, "slice")) return Value();
  Ints begins(x.rank()), ends = ListOf(x.shape()), strides(x.rank(), 1);
  begins[axis] = begin;
  ends[axis] = end;
  strides[axis] = stride;
  return Slice(x, begins, ends, strides);
}

Value Pad(Value x, double value, const std::vector<PadAxis>& padding) {
  if (!x.valid()) return x;
  Ints low, high, interior;
  bool nothing = static_cast<int>(padding.size()) == x.rank();
  for (const PadAxis& p : padding) {
    low.push_back(p.low);
    high.push_back(p.high);
    interior.push_back(p.interior);
    nothing = nothing && p.low == 0 && p.high == 0 && p.interior == 0;
  }
  if (nothing) return x;
  const Value fill = Splat(*x.graph(), {x.dtype(), {}}, value);
  return EmitOne(kPad, {x, fill}, {{"low", low}, {"high", high}, {"interior", interior}});
}

Value DynamicSlice(Value x, const Values& begin, const std::vector<int64_t>& sizes) {
  Values operands{x};
  AppendIndices(begin, operands);
  return EmitOne(kDynamicSlice, std::move(operands), {{"sizes", sizes}});
}

Value DynamicUpdateSlice(Value x, Value update, const Values& begin) {
  Values operands{x, update};
  AppendIndices(begin, operands);
  return EmitOne(kDynamicUpdateSlice, std::move(operands));
}

OpList ShapeOps() {
  static constexpr const OpDef* kOps[] = {
      &kConstant,    &kSplat, &kIota, &kBroadcastInDim, &kReshape,           &kTranspose, &kReverse,
      &kConcatenate, &kSlice, &kPad,  &kDynamicSlice,   &kDynamicUpdateSlice};
  return kOps;
}

}  // namespace penstock::ir
