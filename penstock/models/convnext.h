// ConvNeXt (Liu et al.: A ConvNet for the 2020s, 2022): 7x7 depthwise convolutions, layer
// normalization and residual paths that begin with almost no weight (nn::LayerScale).
//
//   nn::Network net = ConvNeXtTiny({.classes = 10, .drop_connect = 0.1});
//
// They take images with values from 0 to 255; without `include_preprocessing` the caller subtracts
// ImageNet's mean and divides by its standard deviation. `drop_connect` (default 0, as in
// keras.applications; the paper trains ConvNeXtTiny with 0.1) is the probability with which
// training drops the residual path of the last block; it falls linearly to 0 at the first one.
#pragma once

#include "penstock/models/image_net.h"

namespace penstock::models {

nn::Network ConvNeXtTiny(const ImageNetOptions& options = {});
nn::Network ConvNeXtSmall(const ImageNetOptions& options = {});
nn::Network ConvNeXtBase(const ImageNetOptions& options = {});
nn::Network ConvNeXtLarge(const ImageNetOptions& options = {});
nn::Network ConvNeXtXLarge(const ImageNetOptions& options = {});

}  // namespace penstock::models
