// Patches of images, and boxes that are cut out and resized.
#include <string>
#include <utility>
#include <vector>

#include "penstock/session/ops/image_internal.h"
#include "penstock/session/ops/image_ops.h"
#include "penstock/session/ops/spatial.h"

namespace penstock::session::image {

using internal::In;
using internal::Reject;
using ir::Value;
using ir::Values;

namespace {

// Every stride-th element from `start`, `count` of them.
Value Every(Value x, int64_t axis, int64_t start, int64_t count, int64_t stride) {
  return ir::SliceAxis(x, axis, start, start + (count - 1) * stride + 1, stride);
}

Value Patches(Value x, const std::vector<int64_t>& size, const std::vector<int64_t>& strides,
              const std::vector<int64_t>& rates, const internal::Pairs& padding) {
  std::vector<ir::PadAxis> pad(4);
  int64_t count[4] = {};
  for (int axis : {1, 2}) {
    pad[axis] = {padding[axis].first, padding[axis].second};
    const int64_t extent = x.shape().dim(axis) + pad[axis].low + pad[axis].high;
    const int64_t window = (size[axis] - 1) * rates[axis] + 1;
    if (extent < window) {
      return Reject(x, "the window of ", window, " elements is larger than axis ", axis, " of ",
                    x.type().ToString());
    }
    count[axis] = (extent - window) / strides[axis] + 1;
  }
  const Value padded = ir::Pad(x, 0, pad);
  Values parts;
  for (int64_t i = 0; i < size[1]; ++i) {
    const Value rows = Every(padded, 1, i * rates[1], count[1], strides[1]);
    for (int64_t k = 0; k < size[2]; ++k) {
      parts.push_back(Every(rows, 2, k * rates[2], count[2], strides[2]));
    }
  }
  return ir::Concatenate(parts, 3);
}

// ---- Boxes ----

// Positions [boxes, out] of one axis of `extent` elements, for boxes from `low` to `high`, [boxes].
Value Positions(Value low, Value high, int64_t extent, int64_t out) {
  const double last = static_cast<double>(extent - 1);
  const Value begin = ir::ExpandDims(low, 1), end = ir::ExpandDims(high, 1);
  if (out == 1) return (begin + end) * 0.5 * last;
  const Value step = (end - begin) * last / static_cast<double>(out - 1);
  const Value index = ir::Iota(*low.graph(), {low.dtype(), Shape({1, out})}, 1);
  return begin * last + index * step;
}

// x [boxes, height, width, channels] at rows (axis 1) or columns (axis 2), [boxes, out].
Value Along(Value x, Value places, int64_t axis) {
  Shape shape({places.shape().dim(0), 1, 1, 1});
  shape.set_dim(static_cast<int>(axis), places.shape().dim(1));
  return ir::TakeAlongAxis(x, ir::Convert(ir::Reshape(places, shape), DType::kI32), axis);
}

Value Interpolated(Value x, Value positions, int64_t axis, bool bilinear) {
  if (!bilinear) return Along(x, ir::Floor(positions + 0.5), axis);
  const Value below = ir::Floor(positions);
  const Value low = Along(x, below, axis), high = Along(x, ir::Ceil(positions), axis);
  if (!low.valid() || !high.valid()) return Value();
  Shape shape({positions.shape().dim(0), 1, 1, 1});
  shape.set_dim(static_cast<int>(axis), positions.shape().dim(1));
  return low + (high - low) * ir::Reshape(positions - below, shape);
}

Value Inside(Value positions, int64_t extent) {
  const Value zero = ir::SplatLike(positions, 0);
  return ir::And(
      ir::GreaterEqual(positions, zero),
      ir::LessEqual(positions, ir::SplatLike(positions, static_cast<double>(extent - 1))));
}

Value Boxes(In in, std::pair<int64_t, int64_t> size, bool bilinear, double outside) {
  const Value &image = in[0], &boxes = in[1];
  const bool fit = image.rank() == 4 && boxes.rank() == 2 && boxes.shape().dim(1) == 4 &&
                   in[2].shape() == Shape({boxes.shape().dim(0)}) &&
                   base::IsInteger(in[2].dtype()) && boxes.dtype() == DType::kF32;
  if (!fit || size.first < 1 || size.second < 1) {
    return Reject(image, "expects images of 4 axes, float32 boxes [n, 4], integer box_ind [n] and ",
                  "a positive crop_size, got ", image.type().ToString(), ", ",
                  boxes.type().ToString(), " and ", in[2].type().ToString());
  }
  const auto column = [&](int64_t i) {
    return ir::Reshape(ir::SliceAxis(boxes, 1, i, i + 1), Shape({boxes.shape().dim(0)}));
  };
  const int64_t h = image.shape().dim(1), w = image.shape().dim(2);
  const Value rows = Positions(column(0), column(2), h, size.first);
  const Value columns = Positions(column(1), column(3), w, size.second);
  Value x = ir::Take(ir::Convert(image, DType::kF32), in[2], 0);
  x = Interpolated(x, rows, 1, bilinear);
  if (!x.valid()) return x;
  x = Interpolated(x, columns, 2, bilinear);
  if (!x.valid()) return x;
  const Value inside =
      ir::And(ir::ExpandDims(Inside(rows, h), 2), ir::ExpandDims(Inside(columns, w), 1));
  return ir::Select(ir::ExpandDims(inside, 3), x, internal::ScalarLike(x, outside));
}

}  // namespace

Tensor ExtractImagePatches(const Tensor& images, const Ints& ksizes, const Ints& strides,
                           const Ints& rates, const Padding& padding, absl::string_view name,
                           SourceLocation where) {
  return AddOp("ExtractImagePatches", {images}, name, where, [=](In in) -> Value {
    const internal::Layout layout;
    const auto size = internal::PerAxis(ksizes, layout), steps = internal::PerAxis(strides, layout),
               holes = internal::PerAxis(rates, layout);
    if (in[0].rank() != 4 || !size.has_value() || !steps.has_value() || !holes.has_value()) {
      return Reject(in[0],
                    "expects images of 4 axes, and ksizes, strides and rates of positive "
                    "numbers, got ",
                    in[0].type().ToString());
    }
    const auto pairs = internal::PaddingOf(padding, in[0].shape(), *size, *steps, *holes);
    if (!pairs.has_value()) return Reject(in[0], "padding is SAME or VALID, not ", padding.name());
    return Patches(in[0], *size, *steps, *holes, *pairs);
  });
}

Tensor CropAndResize(const Tensor& image, const Tensor& boxes, const Tensor& box_ind,
                     std::pair<int64_t, int64_t> crop_size, const CropAndResizeOptions& options,
                     SourceLocation where) {
  if (options.method != "bilinear" && options.method != "nearest") {
    return FailOp({image}, "CropAndResize",
                  absl::StrCat("method is bilinear or nearest, not \"", options.method, "\""),
                  where);
  }
  return AddOp("CropAndResize", {image, boxes, box_ind}, options.name, where, [=](In in) {
    return Boxes(in, crop_size, options.method == "bilinear", options.extrapolation_value);
  });
}

}  // namespace penstock::session::image
