// The catalogue of layers. Names, defaults and formulas are Keras 3's; where a layer does
// otherwise, its comment says so. Images are NHWC. Every options struct ends with `name`, without
// which the network numbers its layers as Keras does, and `dtype`, a policy (policy.h), without
// which the network's holds.
//
//   Layer conv = Conv2D({.filters = 64, .kernel_size = 3, .strides = 2, .padding = "same"});
//   Symbol y = conv(x);
//
// Initialisers, activations and paddings are given by name ("he_normal", "relu", "same"); an
// unknown name is an error that lists those there are.
//
// To add a layer: one class in the file of its family (layers_*.cc), its row at the end of that
// file, its options and maker here, and its test.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

#include "penstock/nn/layer.h"

namespace penstock::nn {

// Height and width; one number means both.
struct Size2D {
  int64_t height = 1, width = 1;
  Size2D() = default;
  Size2D(int64_t both) : height(both), width(both) {}  // NOLINT: `.kernel_size = 3`
  Size2D(int64_t h, int64_t w) : height(h), width(w) {}
};
struct OptionalSize2D : std::optional<Size2D> {
  using std::optional<Size2D>::optional;
  OptionalSize2D(int64_t both) : std::optional<Size2D>(Size2D(both)) {}  // NOLINT
};

// Pixels added above, below, left and right; one number means all four, two mean both ends of the
// height and both of the width.
struct Padding2D {
  int64_t top = 0, bottom = 0, left = 0, right = 0;
  Padding2D() = default;
  Padding2D(int64_t all) : Padding2D(all, all) {}  // NOLINT: `.padding = 1`
  Padding2D(int64_t height, int64_t width)
      : top(height), bottom(height), left(width), right(width) {}
  Padding2D(std::pair<int64_t, int64_t> height, std::pair<int64_t, int64_t> width)
      : top(height.first), bottom(height.second), left(width.first), right(width.second) {}
};

// A factor drawn uniformly from [low, high]; one number f means [-f, f].
struct Range {
  double low = 0, high = 0;
  Range() = default;
  Range(double factor) : low(-factor), high(factor) {}  // NOLINT: `.height_factor = 0.1`
  Range(double l, double h) : low(l), high(h) {}
};

using base::SourceLocation;

// ---- Core (layers_core.cc) ----

// y = activation(x kernel + bias) along the last axis. kernel: [in, units].
struct DenseOptions {
  int64_t units = 0;
  std::string activation = "linear";
  bool use_bias = true;
  std::string kernel_initializer = "glorot_uniform";
  std::string bias_initializer = "zeros";
  std::string name = "";
  std::string dtype = "";
};
Layer Dense(const DenseOptions& options, SourceLocation location = SourceLocation::Current());

struct ActivationOptions {
  std::string activation = "linear";
  std::string name = "";
  std::string dtype = "";
};
Layer Activation(const ActivationOptions& options,
                 SourceLocation location = SourceLocation::Current());
// 0 below `threshold`, where the slope is negative_slope, then x, then max_value.
struct ReLUOptions {
  std::optional<double> max_value = std::nullopt;
  double negative_slope = 0;
  double threshold = 0;
  std::string name = "";
  std::string dtype = "";
};
Layer ReLU(const ReLUOptions& options = {}, SourceLocation location = SourceLocation::Current());
struct SoftmaxOptions {
  int64_t axis = -1;
  std::string name = "";
  std::string dtype = "";
};
Layer Softmax(const SoftmaxOptions& options = {},
              SourceLocation location = SourceLocation::Current());

// In training each element is zero with probability `rate`, else divided by 1 - rate.
struct DropoutOptions {
  double rate = 0.5;
  std::string name = "";
  std::string dtype = "";
};
Layer Dropout(const DropoutOptions& options, SourceLocation location = SourceLocation::Current());

struct FlattenOptions {
  std::string name = "";
  std::string dtype = "";
};
Layer Flatten(const FlattenOptions& options = {},
              SourceLocation location = SourceLocation::Current());

// The sum of two or more inputs, with broadcasting; one of fewer axes gets them after the batch's.
struct AddOptions {
  std::string name = "";
  std::string dtype = "";
};
Layer Add(const AddOptions& options = {}, SourceLocation location = SourceLocation::Current());

// x * scale + offset, whatever x is: reckoned in float32, given in the layer's compute type.
struct RescalingOptions {
  double scale = 1;
  double offset = 0;
  std::string name = "";
  std::string dtype = "";
};
Layer Rescaling(const RescalingOptions& options,
                SourceLocation location = SourceLocation::Current());

// ---- Layers made of other things (layers_composition.cc) ----

// A layer from a function of this program. It may ask `ctx` for variables and keys as any layer.
// A model with it cannot be saved with its layers (its weights can): a file cannot hold a function.
//
//   Layer halve = Lambda([](CallContext&, const Values& x) { return x[0] * 0.5; });
struct LambdaOptions {
  std::string name = "";
  std::string dtype = "";
};
using LambdaFunction = std::function<Outputs(CallContext& ctx, const Values& inputs)>;
Layer Lambda(LambdaFunction function, const LambdaOptions& options = {},
             SourceLocation location = SourceLocation::Current());

// A network as one layer of another: its variables are "<name>/<layer>/...". Its layers compute
// under the outer network's policy, unless they or the network have one of their own. `name`
// defaults to the network's.
struct NestedOptions {
  std::string name = "";
};
Layer Nested(const Network& network, const NestedOptions& options = {},
             SourceLocation location = SourceLocation::Current());

// ---- Convolution and pooling of images (layers_convolution.cc, layers_pooling.cc) ----

// kernel: [height, width, in / groups, filters]. "same" keeps ceil(size / stride), the odd pixel of
// padding goes to the end.
struct Conv2DOptions {
  int64_t filters = 0;
  Size2D kernel_size = 1;
  Size2D strides = 1;
  std::string padding = "valid";
  Size2D dilation_rate = 1;
  int64_t groups = 1;
  std::string activation = "linear";
  bool use_bias = true;
  std::string kernel_initializer = "glorot_uniform";
  std::string bias_initializer = "zeros";
  std::string name = "";
  std::string dtype = "";
};
Layer Conv2D(const Conv2DOptions& options, SourceLocation location = SourceLocation::Current());

// Each input channel is convolved by itself with `depth_multiplier` filters. kernel: [height,
// width, in, depth_multiplier]; output channel c * depth_multiplier + m is of input channel c.
struct DepthwiseConv2DOptions {
  Size2D kernel_size = 1;
  Size2D strides = 1;
  std::string padding = "valid";
  int64_t depth_multiplier = 1;
  Size2D dilation_rate = 1;
  std::string activation = "linear";
  bool use_bias = true;
  std::string depthwise_initializer = "glorot_uniform";
  std::string bias_initializer = "zeros";
  std::string name = "";
  std::string dtype = "";
};
Layer DepthwiseConv2D(const DepthwiseConv2DOptions& options,
                      SourceLocation location = SourceLocation::Current());

// A depthwise convolution, then a 1x1 convolution over its channels. depthwise_kernel: [height,
// width, in, depth_multiplier]; pointwise_kernel: [1, 1, in * depth_multiplier, filters].
struct SeparableConv2DOptions {
  int64_t filters = 0;
  Size2D kernel_size = 1;
  Size2D strides = 1;
  std::string padding = "valid";
  Size2D dilation_rate = 1;
  int64_t depth_multiplier = 1;
  std::string activation = "linear";
  bool use_bias = true;
  std::string depthwise_initializer = "glorot_uniform";
  std::string pointwise_initializer = "glorot_uniform";
  std::string bias_initializer = "zeros";
  std::string name = "";
  std::string dtype = "";
};
Layer SeparableConv2D(const SeparableConv2DOptions& options,
                      SourceLocation location = SourceLocation::Current());

// Pixels of zero around the image.
struct ZeroPadding2DOptions {
  Padding2D padding = 1;
  std::string name = "";
  std::string dtype = "";
};
Layer ZeroPadding2D(const ZeroPadding2DOptions& options = {},
                    SourceLocation location = SourceLocation::Current());

// Strides default to the pool size. Average pooling leaves padding out of the mean.
struct Pooling2DOptions {
  Size2D pool_size = 2;
  OptionalSize2D strides = std::nullopt;
  std::string padding = "valid";
  std::string name = "";
  std::string dtype = "";
};
Layer MaxPooling2D(const Pooling2DOptions& options = {},
                   SourceLocation location = SourceLocation::Current());
Layer AveragePooling2D(const Pooling2DOptions& options = {},
                       SourceLocation location = SourceLocation::Current());

// [batch, height, width, channels] -> [batch, channels].
struct GlobalPooling2DOptions {
  bool keepdims = false;
  std::string name = "";
  std::string dtype = "";
};
Layer GlobalAveragePooling2D(const GlobalPooling2DOptions& options = {},
                             SourceLocation location = SourceLocation::Current());
Layer GlobalMaxPooling2D(const GlobalPooling2DOptions& options = {},
                         SourceLocation location = SourceLocation::Current());

// ---- Normalisation (layers_normalization.cc) ----

// In training: by the mean and variance of this replica's examples, padding left out; the moving
// averages follow with `momentum`. Otherwise by the moving averages.
struct BatchNormalizationOptions {
  int64_t axis = -1;
  double momentum = 0.99;
  double epsilon = 0.001;
  bool center = true;
  bool scale = true;
  std::string beta_initializer = "zeros";
  std::string gamma_initializer = "ones";
  std::string moving_mean_initializer = "zeros";
  std::string moving_variance_initializer = "ones";
  std::string name = "";
  std::string dtype = "";
};
Layer BatchNormalization(const BatchNormalizationOptions& options = {},
                         SourceLocation location = SourceLocation::Current());

// ---- Augmentation, on the device (layers_augmentation.cc) ----

// In training: a window of height x width at a place drawn for each image (Keras draws one for the
// batch). Otherwise, and when the image is smaller than that: the largest centred window of that
// aspect ratio, resized bilinearly, as Keras's documentation says (Keras 3.15 itself then returns
// the images uncropped).
struct RandomCropOptions {
  int64_t height = 0;
  int64_t width = 0;
  std::string name = "";
  std::string dtype = "";
};
Layer RandomCrop(const RandomCropOptions& options,
                 SourceLocation location = SourceLocation::Current());

// In training: moves each image by fractions of its size drawn from the ranges; positive is down
// and right.
struct RandomTranslationOptions {
  Range height_factor = 0;
  Range width_factor = 0;
  std::string fill_mode = "reflect";       // reflect (abcd|dcba), wrap, nearest, constant
  std::string interpolation = "bilinear";  // bilinear, nearest
  double fill_value = 0;
  std::string name = "";
  std::string dtype = "";
};
Layer RandomTranslation(const RandomTranslationOptions& options,
                        SourceLocation location = SourceLocation::Current());

// ---- To and from JSON ----

nlohmann::ordered_json LayerConfig(const Layer& layer);
// A layer that is an option of another: {"class_name", "config"} with the name in it, as Keras.
nlohmann::ordered_json LayerToJson(const Layer& layer);
absl::StatusOr<Layer> LayerFromJson(const nlohmann::ordered_json& json);
// The layer of Keras's class name; the error lists the classes there are.
absl::StatusOr<Layer> LayerFromConfig(absl::string_view class_name, const std::string& name,
                                      const nlohmann::ordered_json& config);
std::vector<std::string> LayerClassNames();

}  // namespace penstock::nn
