// Tables of PyTorch's names for the layers of a family of networks (torch_weights.h). A table is in
// the file of the family's networks:
//
//   constexpr TorchRow kRows[] = {
//       {"conv1_conv", "conv1", TorchLayer::kConv},
//       {"conv#_block#_#_bn", "layer{1-1}.{2-1}.bn{3}", TorchLayer::kNorm},
//   };
//   constexpr TorchLayout kLayouts[] = {{.name = "torchvision", .rows = kRows}};
//
// Variables of the kinds of layers:
//
//   layer                          variable here           PyTorch             layout there -> here
//   kConv           convolution    kernel, bias            weight, bias        OIHW -> HWIO
//   kDepthwiseConv  depthwise      kernel, bias            weight, bias        C1HW -> HWC1
//   kNorm           normalization  gamma, beta             weight, bias
//                                  moving_mean, _variance  running_mean, _var
//   kDense          dense          kernel, bias            weight, bias        OI -> IO
//   kScale          LayerScale     gamma                   the layer's name
//   kScaleC11       LayerScale     gamma                   the layer's name    C11 -> C
//   kPositions      position       embeddings              the layer's name    1NC -> NC
//                   embedding
//   kAttention      multi-head     query/, key/ and        in_proj_weight,     (3HS)C -> CHS,
//                   attention      value/kernel, bias      in_proj_bias        (3HS) -> HS
//                                  attention_output/       out_proj.weight,    C(HS) -> HSC
//                                  kernel, bias            out_proj.bias
//   kQkvAttention   the same       the same                qkv.weight, .bias,  the same
//                                                          proj.weight, .bias
//
// An axis in parentheses is one axis in PyTorch; (3HS) has the queries of H heads of size S, then
// their keys, then their values.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace penstock::models {

enum class TorchLayer {
  kConv,
  kDepthwiseConv,
  kNorm,
  kDense,
  kScale,
  kScaleC11,
  kPositions,
  kAttention,
  kQkvAttention,
};

// Names of a layer. In `layer`, '#' stands for a number and '@' for a letter, numbered from 1
// ('a'); a '*' at its beginning stands for any characters. In `torch`, {1} is the first of these
// numbers, {2-1} and {2+1} the second minus and plus 1, {2*1+1} twice the first plus 1, and {#} the
// position, from 0, of the first two numbers among those of all layers ("block2a_" after
// "block1b_"). The first row that matches a layer, and has the variable, applies.
struct TorchRow {
  const char* layer;
  const char* torch;
  TorchLayer kind;
  // For a dense layer after Flatten: number of channels of the flattened feature maps, since
  // PyTorch flattens [channels, height, width]. 0: not after Flatten.
  int64_t flattened_channels = 0;
};

// Names of all layers of a family.
struct TorchLayout {
  const char* name;  // library that has these names: "torchvision"
  absl::Span<const TorchRow> rows;
  // Name of a layer by which networks that compute the same as PyTorch's are recognized. Networks
  // without it, whose layers have the same names and shapes, compute differently (padding,
  // normalization, class token): the weights would fit and give other outputs. nullptr: all networks with these layers compute
  // the same.
  const char* required_layer = nullptr;
};

}  // namespace penstock::models
