// Resizing and translation of images as products with small matrices, one for rows and one for
// columns, instead of gathers: accelerators are fastest at matrix products, and these are
// differentiable. Internal to room nn.
#pragma once

#include <string>

#include "penstock/nn/layer.h"

namespace penstock::nn::internal {

// Applies rows [B or 1, out, height] and columns [B or 1, out, width], f32, to f32 images [B,
// height, width, C].
Value ApplyMatrices(Value rows, Value columns, Value images);

// Matrix [1, out, in] that resamples the window [begin, begin + extent) of `in` positions to `out`
// positions, with half-pixel centers, as jax.image.resize. `interpolation` is one of
// InterpolationNames(); `antialias` widens the filter when downsampling. The elements of a row sum
// to 1.
Array ResizeMatrix(int64_t in, int64_t begin, int64_t extent, int64_t out,
                   const std::string& interpolation, bool antialias);
bool IsInterpolation(const std::string& name);
std::string InterpolationNames();  // "bilinear, nearest, ..."

// Resizes images of any dtype to height x width. Computes in float32; integers are rounded and
// clamped to their range. Errors are reported as errors of the layer.
struct ResizeOptions {
  std::string interpolation = "bilinear";
  bool antialias = false;
  // Uses the largest centered window of the target aspect ratio instead of the whole image.
  bool crop_to_aspect_ratio = false;
  // Pads the image with a border of `fill_value` to the target aspect ratio.
  bool pad_to_aspect_ratio = false;
  double fill_value = 0;
};
Value Resize(CallContext& ctx, Value images, int64_t height, int64_t width,
             const ResizeOptions& options);

// Converts float32 pixels to `dtype`; integers are rounded and clamped to their range.
Value ToPixels(Value x, DType dtype);

}  // namespace penstock::nn::internal
