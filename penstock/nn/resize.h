// Moving and resizing images as products with small matrices, one for rows and one for columns,
// instead of gathers: matrix products are what accelerators do best, and they have gradients.
// Internal to room nn.
#pragma once

#include <string>

#include "penstock/nn/layer.h"

namespace penstock::nn::internal {

// rows [B or 1, out, height] and columns [B or 1, out, width], of f32, applied to images of f32 [B,
// height, width, C].
Value ApplyMatrices(Value rows, Value columns, Value images);

// The matrix [1, out, in] that makes `out` positions of the window [begin, begin + extent) of `in`
// positions, with half-pixel centres, as jax.image.resize. `interpolation` is one of
// InterpolationNames(); `antialias` widens it when there are fewer positions than before. A row
// sums to 1.
Array ResizeMatrix(int64_t in, int64_t begin, int64_t extent, int64_t out,
                   const std::string& interpolation, bool antialias);
bool IsInterpolation(const std::string& name);
std::string InterpolationNames();  // "bilinear, nearest, ..."

// Images, of any dtype, to height x width; reckoned in float32, for integers rounded and kept
// within their range. Errors are the layer's.
struct ResizeOptions {
  std::string interpolation = "bilinear";
  bool antialias = false;
  // The largest centred window of the wanted aspect ratio instead of the whole image.
  bool crop_to_aspect_ratio = false;
  // The image with a border of `fill_value` that gives it the wanted aspect ratio.
  bool pad_to_aspect_ratio = false;
  double fill_value = 0;
};
Value Resize(CallContext& ctx, Value images, int64_t height, int64_t width,
             const ResizeOptions& options);

// x, reckoned in f32, as `dtype`: integers are rounded and kept within their range.
Value ToPixels(Value x, DType dtype);

}  // namespace penstock::nn::internal
