#include "penstock/lazy/view_kind.h"

#include <algorithm>

namespace penstock::lazy {
namespace {

using ir::Value;

// ---- Values ----

Value Forward(const OtherView& view, Value parent) { return view.forward(parent); }
Value Forward(const ReshapeView& view, Value parent) { return ir::Reshape(parent, view.shape); }
Value Forward(const PermuteView& view, Value parent) { return ir::Transpose(parent, view.dims); }
Value Forward(const SliceView& view, Value parent) {
  const int64_t end = view.count == 0 ? view.begin : view.begin + (view.count - 1) * view.step + 1;
  return ir::SliceAxis(parent, view.axis, view.begin, end, view.step);
}

Value Update(const OtherView& view, Value parent, Value changed) {
  return view.update(parent, changed);
}
Value Update(const ReshapeView&, Value parent, Value changed) {
  return ir::Reshape(changed, parent.shape());
}
Value Update(const PermuteView& view, Value, Value changed) {
  ir::Axes inverse(view.dims.size());
  for (size_t i = 0; i < inverse.size(); ++i) inverse[view.dims[i]] = static_cast<int64_t>(i);
  return ir::Transpose(changed, inverse);
}
Value Update(const SliceView& view, Value parent, Value changed) {
  return ReplaceSlice(parent, changed, view.axis, view.begin, view.step);
}

// ---- Merging ----

template <typename First, typename Second>
std::optional<ViewKind> Merge(const First&, const Second&) {
  return std::nullopt;
}
std::optional<ViewKind> Merge(const ReshapeView&, const ReshapeView& second) { return second; }
std::optional<ViewKind> Merge(const PermuteView& first, const PermuteView& second) {
  PermuteView merged;
  for (const int64_t dim : second.dims) merged.dims.push_back(first.dims[dim]);
  return merged;
}
std::optional<ViewKind> Merge(const SliceView& first, const SliceView& second) {
  if (first.axis != second.axis) return std::nullopt;
  if (second.count == 0) return SliceView{first.axis, 0, 0, 1};
  // The first position lies in the parent; so does the last one, if there is another.
  const int64_t begin = first.begin + second.begin * first.step;
  const int64_t step = second.count == 1 ? 1 : first.step * second.step;
  return SliceView{first.axis, begin, second.count, step};
}

}  // namespace

Value ForwardOf(const ViewKind& kind, Value parent) {
  return std::visit([&](const auto& view) { return Forward(view, parent); }, kind);
}

Value UpdateOf(const ViewKind& kind, Value parent, Value changed) {
  return std::visit([&](const auto& view) { return Update(view, parent, changed); }, kind);
}

std::optional<ViewKind> Merged(const ViewKind& first, const ViewKind& second) {
  return std::visit([](const auto& a, const auto& b) { return Merge(a, b); }, first, second);
}

Value ReplaceSlice(Value x, Value changed, int64_t axis, int64_t begin, int64_t step) {
  const int64_t extent = x.shape().dim(static_cast<int>(axis)),
                count = changed.shape().dim(static_cast<int>(axis));
  if (count == 0) return x;
  if (step == 1) {
    ir::Values parts;
    if (begin > 0) parts.push_back(ir::SliceAxis(x, axis, 0, begin));
    parts.push_back(changed);
    if (begin + count < extent) parts.push_back(ir::SliceAxis(x, axis, begin + count, extent));
    return parts.size() == 1 ? parts[0] : ir::Concatenate(parts, axis);
  }
  const int64_t covered = (count - 1) * step + 1;
  std::vector<ir::PadAxis> padding(x.rank());
  padding[axis] = {begin, extent - begin - covered, step - 1};
  Shape row(std::vector<int64_t>(x.rank(), 1));
  row.set_dim(static_cast<int>(axis), count);
  const Value ones = ir::Splat(*x.graph(), {DType::kI32, row}, 1);
  const Value chosen =
      ir::Greater(ir::Pad(ones, 0, padding), ir::Splat(*x.graph(), {DType::kI32, {}}, 0));
  const Value spread =
      x.dtype() == DType::kBool
          ? ir::Convert(ir::Pad(ir::Convert(changed, DType::kI32), 0, padding), DType::kBool)
          : ir::Pad(changed, 0, padding);
  return ir::Select(chosen, spread, x);
}

}  // namespace penstock::lazy
