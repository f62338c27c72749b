// Images read at places between and outside their pixels, for augmentation. Internal to room nn.
#pragma once

#include <string>

#include "penstock/nn/layer.h"

namespace penstock::nn::internal {

struct Sampling {
  // What lies outside: reflect (dcba|abcd|dcba), wrap, nearest, constant (fill_value).
  std::string fill_mode;
  std::string interpolation;  // bilinear, nearest
  double fill_value = 0;
};

// False, and an error of the layer, for a word that is none of those.
bool CheckSampling(CallContext& ctx, const Sampling& sampling);

// Images [batch, height, width, channels] of any dtype, read at row rows[b, y] and column
// columns[b, x] for pixel (y, x): f32 [batch or 1, height] and [batch or 1, width]. Two products
// with small matrices.
Value SampleRowsAndColumns(Value images, Value rows, Value columns, const Sampling& sampling);

// The same with rows and columns that depend on both: f32 [batch, height, width]. Gathers, one for
// each of the pixels that a place lies between.
Value SampleAnywhere(Value images, Value rows, Value columns, const Sampling& sampling);

}  // namespace penstock::nn::internal
