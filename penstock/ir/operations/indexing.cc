// Gather, scatter and functions built from them. Each of the two is in the gradient of the other.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

#include "penstock/ir/dynamic_forms.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/printer.h"

namespace penstock::ir {
namespace {

using Ints = std::vector<int64_t>;
using G = const GradientArgs&;

bool Holds(const Ints& list, int64_t x) {
  return std::find(list.begin(), list.end(), x) != list.end();
}

// Dimension numbers of gather and scatter. `windowed` is the operand with the windows: gather's
// result, scatter's updates.
struct Places {
  Ints window;     // axes of windowed that index into a window, in order
  Ints collapsed;  // axes of x that windows lack (their size is 1)
  Ints map;        // axis of x for each component of an index
  int64_t vector;  // axis of the components in indices; its rank: scalar indices

  static Places Of(const Attributes& a) {
    return {a.Get<Ints>("window"), a.Get<Ints>("collapsed"), a.Get<Ints>("map"),
            a.Get<int64_t>("vector")};
  }
  Attributes ToAttributes() const {
    return {{"window", window}, {"collapsed", collapsed}, {"map", map}, {"vector", vector}};
  }

  // Extents of the indices without the axis of components.
  Ints Batch(const Shape& indices) const {
    Ints batch = ListOf(indices);
    if (vector < indices.rank()) batch.erase(batch.begin() + vector);
    return batch;
  }
  // Axes of windowed that enumerate windows.
  Ints BatchAxes(int64_t windowed_rank) const {
    Ints axes;
    for (int64_t i = 0; i < windowed_rank; ++i) {
      if (!Holds(window, i)) axes.push_back(i);
    }
    return axes;
  }
  // Extents of a window in x, from those in windowed.
  Ints Sizes(int64_t x_rank, const Shape& windowed) const {
    Ints sizes;
    for (int64_t i = 0, w = 0; i < x_rank; ++i) {
      sizes.push_back(Holds(collapsed, i) ? 1 : windowed.dim(static_cast<int>(window[w++])));
    }
    return sizes;
  }
};

bool IsListOfAxes(const Ints& axes, int64_t rank, bool sorted) {
  Ints seen;
  for (int64_t axis : axes) {
    if (axis < 0 || axis >= rank || Holds(seen, axis) ||
        (sorted && !seen.empty() && axis < seen.back())) {
      return false;
    }
    seen.push_back(axis);
  }
  return true;
}

// Checks operands 0 and 1 (x, indices), with windows of these sizes.
absl::Status CheckPlaces(const Node& node, const Places& p, const Ints& sizes) {
  const TensorType &x = node.operands[0].type(), &indices = node.operands[1].type();
  if (!base::IsInteger(indices.dtype)) {
    return OpError(node, absl::StrCat("indices are integers, got ", indices.ToString()));
  }
  const int64_t rank = x.shape.rank(), index_rank = indices.shape.rank();
  if (p.vector < 0 || p.vector > index_rank) {
    return OpError(node, absl::StrCat("there is no axis ", p.vector, " in ", indices.ToString(),
                                      " for an index's components"));
  }
  const int64_t components =
      p.vector == index_rank ? 1 : indices.shape.dim(static_cast<int>(p.vector));
  if (static_cast<int64_t>(p.map.size()) != components || !IsListOfAxes(p.map, rank, false)) {
    return OpError(node, absl::StrCat("an index has ", components, " components, which axes ",
                                      MlirList(p.map), " of ", x.ToString(), " do not name once"));
  }
  if (!IsListOfAxes(p.collapsed, rank, true)) {
    return OpError(
        node, absl::StrCat(MlirList(p.collapsed), " are not axes of ", x.ToString(), " in order"));
  }
  bool fits = static_cast<int64_t>(sizes.size()) == rank;
  for (int64_t i = 0; fits && i < rank; ++i) {
    fits = sizes[i] >= 0 && sizes[i] <= x.shape.dim(static_cast<int>(i)) &&
           (sizes[i] == 1 || !Holds(p.collapsed, i));
  }
  const int64_t window_axes = rank - static_cast<int64_t>(p.collapsed.size());
  const int64_t windowed_rank = static_cast<int64_t>(p.Batch(indices.shape).size()) + window_axes;
  if (!fits || static_cast<int64_t>(p.window.size()) != window_axes ||
      !IsListOfAxes(p.window, windowed_rank, true) || windowed_rank > base::kMaxRank) {
    return OpError(node, absl::StrCat("windows of ", MlirList(sizes), " without axes ",
                                      MlirList(p.collapsed), ", put on axes ", MlirList(p.window),
                                      " of the result, do not fit ", TypesOf(node)));
  }
  return absl::OkStatus();
}

// The last index at which a window fits, for each component, broadcast to the shape of the indices.
Value LastPlaces(const Places& p, Value indices, const Shape& x, const Ints& sizes) {
  // A narrower type cannot represent a larger index.
  const int bits = base::BitWidth(indices.dtype()) - (base::IsSigned(indices.dtype()) ? 1 : 0);
  const int64_t largest =
      bits >= 63 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << bits) - 1;
  Ints last;
  for (int64_t axis : p.map) {
    last.push_back(std::min(x.dim(static_cast<int>(axis)) - sizes[axis], largest));
  }
  Graph& graph = *indices.graph();
  const Shape shape =
      p.vector == indices.rank() ? Shape() : Shape(Ints{static_cast<int64_t>(last.size())});
  const Value values = Constant(graph, *Array::Of<int64_t>(shape, last).Cast(indices.dtype()));
  const Axes axes = shape.rank() == 0 ? Axes{} : Axes{p.vector};
  return BroadcastInDim(values, indices.shape(), axes);
}

// Indices clamped so that every window lies within x, as in gather.
Value Inside(const Places& p, Value indices, const Shape& x, const Ints& sizes) {
  const Value low =
      base::IsSigned(indices.dtype()) ? Maximum(indices, SplatLike(indices, 0)) : indices;
  return Minimum(low, LastPlaces(p, indices, x, sizes));
}

// Which updates a scatter does not drop, broadcast to their shape.
Value IsInside(const Places& p, Value indices, const Shape& x, const Ints& sizes,
               const Shape& updates) {
  Value inside = And(GreaterEqual(indices, SplatLike(indices, 0)),
                     LessEqual(indices, LastPlaces(p, indices, x, sizes)));
  if (p.vector < indices.rank()) inside = ReduceAnd(inside, {p.vector});
  return BroadcastInDim(inside, updates, p.BatchAxes(updates.rank()));
}

// ---- Gather ----
// Operands: x, indices. Attributes: dimension numbers, and the window's sizes in x.

Value EmitGather(Value x, Value indices, const Places& places, const Ints& sizes);

InferResult InferGather(const Node& node) {
  const Places p = Places::Of(node.attributes);
  const Ints& sizes = node.attributes.Get<Ints>("sizes");
  PENSTOCK_RETURN_IF_ERROR(CheckPlaces(node, p, sizes));
  const Ints batch = p.Batch(node.operands[1].shape());
  Ints dims(batch.size() + p.window.size());
  size_t from_batch = 0, axis = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!Holds(p.window, static_cast<int64_t>(i))) {
      dims[i] = batch[from_batch++];
      continue;
    }
    while (Holds(p.collapsed, static_cast<int64_t>(axis))) ++axis;
    dims[i] = sizes[axis++];
  }
  return std::vector<TensorType>{{node.operands[0].dtype(), Shape(dims)}};
}

void PrintGather(Printer& printer, const Node& node) {
  const Places p = Places::Of(node.attributes);
  const Ints& sizes = node.attributes.Get<Ints>("sizes");
  const std::string attributes = absl::StrCat(
      "{dimension_numbers = #stablehlo.gather<offset_dims = ", MlirList(p.window),
      ", collapsed_slice_dims = ", MlirList(p.collapsed), ", start_index_map = ", MlirList(p.map),
      ", index_vector_dim = ", p.vector, ">, indices_are_sorted = false");
  const std::string operands = printer.Names(node.operands);
  if (!IsDynamic(Shape(sizes))) {
    return printer.Line(
        node, absl::StrCat("\"stablehlo.gather\"(", operands, ") ", attributes,
                           ", slice_sizes = ", MlirArray(sizes), "} : ", FunctionType(node)));
  }
  const std::string extents = printer.Extents(sizes);
  printer.Line(node, absl::StrCat("\"stablehlo.dynamic_gather\"(", operands, ", ", extents, ") ",
                                  attributes, "} : (", MlirType(node.operands[0].type()), ", ",
                                  MlirType(node.operands[1].type()), ", ",
                                  MlirType({DType::kI32, {static_cast<int64_t>(sizes.size())}}),
                                  ") -> ", MlirType(node.results[0])));
}

// ---- Scatter ----
// Operands: x, indices, updates. Attributes: dimension numbers; "reducer"; "unique": no two updates
// overlap; "inside": none is dropped.

Value EmitScatter(Value x, Value indices, Value updates, Attributes attributes);

InferResult InferScatter(const Node& node) {
  const TensorType &x = node.operands[0].type(), &updates = node.operands[2].type();
  const Places p = Places::Of(node.attributes);
  const int64_t window_axes = x.shape.rank() - static_cast<int64_t>(p.collapsed.size());
  const bool window_fits = static_cast<int64_t>(p.window.size()) == window_axes &&
                           IsListOfAxes(p.window, updates.shape.rank(), true);
  const Ints sizes = window_fits ? p.Sizes(x.shape.rank(), updates.shape) : Ints();
  PENSTOCK_RETURN_IF_ERROR(CheckPlaces(node, p, sizes));
  Ints counted;
  for (int64_t axis : p.BatchAxes(updates.shape.rank())) {
    counted.push_back(updates.shape.dim(static_cast<int>(axis)));
  }
  if (updates.dtype != x.dtype || counted != p.Batch(node.operands[1].shape())) {
    return OpError(
        node, absl::StrCat("expects one update of x's type for each index, got ", TypesOf(node)));
  }
  return std::vector<TensorType>{x};
}

void PrintScatter(Printer& printer, const Node& node) {
  const Places p = Places::Of(node.attributes);
  const DType dtype = node.results[0].dtype;
  printer.OpenLine(node,
                   absl::StrCat("\"stablehlo.scatter\"(", printer.Names(node.operands), ") ({"));
  constexpr const char* kReducers[] = {"", "stablehlo.add", "stablehlo.multiply",
                                       "stablehlo.minimum", "stablehlo.maximum"};
  const int64_t reducer = node.attributes.Get<int64_t>("reducer");
  if (reducer == static_cast<int64_t>(ScatterReducer::kReplace)) {
    const std::string scalar = MlirType({dtype, {}});
    const std::string before = printer.FreshName(), update = printer.FreshName();
    printer.Indent(1);
    printer.PlainLine(
        absl::StrCat("^bb0(", before, ": ", scalar, ", ", update, ": ", scalar, "):"));
    printer.PlainLine(absl::StrCat("stablehlo.return ", update, " : ", scalar));
    printer.Indent(-1);
  } else {
    printer.ReducerRegion(kReducers[reducer], dtype);
  }
  printer.CloseLine(absl::StrCat(
      "}) {indices_are_sorted = false, scatter_dimension_numbers = ",
      "#stablehlo.scatter<update_window_dims = ", MlirList(p.window),
      ", inserted_window_dims = ", MlirList(p.collapsed),
      ", scatter_dims_to_operand_dims = ", MlirList(p.map), ", index_vector_dim = ", p.vector,
      ">, unique_indices = ", node.attributes.Get<bool>("unique") ? "true" : "false",
      "} : ", FunctionType(node)));
}

Attributes With(Attributes attributes, ScatterReducer reducer) {
  attributes.Set("reducer", static_cast<int64_t>(reducer));
  return attributes;
}

// Gradient of a scatter.
class ScatterBackward {
 public:
  explicit ScatterBackward(G g)
      : g_(g),
        x_(g.operand(0)),
        indices_(g.operand(1)),
        updates_(g.operand(2)),
        places_(Places::Of(g.node.attributes)),
        sizes_(places_.Sizes(x_.rank(), updates_.shape())) {}

  Values Run() const {
    const Value c = g_.cotangent();
    const bool unique = g_.node.attributes.Get<bool>("unique");
    switch (static_cast<ScatterReducer>(g_.node.attributes.Get<int64_t>("reducer"))) {
      case ScatterReducer::kSum:
        return {c, Value(), OfUpdates(c)};
      case ScatterReducer::kReplace: {
        const Value of_x = Put(ScatterReducer::kReplace, c, SplatLike(updates_, 0));
        const Value of_updates = OfUpdates(c);
        return {of_x, Value(), unique ? of_updates : of_updates * IsLast()};
      }
      case ScatterReducer::kProduct:
        if (!unique) {
          x_.graph()->Fail(OpError(
              g_.node,
              "a product has a gradient only where indices are unique, and declared as such"));
          return {Value(), Value(), Value()};
        }
        return {c * Put(ScatterReducer::kProduct, SplatLike(x_, 1), updates_), Value(),
                OfUpdates(c * x_)};
      case ScatterReducer::kMin:
      case ScatterReducer::kMax: {
        // Ties share the cotangent.
        const Value mine = Convert(Equal(x_, g_.result()), c.dtype());
        const Value theirs = Convert(Equal(updates_, At(g_.result())), c.dtype());
        const Value share = c / Put(ScatterReducer::kSum, mine, theirs);
        return {share * mine, Value(), OfUpdates(share) * theirs};
      }
    }
    return {};
  }

 private:
  Value At(Value x) const { return EmitGather(x, indices_, places_, sizes_); }
  // Zero for an update that was dropped.
  Value OfUpdates(Value x) const {
    const Value at = At(x);
    if (g_.node.attributes.Get<bool>("inside")) return at;
    const Value inside = IsInside(places_, indices_, x_.shape(), sizes_, updates_.shape());
    return Select(inside, at, SplatLike(at, 0));
  }
  Value Put(ScatterReducer reducer, Value x, Value updates) const {
    return EmitScatter(x, indices_, updates, With(g_.node.attributes, reducer));
  }
  // 1 for updates that no later one has replaced, found by scattering their numbers.
  Value IsLast() const {
    const Shape batch(places_.Batch(indices_.shape()));
    const Value numbers =
        Reshape(Iota(*x_.graph(), {DType::kI32, {batch.num_elements()}}, 0), batch);
    const Value spread =
        BroadcastInDim(numbers, updates_.shape(), places_.BatchAxes(updates_.rank()));
    const Value nobody = Splat(*x_.graph(), {DType::kI32, x_.shape()}, -1);
    return Convert(Equal(spread, At(Put(ScatterReducer::kReplace, nobody, spread))), x_.dtype());
  }

  const GradientArgs& g_;
  const Value x_, indices_, updates_;
  const Places places_;
  const Ints sizes_;
};

const OpDef kGather = {
    .name = "stablehlo.gather",
    .infer = InferGather,
    .gradient = [](G g) -> Values {
      // Gather clamps a window into x, scatter drops it.
      const Places p = Places::Of(g.node.attributes);
      const Value x = g.operand(0);
      const Value inside = Inside(p, g.operand(1), x.shape(), g.node.attributes.Get<Ints>("sizes"));
      Attributes attributes = With(p.ToAttributes(), ScatterReducer::kSum);
      attributes.Set("unique", false);
      attributes.Set("inside", true);
      return {EmitScatter(SplatLike(x, 0), inside, g.cotangent(), attributes), Value()};
    },
    .print = PrintGather,
    .has_dynamic_form = true};

const OpDef kScatter = {.name = "stablehlo.scatter",
                        .infer = InferScatter,
                        .gradient = [](G g) { return ScatterBackward(g).Run(); },
                        .print = PrintScatter};

// Scatter-add: can be merged with another sum, and is accumulated in float32.
const OpDef kScatterAdd = {
    .name = "penstock.scatter_add",
    .infer = InferScatter,
    .gradient = [](G g) { return ScatterBackward(g).Run(); },
    .decompose = [](Graph&, const Node& node, const Values& in) -> Values {
      const DType dtype = in[0].dtype();
      const bool narrow = base::IsFloat(dtype) && base::ByteWidth(dtype) < 4;
      const DType wide = narrow ? DType::kF32 : dtype;
      return {Convert(
          EmitOne(kScatter, {Convert(in[0], wide), in[1], Convert(in[2], wide)}, node.attributes),
          dtype)};
    },
    .adds_to_operand = true};

Value EmitGather(Value x, Value indices, const Places& places, const Ints& sizes) {
  Attributes attributes = places.ToAttributes();
  attributes.Set("sizes", sizes);
  return EmitOne(kGather, {x, indices}, std::move(attributes));
}

Value EmitScatter(Value x, Value indices, Value updates, Attributes attributes) {
  const bool sum = attributes.Get<int64_t>("reducer") == static_cast<int64_t>(ScatterReducer::kSum);
  return EmitOne(sum ? kScatterAdd : kScatter, {x, indices, updates}, std::move(attributes));
}

// ---- Addition to a slice ----

// Operands: x, update, then one integer scalar for each axis.
const OpDef kAddToSlice = {.name = "penstock.add_to_slice",
                           .infer = InferByDecomposing,
                           .gradient = [](G g) -> Values {
                             const Values begin(g.node.operands.begin() + 2, g.node.operands.end());
                             Values out(g.node.operands.size());
                             out[0] = g.cotangent();
                             out[1] =
                                 DynamicSlice(g.cotangent(), begin, ListOf(g.operand(1).shape()));
                             return out;
                           },
                           .decompose = [](Graph&, const Node&, const Values& in) -> Values {
                             const Values begin(in.begin() + 2, in.end());
                             if (IsZeros(in[0])) return {DynamicUpdateSlice(in[0], in[1], begin)};
                             const Value before = DynamicSlice(in[0], begin, ListOf(in[1].shape()));
                             return {DynamicUpdateSlice(in[0], before + in[1], begin)};
                           },
                           .adds_to_operand = true};

// Whether the axis has elements that the indices may choose, or there are no indices; else an
// error.
bool AxisHasElements(Value x, Value indices, int64_t axis, absl::string_view what) {
  const bool has = x.shape().dim(static_cast<int>(axis)) > 0 || indices.shape().num_elements() == 0;
  if (has && base::IsInteger(indices.dtype())) return true;
  x.graph()->Fail(absl::InvalidArgumentError(
      absl::StrCat(what, ": expects elements along axis ", axis, " and integer indices, got ",
                   x.type().ToString(), " and ", indices.type().ToString())));
  return false;
}

// x as [outer, axis, inner], and positions of its elements for indices of this form.
struct AlongAxis {
  AlongAxis(Value x, Value indices, int64_t axis) {
    const Shape &from = x.shape(), &to = indices.shape();
    int64_t outer = 1, inner = 1;
    for (int64_t i = 0; i < axis; ++i) outer *= from.dim(static_cast<int>(i));
    for (int64_t i = axis + 1; i < x.rank(); ++i) inner *= from.dim(static_cast<int>(i));
    const int at = static_cast<int>(axis);
    x_shape = Shape{outer, from.dim(at), inner};
    index_shape = Shape{outer, to.dim(at), inner};
    const DType dtype =
        base::BitWidth(indices.dtype()) < 32 ? DType::kI32 : indices.dtype();  // holds outer, inner
    Values components;
    for (int64_t i = 0; i < 3; ++i) {
      const TensorType type{dtype, index_shape};
      const Value component =
          i == 1 ? Reshape(Convert(indices, dtype), index_shape) : Iota(*x.graph(), type, i);
      components.push_back(ExpandDims(component, 3));
    }
    index = Concatenate(components, 3);
  }
  static Places Elements() { return {{}, {0, 1, 2}, {0, 1, 2}, 3}; }

  Shape x_shape, index_shape;
  Value index;
};

}  // namespace

Value Gather(Value x, Value indices, const GatherDimensions& dimensions,
             const std::vector<int64_t>& slice_sizes) {
  return EmitGather(x, indices,
                    {dimensions.offset_dims, dimensions.collapsed_slice_dims,
                     dimensions.start_index_map, dimensions.index_vector_dim},
                    slice_sizes);
}

Value Scatter(Value x, Value indices, Value updates, ScatterReducer reducer,
              const ScatterDimensions& dimensions, bool unique_indices) {
  Attributes attributes =
      With(Places{dimensions.update_window_dims, dimensions.inserted_window_dims,
                  dimensions.scatter_dims_to_operand_dims, dimensions.index_vector_dim}
               .ToAttributes(),
           reducer);
  attributes.Set("unique", unique_indices);
  attributes.Set("inside", false);
  return EmitScatter(x, indices, updates, std::move(attributes));
}

Value Take(Value x, Value indices, int64_t axis) {
  if (!x.valid() || !indices.valid() || !NormalizeAxis(x, axis, "take") ||
      !AxisHasElements(x, indices, axis, "take")) {
    return Value();
  }
  if (x.shape().dim(static_cast<int>(axis)) == 0) {
    Ints shape = ListOf(x.shape());
    shape.erase(shape.begin() + axis);
    shape.insert(shape.begin() + axis, indices.shape().begin(), indices.shape().end());
    return Splat(*x.graph(), {x.dtype(), Shape(shape)}, 0);
  }
  // The result's axes that come from x: before `axis`, and after the indices.
  Places places{{}, {axis}, {axis}, indices.rank()};
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (i != axis) places.window.push_back(i < axis ? i : i - 1 + indices.rank());
  }
  Ints sizes = ListOf(x.shape());
  sizes[axis] = 1;
  return EmitGather(x, indices, places, sizes);
}

Value TakeAlongAxis(Value x, Value indices, int64_t axis) {
  if (!x.valid() || !indices.valid() || !NormalizeAxis(x, axis, "take_along_axis") ||
      !AxisHasElements(x, indices, axis, "take_along_axis")) {
    return Value();
  }
  Shape result_shape = indices.shape(), x_shape = x.shape();
  bool fits = result_shape.rank() == x.rank();
  for (int i = 0; fits && i < x.rank(); ++i) {
    if (i == axis) continue;
    if (result_shape.dim(i) == 1) result_shape.set_dim(i, x.shape().dim(i));
    if (x.shape().dim(i) == 1) x_shape.set_dim(i, result_shape.dim(i));
    fits = result_shape.dim(i) == x_shape.dim(i);
  }
  if (!fits) {
    x.graph()->Fail(absl::InvalidArgumentError(absl::StrCat(
        "take_along_axis: but for axis ", axis, " the extents must be the same (or 1), got ",
        x.type().ToString(), " and ", indices.type().ToString())));
    return Value();
  }
  if (x.shape().dim(static_cast<int>(axis)) == 0) {
    return Splat(*x.graph(), {x.dtype(), result_shape}, 0);
  }
  if (result_shape.num_elements() == 0) {
    const int64_t taken = std::min<int64_t>(1, result_shape.dim(static_cast<int>(axis)));
    return BroadcastTo(SliceAxis(x, axis, 0, taken), result_shape);
  }
  x = BroadcastTo(x, x_shape);
  const AlongAxis along(x, BroadcastTo(indices, result_shape), axis);
  const Value taken =
      EmitGather(Reshape(x, along.x_shape), along.index, AlongAxis::Elements(), Ints(3, 1));
  return Reshape(taken, result_shape);
}

Value AddToSlice(Value x, Value update, const Values& begin) {
  Values operands{x, update};
  operands.insert(operands.end(), begin.begin(), begin.end());
  return EmitOne(kAddToSlice, std::move(operands));
}

Value PutAlongAxis(Value shape_of, Value indices, Value values, int64_t axis) {
  if (!shape_of.valid() || !indices.valid() || !values.valid()) return Value();
  const AlongAxis along(shape_of, indices, axis);
  Attributes attributes = With(AlongAxis::Elements().ToAttributes(), ScatterReducer::kSum);
  attributes.Set("unique", false);
  attributes.Set("inside", true);
  const Value zeros = Splat(*values.graph(), {values.dtype(), along.x_shape}, 0);
  const Value put =
      EmitScatter(zeros, along.index, Reshape(values, along.index_shape), std::move(attributes));
  return put.valid() ? Reshape(put, shape_of.shape()) : put;
}

Value OneHot(Value indices, int64_t depth, DType dtype) {
  if (!indices.valid()) return Value();
  if (!base::IsInteger(indices.dtype()) || indices.rank() == base::kMaxRank || depth < 0) {
    indices.graph()->Fail(absl::InvalidArgumentError(absl::StrCat(
        "one_hot: expects integers of less than ", base::kMaxRank,
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
  static constexpr const OpDef* kOps[] = {&kGather, &kScatter, &kScatterAdd, &kAddToSlice};
  return kOps;
}

}  // namespace penstock::ir
