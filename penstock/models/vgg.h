// VGG (Simonyan and Zisserman: Very deep convolutional networks for large-scale image recognition,
// 2014): 3x3 convolutions in five blocks, then two layers of 4096 units and the classifier.
//
//   nn::Network net = VGG16({.input_shape = {64, 64, 3}, .include_top = false, .pooling = "avg"});
//
// torchvision's weights fit them for images of 224x224, preprocessed as PreprocessMode::kTorch.
#pragma once

#include "penstock/models/image_net.h"

namespace penstock::models {

nn::Network VGG16(const ImageNetOptions& options = {});
nn::Network VGG19(const ImageNetOptions& options = {});

}  // namespace penstock::models
