// MobileNets (Howard et al.: MobileNets: efficient convolutional neural networks for mobile vision
// applications, 2017; Sandler et al.: MobileNetV2: inverted residuals and linear bottlenecks, 2018;
// Howard et al.: Searching for MobileNetV3, 2019). Option `alpha` multiplies the width of all
// layers.
//
//   nn::Network net = MobileNetV2({.input_shape = {96, 96, 3}, .classes = 10, .alpha = 0.35});
#pragma once

#include "penstock/models/image_net.h"

namespace penstock::models {

// Options of its own: depth_multiplier, dropout (default 0.001).
nn::Network MobileNet(const ImageNetOptions& options = {});

nn::Network MobileNetV2(const ImageNetOptions& options = {});
// torchvision's variant, which PyTorch's weights fit (torch_weights.h): convolutions with stride 2
// pad the image by a pixel on each side, epsilon is 1e-5, momentum 0.9 (PyTorch's 0.1). It takes
// preprocessed images (PreprocessMode::kTorch).
nn::Network MobileNetV2Torch(const ImageNetOptions& options = {});

// Options of their own: dropout (default 0.2), minimalistic, include_preprocessing: by default they
// take images with values from 0 to 255, without it from -1 to 1.
nn::Network MobileNetV3Small(const ImageNetOptions& options = {});
nn::Network MobileNetV3Large(const ImageNetOptions& options = {});

}  // namespace penstock::models
