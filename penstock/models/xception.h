// Xception (Chollet: Xception: deep learning with depthwise separable convolutions, 2016).
//
//   nn::Network net = Xception({.input_shape = {96, 96, 3}, .classes = 10});
#pragma once

#include "penstock/models/image_net.h"

namespace penstock::models {

nn::Network Xception(const ImageNetOptions& options = {});

}  // namespace penstock::models
