// Translations of reductions: over axes, over windows, and cumulative ones.
#include <algorithm>

#include "penstock/base/status.h"
#include "penstock/ir/operations/reducer.h"
#include "penstock/save/onnx/shape.h"
#include "penstock/save/onnx/translations.h"

namespace penstock::save::onnx {
namespace {

using ir::DType;
using ir::ReduceKind;
using Ints = std::vector<int64_t>;

ReduceKind KindOf(const ir::Node& node) {
  return static_cast<ReduceKind>(node.attributes.Get<int64_t>("kind"));
}

// ONNX Runtime's reductions take these types.
DType ReductionType(DType dtype) {
  if (base::IsFloat(dtype) || dtype == DType::kI64) return dtype;
  return dtype == DType::kBool || base::BitWidth(dtype) < 32 ? DType::kI32
         : dtype == DType::kI32                              ? DType::kI32
                                                             : DType::kI64;
}

// ---- Over axes ----

absl::Status TranslateReduce(Translator& t) {
  const auto& axes = t.Attribute<Ints>("axes");
  const DType dtype = t.operand_type(0).dtype, work = ReductionType(dtype);
  const ReduceKind kind = KindOf(t.node());
  if (dtype == DType::kU64 && (kind == ReduceKind::kMax || kind == ReduceKind::kMin)) {
    return t.Unsupported("ONNX Runtime lacks it for uint64");
  }
  const Tensor& x = t.Operand(0);
  const Axes order = x.scalar ? AllAxes(x.shape.size()) : x.order;
  // Places of the reduced axes, and the order of those that remain.
  Ints places;
  Axes rest;
  for (size_t i = 0; i < order.size(); ++i) {
    if (std::find(axes.begin(), axes.end(), order[i]) != axes.end()) {
      places.push_back(static_cast<int64_t>(i));
      continue;
    }
    const auto below =
        std::count_if(axes.begin(), axes.end(), [&](int64_t axis) { return axis < order[i]; });
    rest.push_back(order[i] - below);
  }
  ModelBuilder& model = t.model();
  const std::string from = t.Cast(t.Full(x, order), dtype, work);
  std::string y;
  const NodeAttributes dropped = {{"keepdims", int64_t{0}}};
  const NodeAttributes with_axes = {{"axes", places}, {"keepdims", int64_t{0}}};
  switch (kind) {
    case ReduceKind::kSum:
    case ReduceKind::kOr:  // of numbers 0 and 1; false if there are none
      y = model.Add("ReduceSum", {from, model.Ints(places)}, dropped);
      break;
    case ReduceKind::kProduct:
    case ReduceKind::kAnd:
      y = model.Add("ReduceProd", {from}, with_axes);
      break;
    case ReduceKind::kMax:
      y = model.Add("ReduceMax", {from}, with_axes);
      break;
    case ReduceKind::kMin:
      y = model.Add("ReduceMin", {from}, with_axes);
      break;
  }
  t.SetResult(t.Cast(y, work, dtype), rest);
  return absl::OkStatus();
}

// ---- Over windows ----

// The axes of pooling operations: two without windows, the examples and the features, then the
// others.
struct PoolingAxes {
  Axes order;  // axes of the value
  Ints added;  // places of axes of extent 1, which stand for the missing ones of the first two
  Axes spatial;
};

// If several axes have no windows, the first and the last of these come first.
PoolingAxes PoolingAxesOf(const std::vector<bool>& has_window) {
  PoolingAxes axes;
  for (size_t i = 0; i < has_window.size(); ++i) {
    (has_window[i] ? axes.spatial : axes.order).push_back(static_cast<int64_t>(i));
  }
  if (axes.order.size() > 2) {
    axes.spatial.insert(axes.spatial.end(), axes.order.begin() + 1, axes.order.end() - 1);
    std::sort(axes.spatial.begin(), axes.spatial.end());
    axes.order = {axes.order.front(), axes.order.back()};
  }
  for (auto i = static_cast<int64_t>(axes.order.size()); i < 2; ++i) axes.added.push_back(i);
  axes.order.insert(axes.order.end(), axes.spatial.begin(), axes.spatial.end());
  return axes;
}

struct Windows {
  Ints size, strides, dilation, low, high;
};

// The operations take less padding than a window, and no window of padding alone.
bool NeedsPad(const Windows& w) {
  bool needs = false;
  for (size_t i = 0; i < w.size.size(); ++i) {
    const auto [minimum, maximum] = std::minmax(w.low[i], w.high[i]);
    needs = needs || minimum < 0 || maximum >= w.size[i] || (w.dilation[i] > 1 && maximum > 0);
  }
  return needs;
}

// Reduces windows over the axes after the first two.
absl::StatusOr<std::string> Pool(Translator& t, std::string x, Windows w) {
  const ReduceKind kind = KindOf(t.node());
  const DType dtype = t.operand_type(0).dtype;
  ModelBuilder& model = t.model();
  const auto number = [&](double value) { return t.Full(t.Scalar(dtype, value, {})); };
  if (NeedsPad(w)) {
    Ints low{0, 0}, high{0, 0};
    low.insert(low.end(), w.low.begin(), w.low.end());
    high.insert(high.end(), w.high.begin(), w.high.end());
    x = PadEdges(model, x, low, high, number(ir::IdentityOf(kind, dtype)));
    w.low.assign(w.low.size(), 0);
    w.high.assign(w.high.size(), 0);
  }
  Ints pads = w.low;
  pads.insert(pads.end(), w.high.begin(), w.high.end());
  NodeAttributes attributes = {{"kernel_shape", w.size}, {"strides", w.strides}, {"pads", pads}};
  if (kind == ReduceKind::kSum) {
    if (std::any_of(w.dilation.begin(), w.dilation.end(), [](int64_t d) { return d != 1; })) {
      return t.Unsupported("opset 17 has no sums of dilated windows");
    }
    if (dtype == DType::kF64) return t.Unsupported("ONNX Runtime lacks it for float64");
    attributes.emplace_back("count_include_pad", int64_t{1});
    double count = 1;
    for (const int64_t extent : w.size) count *= static_cast<double>(extent);
    return model.Add("Mul", {model.Add("AveragePool", {x}, attributes), number(count)});
  }
  if (kind != ReduceKind::kMax && kind != ReduceKind::kMin) {
    return t.Unsupported("it reduces windows by another operation than sum, maximum and minimum");
  }
  attributes.emplace_back("dilations", w.dilation);
  if (kind == ReduceKind::kMax) return model.Add("MaxPool", {x}, attributes);
  return model.Add("Neg", {model.Add("MaxPool", {model.Add("Neg", {x})}, attributes)});
}

absl::Status TranslateReduceWindow(Translator& t) {
  const auto &size = t.Attribute<Ints>("size"), &strides = t.Attribute<Ints>("strides");
  for (const char* padding : {"low", "high"}) {
    for (const ir::Extent& extent : t.ExtentsOf(padding)) {
      if (extent.batches != 0) return t.Unsupported("its padding depends on the batch size");
    }
  }
  const auto &low = t.Attribute<Ints>("low"), &high = t.Attribute<Ints>("high");
  if (!base::IsFloat(t.operand_type(0).dtype)) {
    return t.Unsupported("it reduces windows of integers");
  }
  std::vector<bool> has_window;
  for (size_t i = 0; i < size.size(); ++i) {
    has_window.push_back(size[i] != 1 || strides[i] != 1 || low[i] != 0 || high[i] != 0);
  }
  const PoolingAxes axes = PoolingAxesOf(has_window);
  if (std::count(has_window.begin(), has_window.end(), true) == 0) {
    t.SetResult(Tensor(t.Operand(0)));
    return absl::OkStatus();
  }
  if (axes.spatial.size() > 3) {
    return t.Unsupported("ONNX Runtime takes windows over at most 3 axes");
  }
  const auto of = [&](const Ints& list) {
    Ints spatial;
    for (const int64_t axis : axes.spatial) spatial.push_back(list[axis]);
    return spatial;
  };
  ModelBuilder& model = t.model();
  std::string x = t.Full(t.Operand(0), axes.order);
  if (!axes.added.empty()) x = model.Add("Unsqueeze", {x, model.Ints(axes.added)});
  PENSTOCK_ASSIGN_OR_RETURN(std::string y, Pool(t, x,
                                                {.size = of(size),
                                                 .strides = of(strides),
                                                 .dilation = of(t.Attribute<Ints>("dilation")),
                                                 .low = of(low),
                                                 .high = of(high)}));
  if (!axes.added.empty()) y = model.Add("Squeeze", {y, model.Ints(axes.added)});
  t.SetResult(y, axes.order);
  return absl::OkStatus();
}

// ---- Cumulative ----

bool IsCumulativeSum(const ir::Node& node) { return KindOf(node) == ReduceKind::kSum; }

absl::Status TranslateCumulativeSum(Translator& t) {
  const DType dtype = t.operand_type(0).dtype, work = ReductionType(dtype);
  const std::string axis =
      t.model().Constant(base::Array::Scalar<int64_t>(t.Attribute<int64_t>("axis")));
  const std::string y = t.model().Add("CumSum", {t.Cast(t.Full(0), dtype, work), axis},
                                      {{"reverse", int64_t{t.Attribute<bool>("reverse") ? 1 : 0}}});
  t.SetResult(t.Cast(y, work, dtype));
  return absl::OkStatus();
}

}  // namespace

TranslationTable WindowTranslations() {
  static constexpr Translation kTable[] = {
      {"stablehlo.reduce", TranslateReduce},
      {"stablehlo.reduce_window", TranslateReduceWindow},
      {"penstock.cumulative", TranslateCumulativeSum, IsCumulativeSum},
  };
  return kTable;
}

}  // namespace penstock::save::onnx
