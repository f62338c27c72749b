// Convolutions over sequences, images and volumes (layers_convolution.cc). Included by layers.h.
// `N` is the number of spatial axes, which stand between the batch and the channels.
#pragma once

#include <string>

#include "penstock/nn/layer.h"
#include "penstock/nn/sizes.h"

namespace penstock::nn {

using base::SourceLocation;

// kernel: [size..., in / groups, filters]. "valid": windows inside the input alone; "same": as many
// positions as ceil(extent / stride), the odd one of padding at the end; "causal" (Conv1D): padding
// at the beginning alone, so that no step sees a later one.
template <int N>
struct ConvOptions {
  int64_t filters = 0;
  Size<N> kernel_size = 1;
  Size<N> strides = 1;
  std::string padding = "valid";
  Size<N> dilation_rate = 1;
  int64_t groups = 1;
  std::string activation = "linear";
  bool use_bias = true;
  std::string kernel_initializer = "glorot_uniform";
  std::string bias_initializer = "zeros";
  std::string kernel_regularizer = "";
  std::string bias_regularizer = "";
  std::string activity_regularizer = "";
  std::string kernel_constraint = "";
  std::string bias_constraint = "";
  std::string name = "";
  std::string dtype = "";
};
Layer Conv1D(const ConvOptions<1>& options, SourceLocation location = SourceLocation::Current());
Layer Conv2D(const ConvOptions<2>& options, SourceLocation location = SourceLocation::Current());
Layer Conv3D(const ConvOptions<3>& options, SourceLocation location = SourceLocation::Current());

// The transposition of a convolution: each element spreads over the window it would have been read
// from. kernel: [size..., filters, in]. With reach = (kernel_size - 1) * dilation_rate + 1 an
// extent n becomes (n - 1) * strides + max(reach, strides) ("valid") or n * strides ("same"); with
// output_padding (n - 1) * strides + reach + output_padding, or (n - 1) * strides + reach % 2 +
// output_padding.
template <int N>
struct ConvTransposeOptions {
  int64_t filters = 0;
  Size<N> kernel_size = 1;
  Size<N> strides = 1;
  std::string padding = "valid";
  OptionalSize<N> output_padding = std::nullopt;
  Size<N> dilation_rate = 1;
  std::string activation = "linear";
  bool use_bias = true;
  std::string kernel_initializer = "glorot_uniform";
  std::string bias_initializer = "zeros";
  std::string kernel_regularizer = "";
  std::string bias_regularizer = "";
  std::string activity_regularizer = "";
  std::string kernel_constraint = "";
  std::string bias_constraint = "";
  std::string name = "";
  std::string dtype = "";
};
Layer Conv1DTranspose(const ConvTransposeOptions<1>& options,
                      SourceLocation location = SourceLocation::Current());
Layer Conv2DTranspose(const ConvTransposeOptions<2>& options,
                      SourceLocation location = SourceLocation::Current());
Layer Conv3DTranspose(const ConvTransposeOptions<3>& options,
                      SourceLocation location = SourceLocation::Current());

// Each input channel is convolved by itself with `depth_multiplier` filters. kernel: [size..., in,
// depth_multiplier]; output channel c * depth_multiplier + m is of input channel c.
template <int N>
struct DepthwiseConvOptions {
  Size<N> kernel_size = 1;
  Size<N> strides = 1;
  std::string padding = "valid";
  int64_t depth_multiplier = 1;
  Size<N> dilation_rate = 1;
  std::string activation = "linear";
  bool use_bias = true;
  std::string depthwise_initializer = "glorot_uniform";
  std::string bias_initializer = "zeros";
  std::string depthwise_regularizer = "";
  std::string bias_regularizer = "";
  std::string activity_regularizer = "";
  std::string depthwise_constraint = "";
  std::string bias_constraint = "";
  std::string name = "";
  std::string dtype = "";
};
Layer DepthwiseConv1D(const DepthwiseConvOptions<1>& options,
                      SourceLocation location = SourceLocation::Current());
Layer DepthwiseConv2D(const DepthwiseConvOptions<2>& options,
                      SourceLocation location = SourceLocation::Current());

// A depthwise convolution, then a convolution of size 1 over its channels. depthwise_kernel:
// [size..., in, depth_multiplier]; pointwise_kernel: [1..., in * depth_multiplier, filters].
template <int N>
struct SeparableConvOptions {
  int64_t filters = 0;
  Size<N> kernel_size = 1;
  Size<N> strides = 1;
  std::string padding = "valid";
  Size<N> dilation_rate = 1;
  int64_t depth_multiplier = 1;
  std::string activation = "linear";
  bool use_bias = true;
  std::string depthwise_initializer = "glorot_uniform";
  std::string pointwise_initializer = "glorot_uniform";
  std::string bias_initializer = "zeros";
  std::string depthwise_regularizer = "";
  std::string pointwise_regularizer = "";
  std::string bias_regularizer = "";
  std::string activity_regularizer = "";
  std::string depthwise_constraint = "";
  std::string pointwise_constraint = "";
  std::string bias_constraint = "";
  std::string name = "";
  std::string dtype = "";
};
Layer SeparableConv1D(const SeparableConvOptions<1>& options,
                      SourceLocation location = SourceLocation::Current());
Layer SeparableConv2D(const SeparableConvOptions<2>& options,
                      SourceLocation location = SourceLocation::Current());

}  // namespace penstock::nn
