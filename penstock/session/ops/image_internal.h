// For the sources of ops/ about images only.
#pragma once

#include <functional>

#include "penstock/session/ops/internal.h"

namespace penstock::session::internal {

// An operation on images [batch, height, width, channels]; images of 3 axes are a batch of one.
// `lower` gets inputs whose first is the batch.
using ImageFunction = std::function<ir::Value(const ir::Value& images, In in)>;
Tensor AddImageOp(absl::string_view type, const Tensors& inputs, absl::string_view name,
                  SourceLocation where, ImageFunction lower);
// `lower` of such a batch, for nodes that are added in another way.
ir::Value OnBatch(In in, const ImageFunction& lower);

// Conversion between the ranges of types (tf.image.convert_image_dtype).
ir::Value ConvertImage(ir::Value image, DType dtype, bool saturate);
// `function` of the image as float32 (float16 and float32 stay), converted back.
ir::Value InFloat(ir::Value image, bool saturate,
                  const std::function<ir::Value(ir::Value image)>& function);

}  // namespace penstock::session::internal
