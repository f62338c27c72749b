// Translations of reductions: over axes, over windows, and cumulative ones.
#include <algorithm>

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
  switch (KindOf(t.node())) {
    case ReduceKind::kSum:
      y = model.Add("ReduceSum", {from, model.Ints(places)}, dropped);
      break;
    case ReduceKind::kProduct:
      y = model.Add("ReduceProd", {from}, with_axes);
      break;
    case ReduceKind::kMax:
    case ReduceKind::kOr:
      y = model.Add("ReduceMax", {from}, with_axes);
      break;
    case ReduceKind::kMin:
    case ReduceKind::kAnd:
      y = model.Add("ReduceMin", {from}, with_axes);
      break;
  }
  t.SetResult(t.Cast(y, work, dtype), rest);
  return absl::OkStatus();
}

// ---- Over windows ----

absl::Status TranslateReduceWindow(Translator& t) {
  const auto &size = t.Attribute<Ints>("size"), &strides = t.Attribute<Ints>("strides"),
             &dilation = t.Attribute<Ints>("dilation");
  const size_t rank = size.size();
  bool symbolic = false;
  const auto padding_of = [&](const char* attribute) {
    Ints padding;
    for (const ir::Extent& extent : t.ExtentsOf(attribute)) {
      padding.push_back(extent.size);
      symbolic = symbolic || extent.batches != 0;
    }
    return padding;
  };
  const Ints low = padding_of("low"), high = padding_of("high");
  if (symbolic) return t.Unsupported("its padding depends on the batch size");
  const auto is_window = [&](size_t i) {
    return size[i] != 1 || strides[i] != 1 || low[i] != 0 || high[i] != 0;
  };
  if (rank < 3 || is_window(0) || is_window(rank - 1)) {
    return t.Unsupported(
        "it has windows over the first axis (the examples) or the last one (the features)");
  }
  if (!base::IsFloat(t.operand_type(0).dtype)) {
    return t.Unsupported("it reduces windows of integers");
  }
  Axes order{0, static_cast<int64_t>(rank) - 1};
  for (size_t i = 1; i + 1 < rank; ++i) order.push_back(static_cast<int64_t>(i));
  const ReduceKind kind = KindOf(t.node());
  const auto in_order = [&](const Ints& list) {
    Ints spatial;
    for (size_t i = 1; i + 1 < rank; ++i) spatial.push_back(list[i]);
    return spatial;
  };
  Ints pads = in_order(low), ends = in_order(high);
  const Ints kernel = in_order(size), holes = in_order(dilation);
  ModelBuilder& model = t.model();
  std::string x = t.Full(t.Operand(0), order);
  const DType dtype = t.operand_type(0).dtype;
  const auto number = [&](double value) { return t.Full(t.Scalar(dtype, value, {})); };
  // The operation takes less padding than a window.
  bool wide = false;
  for (size_t i = 0; i < kernel.size(); ++i) {
    wide = wide || pads[i] >= kernel[i] || ends[i] >= kernel[i];
  }
  if (wide) {
    Ints all_low{0, 0}, all_high{0, 0};
    all_low.insert(all_low.end(), pads.begin(), pads.end());
    all_high.insert(all_high.end(), ends.begin(), ends.end());
    x = PadEdges(model, x, all_low, all_high, number(ir::IdentityOf(kind, dtype)));
    std::fill(pads.begin(), pads.end(), 0);
    std::fill(ends.begin(), ends.end(), 0);
  }
  pads.insert(pads.end(), ends.begin(), ends.end());
  NodeAttributes attributes = {
      {"kernel_shape", kernel}, {"strides", in_order(strides)}, {"pads", pads}};
  std::string y;
  if (kind == ReduceKind::kSum) {
    if (std::any_of(holes.begin(), holes.end(), [](int64_t d) { return d != 1; })) {
      return t.Unsupported("opset 17 has no sums of dilated windows");
    }
    attributes.emplace_back("count_include_pad", int64_t{1});
    double count = 1;
    for (const int64_t extent : kernel) count *= static_cast<double>(extent);
    y = model.Add("Mul", {model.Add("AveragePool", {x}, attributes), number(count)});
  } else if (kind == ReduceKind::kMax || kind == ReduceKind::kMin) {
    attributes.emplace_back("dilations", holes);
    const bool negate = kind == ReduceKind::kMin;
    if (negate) x = model.Add("Neg", {x});
    y = model.Add("MaxPool", {x}, attributes);
    if (negate) y = model.Add("Neg", {y});
  } else {
    return t.Unsupported("it reduces windows by another operation than sum, maximum and minimum");
  }
  t.SetResult(y, order);
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
