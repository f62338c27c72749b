// Helpers of layers over sequences, images and volumes: input checks, and Keras's padding modes.
// Internal to room nn.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "penstock/nn/layers.h"

namespace penstock::nn::internal {

// Name of a shape: "[batch, height, width, channels]" for two spatial axes.
const char* SpatialShapeName(int axes);

// The single input, with `axes` spatial axes between batch and channels; otherwise an error and an
// invalid value.
Value SpatialInput(CallContext& ctx, const Values& inputs, int axes);
inline Value ImageInput(CallContext& ctx, const Values& inputs) {
  return SpatialInput(ctx, inputs, 2);
}

// Sliding window over the spatial axes.
struct Window {
  std::vector<int64_t> size, strides, dilation;
  std::string padding;  // "valid", "same"; "causal" if allow_causal
  bool allow_causal = false;
};
template <int N>
std::vector<int64_t> ToVector(const Size<N>& size) {
  return {size.begin(), size.end()};
}

// Low and high padding of each spatial axis of x. False, and an error of the layer, for an unknown
// padding mode, a size that is not positive, or a window larger than the padded input.
bool ResolvePadding(CallContext& ctx, const Value& x, const Window& window,
                    std::vector<std::pair<int64_t, int64_t>>& padding);

}  // namespace penstock::nn::internal
