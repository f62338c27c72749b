// NASNet-A (Zoph et al.: Learning transferable architectures for scalable image recognition, 2017).
//
//   nn::Network net = NASNetMobile({.input_shape = {64, 64, 3}, .classes = 10});
#pragma once

#include "penstock/models/image_net.h"

namespace penstock::models {

nn::Network NASNetMobile(const ImageNetOptions& options = {});
nn::Network NASNetLarge(const ImageNetOptions& options = {});

}  // namespace penstock::models
