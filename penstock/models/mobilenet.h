// MobileNetV2 (Sandler et al.: MobileNetV2: inverted residuals and linear bottlenecks, 2018).
// Option `alpha` multiplies the width of all layers.
//
//   nn::Network net = MobileNetV2({.input_shape = {96, 96, 3}, .classes = 10, .alpha = 0.35});
#pragma once

#include "penstock/models/image_net.h"

namespace penstock::models {

nn::Network MobileNetV2(const ImageNetOptions& options = {});

}  // namespace penstock::models
