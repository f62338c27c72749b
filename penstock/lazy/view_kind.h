// What a view is of its parent. Views of a kind that is known by its arguments can be merged: a
// view of a view that nothing else refers to any longer is a view of that one's parent, so that
// x = x.view(...) or x = x.narrow(...) in each step makes no chain. Internal to the room.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <variant>

#include "penstock/ir/ops.h"

namespace penstock::lazy {

struct ReshapeView {
  ir::Shape shape;
};
// Axis i of the view is axis dims[i] of the parent.
struct PermuteView {
  ir::Axes dims;
};
// `count` positions of an axis.
struct SliceView {
  int64_t axis, begin, count, step;
};
// A view by its functions (record.h, RecordView).
struct OtherView {
  std::function<ir::Value(ir::Value parent)> forward;
  std::function<ir::Value(ir::Value parent, ir::Value view)> update;
};
using ViewKind = std::variant<OtherView, ReshapeView, PermuteView, SliceView>;

// The view's value.
ir::Value ForwardOf(const ViewKind& kind, ir::Value parent);
// The parent's value after the view's has become `view`.
ir::Value UpdateOf(const ViewKind& kind, ir::Value parent, ir::Value view);

// The view `second` of the view `first` as one view; not set if it is none of these kinds.
std::optional<ViewKind> Merged(const ViewKind& first, const ViewKind& second);

// x with `changed` in place of [begin, begin + changed's extent * step) along `axis`.
ir::Value ReplaceSlice(ir::Value x, ir::Value changed, int64_t axis, int64_t begin, int64_t step);

}  // namespace penstock::lazy
