// Sampling of images at positions between and outside their pixels, for augmentation. Internal to
// room nn.
#pragma once

#include <string>

#include "penstock/nn/layer.h"

namespace penstock::nn::internal {

struct Sampling {
  // Values outside the image: reflect (dcba|abcd|dcba), wrap, nearest, constant (fill_value).
  std::string fill_mode;
  std::string interpolation;  // bilinear, nearest
  double fill_value = 0;
};

// False, and an error of the layer, for an unknown mode.
bool CheckSampling(CallContext& ctx, const Sampling& sampling);

// Images [batch, height, width, channels] of any dtype, sampled at row rows[b, y] and column
// columns[b, x] for pixel (y, x): f32 [batch or 1, height] and [batch or 1, width]. Separable:
// computed as two products with small matrices.
Value SampleRowsAndColumns(Value images, Value rows, Value columns, const Sampling& sampling);

// The same for rows and columns that depend on both coordinates: f32 [batch, height, width].
// Computed by gathers, one for each neighboring pixel.
Value SampleAnywhere(Value images, Value rows, Value columns, const Sampling& sampling);

}  // namespace penstock::nn::internal
