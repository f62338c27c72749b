// Random boxes in images, for RandomErasing and CutMix. Internal to room nn.
#pragma once

#include "penstock/ir/ops.h"

namespace penstock::nn::internal {

// Sides of boxes as fractions of the images' sides, and their positions: f32[batch] from 0 to 1,
// where position 0 is at the top or left end and 1 at the other end.
struct BoxSides {
  ir::Value down, across;
};

// Bool [batch, height, width, 1]: true inside an image's box. Positions and sides are real numbers,
// as in Keras: a pixel is inside if its index is.
ir::Value BoxesOf(int64_t height, int64_t width, const BoxSides& sides, const BoxSides& positions);

}  // namespace penstock::nn::internal
