// Random boxes in images, for RandomErasing and CutMix. Internal to room nn.
#pragma once

#include "penstock/ir/ops.h"

namespace penstock::nn::internal {

// Bool [batch, height, width, 1]: true inside a box at a random position, one for each image.
// `rows` and `columns`, f32[batch], are the box's sides as fractions of the image's. Position and
// sides are real numbers, as in Keras: a pixel is inside if its index is.
ir::Value RandomBoxes(ir::Value key, int64_t height, int64_t width, ir::Value rows,
                      ir::Value columns);

}  // namespace penstock::nn::internal
