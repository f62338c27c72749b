// Vision transformers as torchvision builds them (vit_b_16, ...; Dosovitskiy et al.: An image is
// worth 16x16 words, 2020): patches by a convolution, a learned class token in front of them,
// learned position embeddings, pre-normalization blocks (transformer.h), and a classifier on the
// class token. torchvision's and timm's weights fit (torch_weights.h).
//
//   nn::Network net = ViTB16({.input_shape = {384, 384, 3}, .classes = 120});
//
// Height and width are multiples of the patch size; the number of position embeddings follows from
// them, so weights fit networks for images of the size that they were trained with. Without the
// top, the output is the normalized tokens [batch, 1 + patches, features], the class token first;
// `pooling` reduces over all of them. vision_transformer.h has a small network of free sizes.
#pragma once

#include "penstock/models/image_net.h"

namespace penstock::models {

nn::Network ViTB16(const ImageNetOptions& options = {});
nn::Network ViTB32(const ImageNetOptions& options = {});
nn::Network ViTL16(const ImageNetOptions& options = {});
nn::Network ViTL32(const ImageNetOptions& options = {});
nn::Network ViTH14(const ImageNetOptions& options = {});

}  // namespace penstock::models
