// Translations of constants and of operations that move elements without computing.
#include "penstock/save/onnx/shape.h"

#include <algorithm>
#include <limits>

#include "penstock/save/onnx/translations.h"

namespace penstock::save::onnx {
namespace {

using base::Array;
using ir::DType;
using ir::Extent;
using Ints = std::vector<int64_t>;

bool IsOne(const Extent& extent) { return extent == Extent{.size = 1}; }

// Sizes, which do not depend on the batch; or an empty list.
Ints SizesOf(const Shape& shape) {
  Ints sizes;
  for (const Extent& extent : shape) {
    if (extent.batches != 0) return {};
    sizes.push_back(extent.size);
  }
  return sizes;
}

// ---- Constants ----

absl::Status TranslateConstant(Translator& t) {
  const Array& value = t.Attribute<Array>("value");
  const DType dtype = t.node().results[0].dtype;
  PENSTOCK_ASSIGN_OR_RETURN(const Array stored, value.Cast(StoredType(dtype)));
  t.SetResult(Translator::ConstantTensor(stored, t.ResultShape()));
  return absl::OkStatus();
}

// 0, 1, 2... along an axis, with extent 1 on the others.
absl::Status TranslateIota(Translator& t) {
  const DType dtype = t.node().results[0].dtype;
  const int64_t axis = t.Attribute<int64_t>("axis");
  const Shape shape = t.ResultShape();
  Tensor tensor;
  tensor.order = AllAxes(shape.size());
  for (const Extent& extent : shape) tensor.stretched.push_back(!IsOne(extent));
  tensor.stretched[axis] = false;
  Ints dims(shape.size(), 1);
  if (const Extent& extent = shape[axis]; extent.batches == 0) {
    Array numbers = Array::Uninitialized(DType::kI64, {extent.size});
    for (int64_t i = 0; i < extent.size; ++i) numbers.mutable_data<int64_t>()[i] = i;
    dims[axis] = extent.size;
    PENSTOCK_ASSIGN_OR_RETURN(const Array stored, numbers.Cast(StoredType(dtype)));
    PENSTOCK_ASSIGN_OR_RETURN(const Array shaped, stored.Reshape(base::Shape(dims)));
    tensor.known = std::make_shared<KnownTensor>(
        KnownTensor{.array = shaped, .base_name = "", .initializer = {}});
  } else {
    ModelBuilder& model = t.model();
    const std::string zero = model.Constant(Array::Scalar<int64_t>(0)),
                      one = model.Constant(Array::Scalar<int64_t>(1));
    const std::string range = model.Add("Range", {zero, model.Extent(extent), one});
    dims[axis] = -1;
    tensor.name = t.Cast(model.Add("Reshape", {range, model.Ints(dims)}), DType::kI64, dtype);
  }
  t.SetResult(std::move(tensor));
  return absl::OkStatus();
}

// ---- Broadcast, reshape, transpose, reverse ----

// Only axes of extent 1 are added; elementwise operations stretch them.
absl::Status TranslateBroadcast(Translator& t) {
  const Tensor& x = t.Operand(0);
  const auto& axes = t.Attribute<Ints>("axes");
  const Shape to = t.ResultShape();
  Tensor result;
  result.order = AllAxes(to.size());
  if (x.scalar || x.shape.empty()) {
    result = x;
    result.order = AllAxes(to.size());
    result.stretched.assign(to.size(), false);
    result.scalar = true;
    t.SetResult(std::move(result));
    return absl::OkStatus();
  }
  for (const Extent& extent : to) result.stretched.push_back(!IsOne(extent));
  for (size_t i = 0; i < axes.size(); ++i) {
    result.stretched[axes[i]] = x.stretched[i] || !(x.shape[i] == to[axes[i]]);
  }
  Ints added;
  for (int64_t axis = 0; axis < static_cast<int64_t>(to.size()); ++axis) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) added.push_back(axis);
  }
  // Stretched axes of x have extent 1 in the model; so they keep it.
  const bool in_order = x.order == AllAxes(x.shape.size());
  if (x.known != nullptr && in_order) {
    Ints dims(x.known->array.shape().begin(), x.known->array.shape().end());
    for (const int64_t axis : added) dims.insert(dims.begin() + axis, 1);
    PENSTOCK_ASSIGN_OR_RETURN(const Array shaped, x.known->array.Reshape(base::Shape(dims)));
    result.known = t.Reshaped(x.known, shaped);
  } else {
    result.name = t.Ordered(x);
    if (!added.empty())
      result.name = t.model().Add("Unsqueeze", {result.name, t.model().Ints(added)});
  }
  t.SetResult(std::move(result));
  return absl::OkStatus();
}

absl::Status TranslateReshape(Translator& t) {
  const Tensor& x = t.Operand(0);
  const Shape to = t.ResultShape();
  if (x.scalar) {
    Tensor result = x;
    result.order = AllAxes(to.size());
    result.stretched.assign(to.size(), false);
    t.SetResult(std::move(result));
    return absl::OkStatus();
  }
  if (const Array* const known = Translator::Known(x)) {
    Tensor result;
    result.order = AllAxes(to.size());
    PENSTOCK_ASSIGN_OR_RETURN(const Array shaped, known->Reshape(base::Shape(SizesOf(to))));
    result.known = t.Reshaped(x.known, shaped);
    t.SetResult(std::move(result));
    return absl::OkStatus();
  }
  t.SetResult(ReshapeTo(t.model(), t.Full(0), to));
  return absl::OkStatus();
}

absl::Status TranslateTranspose(Translator& t) {
  const Tensor& x = t.Operand(0);
  const auto& permutation = t.Attribute<Ints>("permutation");
  // Axis i of the result is axis permutation[i] of x.
  Tensor result = x;
  for (size_t i = 0; i < permutation.size(); ++i) {
    const auto at = std::find(x.order.begin(), x.order.end(), permutation[i]);
    result.order[at - x.order.begin()] = static_cast<int64_t>(i);
    result.stretched[i] = x.stretched[permutation[i]];
  }
  t.SetResult(std::move(result));
  return absl::OkStatus();
}

absl::Status TranslateReverse(Translator& t) {
  const auto& axes = t.Attribute<Ints>("axes");
  ModelBuilder& model = t.model();
  const Ints ones(axes.size(), -1), ends(axes.size(), std::numeric_limits<int64_t>::min());
  t.SetResult(model.Add("Slice", {t.Full(0), model.Ints(ones), model.Ints(ends), model.Ints(axes),
                                  model.Ints(ones)}));
  return absl::OkStatus();
}

// ---- Concatenate, slice, pad ----

absl::Status TranslateConcatenate(Translator& t) {
  const int64_t axis = t.Attribute<int64_t>("axis");
  const int count = static_cast<int>(t.node().operands.size());
  // As the first value that is in another order.
  Axes order = AllAxes(t.ResultShape().size());
  for (int i = 0; i < count; ++i) {
    if (!t.Operand(i).scalar && t.Operand(i).known == nullptr) {
      order = t.Operand(i).order;
      break;
    }
  }
  Names parts;
  for (int i = 0; i < count; ++i) parts.push_back(t.Full(t.Operand(i), order));
  const int64_t place = std::find(order.begin(), order.end(), axis) - order.begin();
  t.SetResult(t.model().Add("Concat", parts, {{"axis", place}}), order);
  return absl::OkStatus();
}

absl::Status TranslateSlice(Translator& t) {
  const Shape from = t.OperandShape(0), begin = t.ExtentsOf("begin"), end = t.ExtentsOf("end");
  const auto& strides = t.Attribute<Ints>("strides");
  const Axes order = t.Operand(0).scalar ? AllAxes(from.size()) : t.Operand(0).order;
  Shape begins, ends;
  Ints axes, steps;
  for (size_t place = 0; place < order.size(); ++place) {
    const auto axis = static_cast<size_t>(order[place]);
    if (begin[axis] == Extent{0} && end[axis] == from[axis] && strides[axis] == 1) continue;
    begins.push_back(begin[axis]);
    ends.push_back(end[axis]);
    axes.push_back(static_cast<int64_t>(place));
    steps.push_back(strides[axis]);
  }
  ModelBuilder& model = t.model();
  std::string name = t.Full(t.Operand(0), order);
  if (!axes.empty()) {
    name = model.Add("Slice", {name, model.Extents(begins), model.Extents(ends), model.Ints(axes),
                               model.Ints(steps)});
  }
  t.SetResult(name, order);
  return absl::OkStatus();
}

absl::Status TranslatePad(Translator& t) {
  const auto &low = t.Attribute<Ints>("low"), &high = t.Attribute<Ints>("high"),
             &interior = t.Attribute<Ints>("interior");
  for (const char* which : {"low", "high", "interior"}) {
    for (const Extent& extent : t.ExtentsOf(which)) {
      if (extent.batches != 0) return t.Unsupported("its padding depends on the batch size");
    }
  }
  const Axes order = t.Operand(0).scalar ? AllAxes(low.size()) : t.Operand(0).order;
  // ONNX Runtime has no kernel for integers of 16 bits.
  const DType dtype = t.operand_type(0).dtype;
  const bool narrow = dtype == DType::kI16 || dtype == DType::kU16;
  const DType work = narrow ? DType::kI32 : dtype;
  const std::string value = t.Cast(t.Full(1), dtype, work);
  Shape shape = InOrder(t.OperandShape(0), order);
  std::string name = t.Cast(t.Full(t.Operand(0), order), dtype, work);
  for (size_t place = 0; place < order.size(); ++place) {
    const int64_t holes = interior[order[place]];
    if (holes > 0 && shape[place].batches != 0) {
      return t.Unsupported("it pads between examples");
    }
    if (holes > 0) name = InsertHoles(t.model(), name, shape, place, holes, value);
  }
  Ints lows, highs;
  for (const int64_t axis : order) {
    lows.push_back(low[axis]);
    highs.push_back(high[axis]);
  }
  t.SetResult(t.Cast(PadEdges(t.model(), name, lows, highs, value), work, dtype), order);
  return absl::OkStatus();
}

absl::Status TranslateSplit(Translator& t) {
  const int64_t axis = t.Attribute<int64_t>("axis");
  const Axes order = t.Operand(0).scalar ? AllAxes(t.OperandShape(0).size()) : t.Operand(0).order;
  const int64_t place = std::find(order.begin(), order.end(), axis) - order.begin();
  const Shape sizes = t.ExtentsOf("sizes");
  const Names parts =
      t.model().Add("Split", {t.Full(t.Operand(0), order), t.model().Extents(sizes)}, sizes.size(),
                    {{"axis", place}});
  for (size_t i = 0; i < parts.size(); ++i) t.SetResult(parts[i], order, static_cast<int>(i));
  return absl::OkStatus();
}

// ---- Slices at computed places ----

// Begins, clamped so that the slice lies within x: int64, one for each axis.
std::string ClampedBegins(Translator& t, const Shape& x, const Shape& sizes, int first) {
  ModelBuilder& model = t.model();
  Names begins, lasts;
  for (size_t i = 0; i < x.size(); ++i) {
    const int operand = first + static_cast<int>(i);
    const std::string begin = t.Cast(t.Full(operand), t.operand_type(operand).dtype, DType::kI64);
    begins.push_back(model.Add("Unsqueeze", {begin, model.Ints({0})}));
  }
  const std::string last = model.Add("Sub", {model.Extents(x), model.Extents(sizes)});
  const std::string begin = model.Add("Concat", begins, {{"axis", int64_t{0}}});
  return model.Add("Min", {model.Add("Max", {begin, model.Ints({0})}), last});
}

absl::Status TranslateDynamicSlice(Translator& t) {
  const Shape x = t.OperandShape(0), sizes = t.ExtentsOf("sizes");
  if (x.empty()) {
    t.SetResult(Tensor(t.Operand(0)));
    return absl::OkStatus();
  }
  ModelBuilder& model = t.model();
  const std::string begin = ClampedBegins(t, x, sizes, 1);
  const std::string end = model.Add("Add", {begin, model.Extents(sizes)});
  t.SetResult(model.Add("Slice", {t.Full(0), begin, end}));
  return absl::OkStatus();
}

// The update, padded to its position, and a mask of the elements that it replaces.
absl::Status TranslateDynamicUpdateSlice(Translator& t) {
  const Shape x = t.OperandShape(0), sizes = t.OperandShape(1);
  if (x.empty()) {
    t.SetResult(Tensor(t.Operand(1)));
    return absl::OkStatus();
  }
  ModelBuilder& model = t.model();
  const DType dtype = t.operand_type(0).dtype, work = WorkType(dtype);
  const std::string begin = ClampedBegins(t, x, sizes, 2), extents = model.Extents(sizes);
  const std::string rest = model.Add("Sub", {model.Extents(x), extents});
  const std::string pads =
      model.Add("Concat", {begin, model.Add("Sub", {rest, begin})}, {{"axis", int64_t{0}}});
  const std::string update = model.Add("Pad", {t.Cast(t.Full(1), dtype, work), pads});
  const std::string yes = model.Constant(Array::Scalar<bool>(true)),
                    no = model.Constant(Array::Scalar<bool>(false));
  const std::string inside = model.Add("Pad", {model.Add("Expand", {yes, extents}), pads, no});
  const std::string y = model.Add("Where", {inside, update, t.Cast(t.Full(0), dtype, work)});
  t.SetResult(t.Cast(y, work, dtype));
  return absl::OkStatus();
}

}  // namespace

std::string ReshapeTo(ModelBuilder& model, const std::string& name, const Shape& to) {
  Ints sizes;
  int symbolic = 0;
  bool empty = false;
  for (const Extent& extent : to) {
    sizes.push_back(extent.batches != 0 ? -1 : extent.size);
    symbolic += extent.batches != 0 ? 1 : 0;
    empty = empty || extent == Extent{0};
  }
  // One extent can be left to the operation, unless there are no elements to infer it from.
  const std::string shape = symbolic == 1 && !empty ? model.Ints(sizes) : model.Extents(to);
  return model.Add("Reshape", {name, shape}, {{"allowzero", int64_t{empty ? 1 : 0}}});
}

std::string PadEdges(ModelBuilder& model, std::string name, const Ints& low, const Ints& high,
                     const std::string& value) {
  // Negative padding crops.
  Ints begins, ends, axes, pads;
  bool padded = false;
  for (size_t i = 0; i < low.size(); ++i) {
    pads.push_back(std::max<int64_t>(0, low[i]));
    padded = padded || low[i] > 0 || high[i] > 0;
    if (low[i] >= 0 && high[i] >= 0) continue;
    axes.push_back(static_cast<int64_t>(i));
    begins.push_back(std::max<int64_t>(0, -low[i]));
    ends.push_back(high[i] < 0 ? high[i] : std::numeric_limits<int64_t>::max());
  }
  for (const int64_t h : high) pads.push_back(std::max<int64_t>(0, h));
  // Padding comes first: it may be what is cropped at the other end.
  if (padded) name = model.Add("Pad", {name, model.Ints(pads), value});
  if (!axes.empty()) {
    name = model.Add("Slice", {name, model.Ints(begins), model.Ints(ends), model.Ints(axes)});
  }
  return name;
}

std::string InsertHoles(ModelBuilder& model, std::string name, Shape& shape, size_t axis,
                        int64_t holes, const std::string& value) {
  // [n] to [n, 1], padded to [n, 1 + holes], flattened, without the holes after the last element.
  const auto after = static_cast<int64_t>(axis) + 1;
  name = model.Add("Unsqueeze", {name, model.Ints({after})});
  Ints low(shape.size() + 1, 0), high(shape.size() + 1, 0);
  high[axis + 1] = holes;
  name = PadEdges(model, name, low, high, value);
  const int64_t n = shape[axis].size;
  shape[axis].size = n * (1 + holes);
  name = ReshapeTo(model, name, shape);
  shape[axis].size = std::max<int64_t>(0, (n - 1) * (1 + holes) + 1);
  Ints crop(shape.size(), 0);
  crop[axis] = -holes;
  return n == 0 ? name : PadEdges(model, name, Ints(shape.size(), 0), crop, value);
}

TranslationTable ShapeTranslations() {
  static constexpr Translation kTable[] = {
      {"stablehlo.constant", TranslateConstant},
      {"stablehlo.iota", TranslateIota},
      {"stablehlo.broadcast_in_dim", TranslateBroadcast},
      {"stablehlo.reshape", TranslateReshape},
      {"stablehlo.transpose", TranslateTranspose},
      {"stablehlo.reverse", TranslateReverse},
      {"stablehlo.concatenate", TranslateConcatenate},
      {"stablehlo.slice", TranslateSlice},
      {"stablehlo.pad", TranslatePad},
      {"penstock.split", TranslateSplit},
      {"stablehlo.dynamic_slice", TranslateDynamicSlice},
      {"stablehlo.dynamic_update_slice", TranslateDynamicUpdateSlice},
  };
  return kTable;
}

}  // namespace penstock::save::onnx
