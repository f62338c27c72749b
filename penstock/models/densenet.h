// DenseNet (Huang et al.: Densely connected convolutional networks, 2016): each layer of a block
// gets the concatenated outputs of all previous layers of the block.
//
//   nn::Network net = DenseNet121({.input_shape = {64, 64, 3}, .classes = 10});
#pragma once

#include "penstock/models/image_net.h"

namespace penstock::models {

nn::Network DenseNet121(const ImageNetOptions& options = {});
nn::Network DenseNet169(const ImageNetOptions& options = {});
nn::Network DenseNet201(const ImageNetOptions& options = {});

}  // namespace penstock::models
