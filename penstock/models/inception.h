// Inception networks: InceptionV3 (Szegedy et al.: Rethinking the Inception architecture for
// computer vision, 2015) and InceptionResNetV2 (Szegedy et al.: Inception-v4, Inception-ResNet and
// the impact of residual connections on learning, 2016).
//
//   nn::Network net = InceptionV3({.input_shape = {96, 96, 3}, .classes = 10});
#pragma once

#include "penstock/models/image_net.h"

namespace penstock::models {

nn::Network InceptionV3(const ImageNetOptions& options = {});
nn::Network InceptionResNetV2(const ImageNetOptions& options = {});

}  // namespace penstock::models
