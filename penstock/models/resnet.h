// Residual networks: ResNet (He et al.: Deep residual learning for image recognition, 2015, section
// 4.1), bottleneck blocks in four stages, and ResNetV2 (He et al.: Identity mappings in deep
// residual networks, 2016), whose normalization and activation precede each convolution. Those for
// small images are in resnet_cifar.h.
//
//   nn::Network net = ResNet50({.classes = 100, .momentum = 0.9});
#pragma once

#include "penstock/models/image_net.h"

namespace penstock::models {

nn::Network ResNet50(const ImageNetOptions& options = {});
nn::Network ResNet101(const ImageNetOptions& options = {});
nn::Network ResNet152(const ImageNetOptions& options = {});

// torchvision's variant ("ResNet v1.5"), which PyTorch's weights fit (torch_weights.h): the 3x3
// convolution of a block has the stride, convolutions have no biases, epsilon is 1e-5, momentum 0.9
// (PyTorch's 0.1). Layers have the names of ResNet50.
nn::Network ResNet50V1_5(const ImageNetOptions& options = {});
nn::Network ResNet101V1_5(const ImageNetOptions& options = {});
nn::Network ResNet152V1_5(const ImageNetOptions& options = {});

nn::Network ResNet50V2(const ImageNetOptions& options = {});
nn::Network ResNet101V2(const ImageNetOptions& options = {});
nn::Network ResNet152V2(const ImageNetOptions& options = {});

}  // namespace penstock::models
