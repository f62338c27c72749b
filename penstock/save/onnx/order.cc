// Translations of indexing and sorting.
#include <algorithm>

#include "penstock/save/onnx/translations.h"

namespace penstock::save::onnx {
namespace {

using ir::DType;
using ir::Extent;
using Ints = std::vector<int64_t>;

bool In(const Ints& list, int64_t x) {
  return std::find(list.begin(), list.end(), x) != list.end();
}

// ---- Gather ----

// Indices as int64, clamped to [0, extent - 1] for each component, as the operation does; ONNX's
// operations reject an index out of range.
std::string Clamped(Translator& t, const std::string& indices, const std::string& extents) {
  ModelBuilder& model = t.model();
  const DType dtype = t.operand_type(1).dtype;
  std::string index = t.Cast(indices, dtype, DType::kI64);
  const std::string one = model.Constant(base::Array::Scalar<int64_t>(1)),
                    zero = model.Constant(base::Array::Scalar<int64_t>(0));
  if (base::IsSigned(dtype)) index = model.Add("Max", {index, zero});
  return model.Add("Min", {index, model.Add("Sub", {extents, one})});
}

// Single elements along the indexed axes, and the other axes whole: Take and TakeAlongAxis.
absl::Status TranslateGather(Translator& t) {
  const auto &window = t.Attribute<Ints>("window"), &collapsed = t.Attribute<Ints>("collapsed"),
             &map = t.Attribute<Ints>("map");
  const int64_t vector = t.Attribute<int64_t>("vector");
  const Shape x = t.OperandShape(0), sizes = t.ExtentsOf("sizes");
  Axes rest;  // axes of x that are taken whole
  for (int64_t axis = 0; axis < static_cast<int64_t>(x.size()); ++axis) {
    const bool indexed = In(map, axis);
    const bool single = In(collapsed, axis) && sizes[axis] == Extent{.size = 1};
    if (indexed != single || (!indexed && !(sizes[axis] == x[axis]))) {
      return t.Unsupported("its windows are neither single elements nor whole axes");
    }
    if (!indexed) rest.push_back(axis);
  }
  Axes batch;  // axes of the result that come from the indices
  for (int64_t i = 0; i < t.node().results[0].shape.rank(); ++i) {
    if (!In(window, i)) batch.push_back(i);
  }
  ModelBuilder& model = t.model();
  const int64_t index_rank = t.node().operands[1].rank();
  // Indices along one axis: the axes before it, those of the indices, those after it.
  if (map.size() == 1) {
    std::string index = t.Full(1);
    if (vector < index_rank) index = model.Add("Squeeze", {index, model.Ints({vector})});
    index = Clamped(t, index, model.Extent(x[map[0]]));
    Axes order;
    for (size_t i = 0; i < rest.size(); ++i) {
      if (rest[i] < map[0]) order.push_back(window[i]);
    }
    order.insert(order.end(), batch.begin(), batch.end());
    for (size_t i = 0; i < rest.size(); ++i) {
      if (rest[i] > map[0]) order.push_back(window[i]);
    }
    t.SetResult(model.Add("Gather", {t.Full(0), index}, {{"axis", map[0]}}), order);
    return absl::OkStatus();
  }
  // The components of an index on the last axis, the indexed axes of x first.
  Axes components;
  for (int64_t i = 0; i < index_rank; ++i) {
    if (i != vector) components.push_back(i);
  }
  components.push_back(vector);
  Axes from = map, order = batch;
  from.insert(from.end(), rest.begin(), rest.end());
  order.insert(order.end(), window.begin(), window.end());
  const std::string index =
      Clamped(t, t.Full(t.Operand(1), components), model.Extents(InOrder(x, map)));
  t.SetResult(model.Add("GatherND", {t.Full(t.Operand(0), from), index}), order);
  return absl::OkStatus();
}

// ---- Sort ----

absl::Status TranslateSort(Translator& t) {
  const int64_t axis = t.Attribute<int64_t>("axis");
  const Extent extent = t.OperandShape(0)[axis];
  const DType dtype = t.operand_type(0).dtype;
  const DType key = base::IsFloat(dtype) || dtype == DType::kI32 ? dtype : DType::kI64;
  if (dtype == DType::kU64)
    return t.Unsupported("it orders uint64, which ONNX Runtime does not support");
  ModelBuilder& model = t.model();
  // Equal elements keep the order of their indices, as in a stable sort.
  const Names sorted =
      model.Add("TopK", {t.Cast(t.Full(0), dtype, key), model.Extents({extent})}, 2,
                {{"axis", axis}, {"largest", int64_t{t.Attribute<bool>("descending") ? 1 : 0}}});
  t.SetResult(t.Cast(sorted[0], key, dtype), 0);
  for (int i = 1; i < static_cast<int>(t.node().operands.size()); ++i) {
    t.SetResult(model.Add("GatherElements", {t.Full(i), sorted[1]}, {{"axis", axis}}), i);
  }
  return absl::OkStatus();
}

}  // namespace

TranslationTable OrderTranslations() {
  static constexpr Translation kTable[] = {
      {"stablehlo.gather", TranslateGather},
      {"stablehlo.sort", TranslateSort},
  };
  return kTable;
}

}  // namespace penstock::save::onnx
