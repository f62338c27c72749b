// Reductions over sliding windows: pooling.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/ir/op_def.h"
#include "penstock/ir/operations/reducer.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/printer.h"

namespace penstock::ir {
namespace {

using Ints = std::vector<int64_t>;

struct Window {
  Ints size, strides, dilation, low, high;
  ReduceKind kind;

  int64_t reach(int i) const { return (size[i] - 1) * dilation[i] + 1; }
};

Window WindowFromAttributes(const Attributes& a) {
  return {a.Get<Ints>("size"),     a.Get<Ints>("strides"),
          a.Get<Ints>("dilation"), a.Get<Ints>("low"),
          a.Get<Ints>("high"),     static_cast<ReduceKind>(a.Get<int64_t>("kind"))};
}

InferResult InferReduceWindow(const Node& node) {
  const TensorType& from = node.operands[0].type();
  const Window w = WindowFromAttributes(node.attributes);
  const size_t rank = from.shape.rank();
  if (w.size.size() != rank || w.strides.size() != rank || w.dilation.size() != rank ||
      w.low.size() != rank) {
    return OpError(node, absl::StrCat("expects a window, strides and padding for each axis of ",
                                      from.ToString()));
  }
  if (from.dtype == DType::kBool)
    return OpError(node, absl::StrCat("expects numbers, got ", from.ToString()));
  Ints dims;
  for (size_t i = 0; i < rank; ++i) {
    if (w.size[i] < 1 || w.strides[i] < 1 || w.dilation[i] < 1) {
      return OpError(node, "window, strides and dilation must be above 0");
    }
    const int64_t extent = from.shape.dim(i) + w.low[i] + w.high[i];
    dims.push_back(extent < w.reach(i) ? 0 : (extent - w.reach(i)) / w.strides[i] + 1);
  }
  return std::vector<TensorType>{{from.dtype, Shape(dims)}};
}

Value Emit(Value x, const Window& w);

// Gradient of a sum: each element gets the cotangents of all windows that contain it, which is a
// sum over windows of the cotangent dilated by the strides.
Value SumGradient(const GradientArgs& g, const Window& w) {
  const Shape &in = g.operand(0).shape(), &out = g.result().shape();
  if (out.num_elements() == 0) return SplatLike(g.operand(0), 0);
  std::vector<PadAxis> padding;
  for (int i = 0; i < in.rank(); ++i) {
    const int64_t low = w.reach(i) - 1 - w.low[i];
    const int64_t spread = (out.dim(i) - 1) * w.strides[i] + 1;
    padding.push_back({low, in.dim(i) + w.reach(i) - 1 - low - spread, w.strides[i] - 1});
  }
  Window whole = w;
  whole.strides.assign(in.rank(), 1);
  whole.low.assign(in.rank(), 0);
  whole.high.assign(in.rank(), 0);
  return Emit(Pad(g.cotangent(), 0, padding), whole);
}

// The window along one axis.
Window Along(const Window& w, int axis) {
  const size_t rank = w.size.size();
  Window one{Ints(rank, 1), Ints(rank, 1), Ints(rank, 1), Ints(rank, 0), Ints(rank, 0), w.kind};
  one.size[axis] = w.size[axis];
  one.strides[axis] = w.strides[axis];
  one.dilation[axis] = w.dilation[axis];
  one.low[axis] = w.low[axis];
  one.high[axis] = w.high[axis];
  return one;
}

// Gradient for windows along one axis of x, with results y: each window's cotangent goes to its
// first element that equals the result.
Value ExtremeGradientAlong(Value x, Value y, Value cotangent, const Window& w, int axis) {
  std::vector<PadAxis> edges(x.rank());
  edges[axis] = {w.low[axis], w.high[axis], 0};
  const Value padded = Pad(x, IdentityOf(w.kind, x.dtype()), edges);
  const int64_t stride = w.strides[axis], spread = (y.shape().dim(axis) - 1) * stride + 1;
  const auto number = [&](int64_t k) {
    return Splat(*x.graph(), {DType::kI32, y.shape()}, static_cast<double>(k));
  };
  Value winner = number(-1);  // index for each window; -1 if the result is NaN
  for (int64_t k = w.size[axis]; k-- > 0;) {
    const int64_t first = k * w.dilation[axis];
    const Value element = SliceAxis(padded, axis, first, first + spread, stride);
    winner = Select(Equal(element, y), number(k), winner);
  }
  Value sum;
  for (int64_t k = 0; k < w.size[axis]; ++k) {
    const int64_t first = k * w.dilation[axis];
    std::vector<PadAxis> back(x.rank());
    back[axis] = {first - w.low[axis], padded.shape().dim(axis) - first - spread - w.high[axis],
                  stride - 1};
    const Value part = Select(Equal(winner, number(k)), cotangent, SplatLike(cotangent, 0));
    const Value placed = Pad(part, 0, back);
    sum = sum.valid() ? sum + placed : placed;
  }
  return sum;
}

// The maximum over a rectangle is the maximum over its rows' maxima, and the first maximum in
// row-major order is the first one in the first row that contains it. So the gradient is computed
// axis by axis, in time proportional to the sum of the window's sides, not their product. It uses
// slices and pads: select_and_scatter, the operation for this, is several times slower on CPUs and
// has no second derivative. Operands: x, the windows' maxima, their cotangent.
Values DecomposeExtremeGradient(Graph&, const Node& node, const Values& in) {
  const Window w = WindowFromAttributes(node.attributes);
  if (in[1].shape().num_elements() == 0) return {SplatLike(in[0], 0)};
  std::vector<int> axes;  // innermost first
  for (int i = in[0].rank(); i-- > 0;) {
    if (w.size[i] > 1 || w.strides[i] > 1 || w.low[i] != 0 || w.high[i] != 0) axes.push_back(i);
  }
  Values stages{in[0]};
  for (size_t i = 0; i + 1 < axes.size(); ++i) {
    stages.push_back(Emit(stages.back(), Along(w, axes[i])));
  }
  stages.push_back(in[1]);
  Value cotangent = in[2];
  for (size_t i = axes.size(); i-- > 0;) {
    cotangent = ExtremeGradientAlong(stages[i], stages[i + 1], cotangent, w, axes[i]);
  }
  return {cotangent};
}

const OpDef kExtremeGradient = {.name = "penstock.reduce_window_gradient",
                                .infer = InferByDecomposing,
                                .gradient = GradientByDecomposing,
                                .decompose = DecomposeExtremeGradient};

void PrintReduceWindow(Printer& printer, const Node& node) {
  const Window w = WindowFromAttributes(node.attributes);
  const TensorType& from = node.operands[0].type();
  const std::string scalar = MlirType({from.dtype, {}});
  const std::string init = printer.Splat({from.dtype, {}}, IdentityOf(w.kind, from.dtype));
  std::vector<std::string> padding;
  for (size_t i = 0; i < w.low.size(); ++i) {
    padding.push_back(MlirList({w.low[i], w.high[i]}));
  }
  printer.OpenLine(node, absl::StrCat("\"stablehlo.reduce_window\"(", printer.Names(node.operands),
                                      ", ", init, ") ({"));
  printer.ReducerRegion(StableHloOf(w.kind), from.dtype);
  printer.CloseLine(absl::StrCat(
      "}) {padding = dense<[", absl::StrJoin(padding, ", "), "]> : tensor<", w.low.size(),
      "x2xi64>, window_dilations = ", MlirArray(w.dilation),
      ", window_dimensions = ", MlirArray(w.size), ", window_strides = ", MlirArray(w.strides),
      "} : (", MlirType(from), ", ", scalar, ") -> ", MlirType(node.results[0])));
}

const OpDef kReduceWindow = {
    .name = "stablehlo.reduce_window",
    .infer = InferReduceWindow,
    .gradient = [](const GradientArgs& g) -> Values {
      const Window w = WindowFromAttributes(g.node.attributes);
      if (w.kind == ReduceKind::kSum) return {SumGradient(g, w)};
      return {
          EmitOne(kExtremeGradient, {g.operand(0), g.result(), g.cotangent()}, g.node.attributes)};
    },
    .print = PrintReduceWindow};

// Turns negative padding into a slice of the input: XLA aborts the process on a window of one
// element with it (seen with jaxlib 0.8 and 0.10). Leaves an invalid combination for the operation
// to report.
void Crop(Value& x, Window& w) {
  const size_t rank = x.rank();
  const auto negative = [](const Ints& padding) {
    return std::any_of(padding.begin(), padding.end(), [](int64_t p) { return p < 0; });
  };
  if ((!negative(w.low) && !negative(w.high)) || w.low.size() != rank || w.high.size() != rank) {
    return;
  }
  Ints begin(rank), end(rank);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t size = x.shape().dim(static_cast<int>(i)), extent = size + w.low[i] + w.high[i];
    begin[i] = std::max<int64_t>(0, -w.low[i]);
    end[i] = size - std::max<int64_t>(0, -w.high[i]);
    w.low[i] = std::max<int64_t>(0, w.low[i]);
    w.high[i] = std::max<int64_t>(0, w.high[i]);
    if (begin[i] < end[i]) continue;
    begin[i] = end[i] = 0;  // only padding is left
    w.low[i] = std::max<int64_t>(0, extent);
    w.high[i] = 0;
  }
  x = Slice(x, begin, end);
}

Value Emit(Value x, const Window& given) {
  Window w = given;
  Crop(x, w);
  return EmitOne(kReduceWindow, {x},
                 {{"size", w.size},
                  {"strides", w.strides},
                  {"dilation", w.dilation},
                  {"low", w.low},
                  {"high", w.high},
                  {"kind", static_cast<int64_t>(w.kind)}});
}

}  // namespace

Value ReduceWindow(Value x, WindowReducer reducer, const WindowOptions& options) {
  if (!x.valid()) return x;
  const size_t rank = x.rank();
  Window w;
  w.size = options.size.empty() ? Ints(rank, 1) : options.size;
  w.strides = options.strides.empty() ? Ints(rank, 1) : options.strides;
  w.dilation = options.dilation.empty() ? Ints(rank, 1) : options.dilation;
  for (const auto& [low, high] : options.padding) {
    w.low.push_back(low);
    w.high.push_back(high);
  }
  if (options.padding.empty()) w.low = w.high = Ints(rank, 0);
  w.kind = reducer == WindowReducer::kSum   ? ReduceKind::kSum
           : reducer == WindowReducer::kMax ? ReduceKind::kMax
                                            : ReduceKind::kMin;
  return Emit(x, w);
}

OpList WindowOps() {
  static constexpr const OpDef* kOps[] = {&kReduceWindow, &kExtremeGradient};
  return kOps;
}

}  // namespace penstock::ir
