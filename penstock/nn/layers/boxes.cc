#include "penstock/nn/layers/boxes.h"

namespace penstock::nn::internal {
namespace {

using base::DType;
using ir::Value;

// Bool [batch, n]: whether an index is inside an interval that covers the fraction `side` of n.
Value IntervalOf(int64_t n, Value side, Value position) {
  const Value length = side * static_cast<double>(n);
  const Value begin = position * (static_cast<double>(n) - length);
  const Value first = ir::ExpandDims(begin, 1), end = ir::ExpandDims(begin + length, 1);
  const Value place = ir::Iota(*side.graph(), {DType::kF32, {1, n}}, 1);
  return ir::And(ir::GreaterEqual(place, first), ir::Less(place, end));
}

}  // namespace

Value BoxesOf(int64_t height, int64_t width, const BoxSides& sides, const BoxSides& positions) {
  const Value down = IntervalOf(height, sides.down, positions.down);
  const Value across = IntervalOf(width, sides.across, positions.across);
  const int64_t batch = down.shape().dim(0);
  return ir::And(ir::Reshape(down, {batch, height, 1, 1}),
                 ir::Reshape(across, {batch, 1, width, 1}));
}

}  // namespace penstock::nn::internal
