// Convolution layers of sequences, images and volumes (layers/convolution.cc). Included by
// layers.h. `N` is the number of spatial axes, which are between the batch and the channels.
#pragma once

#include <string>

#include "penstock/nn/layer.h"
#include "penstock/nn/layers/sizes.h"
#include "penstock/nn/typed_options.h"

namespace penstock::nn {

using base::SourceLocation;

// kernel: [size..., in / groups, filters]. Padding "valid": windows inside the input only; "same":
// the output has ceil(extent / stride) positions, an odd padding element goes to the end; "causal"
// (Conv1D): padding at the beginning only, so that no step depends on a later one.
template <int N>
struct ConvOptions {
  int64_t filters = 0;
  Size<N> kernel_size = 1;
  Size<N> strides = 1;
  Padding padding = "valid";
  Size<N> dilation_rate = 1;
  int64_t groups = 1;
  ActivationFunction activation = "linear";
  bool use_bias = true;
  Initializer kernel_initializer = "glorot_uniform";
  Initializer bias_initializer = "zeros";
  Regularizer kernel_regularizer = "";
  Regularizer bias_regularizer = "";
  Regularizer activity_regularizer = "";
  Constraint kernel_constraint = "";
  Constraint bias_constraint = "";
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer Conv1D(const ConvOptions<1>& options, SourceLocation location = SourceLocation::Current());
Layer Conv2D(const ConvOptions<2>& options, SourceLocation location = SourceLocation::Current());
Layer Conv3D(const ConvOptions<3>& options, SourceLocation location = SourceLocation::Current());

// Transposed convolution ("deconvolution"): each input element contributes to the window that it
// would be computed from in a convolution. kernel: [size..., filters, in]. With reach =
// (kernel_size - 1) * dilation_rate + 1 an extent n becomes (n - 1) * strides + max(reach, strides)
// ("valid") or n * strides ("same"); with output_padding (n - 1) * strides + reach +
// output_padding, or (n - 1) * strides + reach % 2 + output_padding.
template <int N>
struct ConvTransposeOptions {
  int64_t filters = 0;
  Size<N> kernel_size = 1;
  Size<N> strides = 1;
  Padding padding = "valid";
  OptionalSize<N> output_padding = std::nullopt;
  Size<N> dilation_rate = 1;
  ActivationFunction activation = "linear";
  bool use_bias = true;
  Initializer kernel_initializer = "glorot_uniform";
  Initializer bias_initializer = "zeros";
  Regularizer kernel_regularizer = "";
  Regularizer bias_regularizer = "";
  Regularizer activity_regularizer = "";
  Constraint kernel_constraint = "";
  Constraint bias_constraint = "";
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer Conv1DTranspose(const ConvTransposeOptions<1>& options,
                      SourceLocation location = SourceLocation::Current());
Layer Conv2DTranspose(const ConvTransposeOptions<2>& options,
                      SourceLocation location = SourceLocation::Current());
Layer Conv3DTranspose(const ConvTransposeOptions<3>& options,
                      SourceLocation location = SourceLocation::Current());

// Depthwise convolution: each input channel is convolved separately with `depth_multiplier`
// filters. kernel: [size..., in, depth_multiplier]; output channel c * depth_multiplier + m belongs
// to input channel c.
template <int N>
struct DepthwiseConvOptions {
  Size<N> kernel_size = 1;
  Size<N> strides = 1;
  Padding padding = "valid";
  int64_t depth_multiplier = 1;
  Size<N> dilation_rate = 1;
  ActivationFunction activation = "linear";
  bool use_bias = true;
  Initializer depthwise_initializer = "glorot_uniform";
  Initializer bias_initializer = "zeros";
  Regularizer depthwise_regularizer = "";
  Regularizer bias_regularizer = "";
  Regularizer activity_regularizer = "";
  Constraint depthwise_constraint = "";
  Constraint bias_constraint = "";
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer DepthwiseConv1D(const DepthwiseConvOptions<1>& options,
                      SourceLocation location = SourceLocation::Current());
Layer DepthwiseConv2D(const DepthwiseConvOptions<2>& options,
                      SourceLocation location = SourceLocation::Current());

// Separable convolution: a depthwise convolution, then a convolution of size 1 over its channels.
// depthwise_kernel: [size..., in, depth_multiplier]; pointwise_kernel: [1..., in *
// depth_multiplier, filters].
template <int N>
struct SeparableConvOptions {
  int64_t filters = 0;
  Size<N> kernel_size = 1;
  Size<N> strides = 1;
  Padding padding = "valid";
  Size<N> dilation_rate = 1;
  int64_t depth_multiplier = 1;
  ActivationFunction activation = "linear";
  bool use_bias = true;
  Initializer depthwise_initializer = "glorot_uniform";
  Initializer pointwise_initializer = "glorot_uniform";
  Initializer bias_initializer = "zeros";
  Regularizer depthwise_regularizer = "";
  Regularizer pointwise_regularizer = "";
  Regularizer bias_regularizer = "";
  Regularizer activity_regularizer = "";
  Constraint depthwise_constraint = "";
  Constraint pointwise_constraint = "";
  Constraint bias_constraint = "";
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer SeparableConv1D(const SeparableConvOptions<1>& options,
                      SourceLocation location = SourceLocation::Current());
Layer SeparableConv2D(const SeparableConvOptions<2>& options,
                      SourceLocation location = SourceLocation::Current());

}  // namespace penstock::nn
