// Reductions over sliding windows: pooling.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/printer.h"
#include "penstock/ir/reducer.h"

namespace penstock::ir {
namespace {

using Ints = std::vector<int64_t>;

struct Window {
  Ints size, strides, dilation, low, high;
  ReduceKind kind;

  int64_t reach(int i) const { return (size[i] - 1) * dilation[i] + 1; }
};

Window FromAttributes(const Attributes& a) {
  return {a.Get<Ints>("size"),     a.Get<Ints>("strides"),
          a.Get<Ints>("dilation"), a.Get<Ints>("low"),
          a.Get<Ints>("high"),     static_cast<ReduceKind>(a.Get<int64_t>("kind"))};
}

InferResult InferReduceWindow(const Node& node) {
  const TensorType& from = node.operands[0].type();
  const Window w = FromAttributes(node.attributes);
  const size_t rank = from.shape.rank();
  if (w.size.size() != rank || w.strides.size() != rank || w.dilation.size() != rank ||
      w.low.size() != rank) {
    return OpError(node, absl::StrCat("wants a window, strides and padding for each axis of ",
                                      from.ToString()));
  }
  if (from.dtype == DType::kBool)
    return OpError(node, absl::StrCat("wants numbers, got ", from.ToString()));
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

// Each input element gets the cotangents of all windows it is in: a sum over windows again, of the
// cotangent spread by the strides.
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

// The cotangent of each window goes to the first of its elements that equals the result. Written as
// slices and pads, one for each place in the window: select_and_scatter, the operation made for
// this, is several times slower on CPUs and has no second derivative.
Value ExtremeGradient(const GradientArgs& g, const Window& w) {
  const Value x = g.operand(0), result = g.result();
  const Shape &in = x.shape(), &out = result.shape();
  if (out.num_elements() == 0) return SplatLike(x, 0);
  std::vector<PadAxis> edges, crop;
  for (int i = 0; i < in.rank(); ++i) {
    edges.push_back({w.low[i], w.high[i], 0});
    crop.push_back({-w.low[i], -w.high[i], 0});
  }
  const Value padded = Pad(x, IdentityOf(w.kind, x.dtype()), edges);
  const Value none = SplatLike(g.cotangent(), 0);
  Value sum, free;  // free: windows that have found nobody yet
  Ints place(in.rank());
  for (bool more = true; more;) {
    Ints begin, end, strides;
    std::vector<PadAxis> back;
    for (int i = 0; i < in.rank(); ++i) {
      const int64_t first = place[i] * w.dilation[i], spread = (out.dim(i) - 1) * w.strides[i] + 1;
      begin.push_back(first);
      end.push_back(first + spread);
      strides.push_back(w.strides[i]);
      back.push_back({first, padded.shape().dim(i) - first - spread, w.strides[i] - 1});
    }
    const Value equal = Equal(Slice(padded, begin, end, strides), result);
    const Value wins = free.valid() ? And(equal, free) : equal;
    free = free.valid() ? And(free, Not(equal)) : Not(equal);
    const Value part = Pad(Select(wins, g.cotangent(), none), 0, back);
    sum = sum.valid() ? sum + part : part;
    more = false;
    for (int i = in.rank(); i-- > 0 && !more;) {
      more = ++place[i] < w.size[i];
      if (!more) place[i] = 0;
    }
  }
  return Pad(sum, 0, crop);
}

void PrintReduceWindow(Printer& printer, const Node& node) {
  const Window w = FromAttributes(node.attributes);
  const TensorType& from = node.operands[0].type();
  const std::string scalar = MlirType({from.dtype, {}});
  const std::string init = printer.Scalar(from.dtype, IdentityOf(w.kind, from.dtype), node);
  std::vector<std::string> padding;
  for (size_t i = 0; i < w.low.size(); ++i)
    padding.push_back(absl::StrCat("[", w.low[i], ", ", w.high[i], "]"));
  const std::string a = printer.FreshName(), b = printer.FreshName(), sum = printer.FreshName();
  printer.OpenLine(node, absl::StrCat("\"stablehlo.reduce_window\"(", printer.Names(node.operands),
                                      ", ", init, ") ({"));
  printer.Indent(1);
  printer.PlainLine(absl::StrCat("^bb0(", a, ": ", scalar, ", ", b, ": ", scalar, "):"));
  printer.PlainLine(absl::StrCat(sum, " = ", StableHloOf(w.kind), " ", a, ", ", b, " : ", scalar));
  printer.PlainLine(absl::StrCat("stablehlo.return ", sum, " : ", scalar));
  printer.Indent(-1);
  printer.CloseLine(
      node, absl::StrCat("}) {padding = dense<[", absl::StrJoin(padding, ", "), "]> : tensor<",
                         w.low.size(), "x2xi64>, window_dilations = ", MlirArray(w.dilation),
                         ", window_dimensions = ", MlirArray(w.size),
                         ", window_strides = ", MlirArray(w.strides), "} : (", MlirType(from), ", ",
                         scalar, ") -> ", MlirType(node.results[0])));
}

const OpDef kReduceWindow = {
    .name = "stablehlo.reduce_window",
    .infer = InferReduceWindow,
    .gradient = [](const GradientArgs& g) -> Values {
      const Window w = FromAttributes(g.node.attributes);
      return {w.kind == ReduceKind::kSum ? SumGradient(g, w) : ExtremeGradient(g, w)};
    },
    .print = PrintReduceWindow};

Value Emit(Value x, const Window& w) {
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
  static constexpr const OpDef* kOps[] = {&kReduceWindow};
  return kOps;
}

}  // namespace penstock::ir
