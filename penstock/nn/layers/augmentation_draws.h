// Random parameters of augmentation layers, and checks of their options. Internal to room nn.
#pragma once

#include "penstock/nn/layer.h"
#include "penstock/nn/layers/sizes.h"

namespace penstock::nn::internal {

// A random number in `range` for each image: f32 [batch, 1, ..] with `rank` axes.
Value Draw(Value key, int64_t batch, int rank, const Range& range);
// Whether a transformation applies to each image: bool [batch, 1, 1, 1], true with a probability
// drawn from `probability`.
Value Chance(Value key, int64_t batch, const Range& probability);

// Whether `range` is within [low, high]; otherwise an error of the layer.
bool Within(CallContext& ctx, const char* name, const Range& range, double low, double high);

// f32 pixels `x` clamped to value_range, converted to the images' type.
Value InRange(Value x, const Range& value_range, DType dtype);

}  // namespace penstock::nn::internal
