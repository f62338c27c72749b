// Blocks that the EfficientNets share. Internal to room models.
#pragma once

#include <string>

#include "penstock/models/image_net_builder.h"

namespace penstock::models::internal {

// What distinguishes the EfficientNets from each other, apart from their tables.
struct EfficientNetStyle {
  const char* activation = "silu";
  double momentum = 0.99, epsilon = 1e-3;  // of batch normalization
  // Initializer of the convolutions: of the kernels' outputs, truncated at two standard deviations.
  nn::Initializer kernel_initializer =
      nn::initializers::VarianceScaling({.scale = 2, .mode = "fan_out"});
  nn::Initializer bias_initializer = "zeros";  // of the classifier
  const char* depthwise_name = "dwconv";
  // A layer of its own pads the input of depthwise convolutions with stride 2.
  bool padding_layer = false;
  // It adds as many pixels at the top and left as at the bottom and right (torchvision's padding),
  // instead of as few as possible.
  bool symmetric_padding = false;

  nn::Ends<2> PaddingForStride2(const nn::Symbol& x, int64_t kernel) const;
};

// An inverted residual block ("MBConv"), or one whose expansion and depthwise convolution are one
// convolution ("fused").
struct MBConvRow {
  bool fused;
  int64_t kernel, filters, expansion, strides;
  double squeeze;       // width of squeeze and excitation relative to the input; 0: none
  double drop_connect;  // probability with which training drops the residual path of an example
};

nn::Symbol MBConv(nn::Symbol x, const MBConvRow& row, const EfficientNetStyle& style,
                  const std::string& name);

// Convolution with weights "<name>conv", normalization "<name>bn", "<name>activation".
struct ConvNormRow {
  int64_t filters, kernel = 1, strides = 1;
  const char* padding = "same";
  bool activate = true;
};
nn::Symbol ConvNormActivation(nn::Symbol x, const ConvNormRow& row, const EfficientNetStyle& style,
                              const std::string& name);

// Name of a block: stage and block from 0, "block1a_".
std::string MBConvName(int64_t stage, int64_t block);

// "top_conv" with `filters`, and what the options want after it.
nn::Symbol EfficientNetTop(const ImageNetBuilder& builder, nn::Symbol x, int64_t filters,
                           double dropout, const EfficientNetStyle& style);

}  // namespace penstock::models::internal
