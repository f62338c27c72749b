// What layers over images share: the check of their input, and Keras's two paddings. Internal to
// room nn.
#pragma once

#include <utility>
#include <vector>

#include "penstock/nn/layers.h"

namespace penstock::nn::internal {

// The one input, [batch, height, width, channels]; otherwise an error and an invalid value.
Value ImageInput(CallContext& ctx, const Values& inputs);

// Low and high padding of height and width for "valid" and "same"; an error and nothing for another
// word, for a size that is not above 0, or for a window larger than the image it must fit into.
struct Window2D {
  Size2D size, strides = 1, dilation = 1;
  std::string padding;
};
bool ResolvePadding(CallContext& ctx, const Value& image, const Window2D& window,
                    std::vector<std::pair<int64_t, int64_t>>& padding);

}  // namespace penstock::nn::internal
