// Small vision transformer (ViT; Dosovitskiy et al.: An image is worth 16x16 words, 2020): patches
// by a convolution, learned position embeddings, pre-normalization blocks (layers "block1_norm1",
// "block1_attention", ...: transformer.h), and the mean over patches instead of a class token, as
// in Beyer et al.: Better plain ViT baselines for ImageNet-1k, 2022.
// vit.h has the published networks.
//
//   nn::Network net = VisionTransformer({.patch_size = 8, .classes = 10, .rescale = 1 / 255.0});
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/base/dtype.h"
#include "penstock/nn/network.h"

namespace penstock::models {

struct VisionTransformerOptions {
  std::vector<int64_t> input_shape = {32, 32, 3};  // height and width multiples of patch_size
  base::DType input_dtype = base::DType::kF32;
  int64_t patch_size = 4;
  int64_t dim = 64;
  int64_t depth = 4;
  int64_t heads = 4;  // each with dim / heads features
  int64_t mlp_dim = 128;
  double dropout = 0;
  bool include_top = true;  // mean over the patches, then logits; else [batch, patches, dim]
  int64_t classes = 10;
  std::vector<nn::Layer> input_layers = {};  // applied to the input first
  double rescale = 1;
  double offset = 0;
  double height_shift = 0, width_shift = 0;
};
nn::Network VisionTransformer(const VisionTransformerOptions& options = {});

}  // namespace penstock::models
