// ResNet for CIFAR (He et al.: Deep residual learning for image recognition, 2015, section 4.2): 6n
// + 2 layers in three stages of n blocks with 16, 32 and 64 filters. A 1x1 convolution on the
// shortcut adapts it to a change of shape. Depth 20, 32, 56, or any other 6n + 2; other depths are
// an error of the network.
//
//   nn::Network net = ResNetCifar({.depth = 20, .classes = 10, .rescale = 1 / 255.0});
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/base/dtype.h"
#include "penstock/nn/network.h"

namespace penstock::models {

struct ResNetCifarOptions {
  int64_t depth = 20;
  std::vector<int64_t> input_shape = {32, 32, 3};
  base::DType input_dtype = base::DType::kF32;
  int64_t classes = 10;
  std::vector<nn::Layer> input_layers = {};  // applied to the input first
  double rescale = 1;                        // factor of the input: 1 / 255.0 for bytes
  int64_t filters = 16;                      // number of filters in the first stage

  // Augmentation in training: maximum translation as a fraction of the height, as
  // RandomTranslation.
  double height_shift = 0;
  double width_shift = 0;
};
nn::Network ResNetCifar(const ResNetCifarOptions& options = {});

}  // namespace penstock::models
