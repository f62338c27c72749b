#include "penstock/models/efficientnet_blocks.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace penstock::models::internal {
namespace {

using nn::Symbol;

Symbol EfficientNetNorm(Symbol x, const EfficientNetStyle& style, const std::string& name) {
  x = nn::BatchNormalization(
      {.momentum = style.momentum, .epsilon = style.epsilon, .name = name + "bn"})(x);
  return nn::Activation({.activation = style.activation, .name = name + "activation"})(x);
}

// Weights of the channels from their means (Hu et al.: Squeeze-and-excitation networks, 2017).
Symbol MBConvSqueezeExcite(Symbol x, int64_t squeezed, const EfficientNetStyle& style,
                           const std::string& name) {
  const int64_t channels = Channels(x);
  Symbol weight = nn::GlobalAveragePooling2D({.name = name + "se_squeeze"})(x);
  weight = nn::Reshape({.target_shape = {1, 1, channels}, .name = name + "se_reshape"})(weight);
  weight = nn::Conv2D({.filters = squeezed,
                       .padding = "same",
                       .activation = style.activation,
                       .kernel_initializer = style.kernel_initializer,
                       .name = name + "se_reduce"})(weight);
  weight = nn::Conv2D({.filters = channels,
                       .padding = "same",
                       .activation = "sigmoid",
                       .kernel_initializer = style.kernel_initializer,
                       .name = name + "se_expand"})(weight);
  return nn::Multiply({.name = name + "se_excite"})({x, weight});
}

Symbol MBConvDepthwise(Symbol x, const MBConvRow& row, const EfficientNetStyle& style,
                       const std::string& name) {
  const char* padding = "same";
  if (row.strides == 2 && style.padding_layer) {
    x = nn::ZeroPadding2D(
        {.padding = style.PaddingForStride2(x, row.kernel), .name = name + "dwconv_pad"})(x);
    padding = "valid";
  }
  x = nn::DepthwiseConv2D({.kernel_size = row.kernel,
                           .strides = row.strides,
                           .padding = padding,
                           .use_bias = false,
                           .depthwise_initializer = style.kernel_initializer,
                           .name = name + style.depthwise_name})(x);
  return EfficientNetNorm(x, style, name);
}

}  // namespace

nn::Ends<2> EfficientNetStyle::PaddingForStride2(const Symbol& x, int64_t kernel) const {
  const int64_t half = kernel / 2;
  return symmetric_padding ? nn::Ends<2>{{half, half}, {half, half}} : PadForStride2(x, kernel);
}

Symbol ConvNormActivation(Symbol x, const ConvNormRow& row, const EfficientNetStyle& style,
                          const std::string& name) {
  x = nn::Conv2D({.filters = row.filters,
                  .kernel_size = row.kernel,
                  .strides = row.strides,
                  .padding = row.padding,
                  .use_bias = false,
                  .kernel_initializer = style.kernel_initializer,
                  .name = name + "conv"})(x);
  if (row.activate) return EfficientNetNorm(x, style, name);
  return nn::BatchNormalization(
      {.momentum = style.momentum, .epsilon = style.epsilon, .name = name + "bn"})(x);
}

Symbol MBConv(Symbol x, const MBConvRow& row, const EfficientNetStyle& style,
              const std::string& name) {
  const Symbol input = x;
  const int64_t channels = Channels(x);
  const bool expands = row.expansion != 1;
  if (expands) {
    ConvNormRow expand{.filters = row.expansion * channels};
    if (row.fused) expand.kernel = row.kernel, expand.strides = row.strides;
    x = ConvNormActivation(x, expand, style, name + "expand_");
  }
  if (!row.fused) x = MBConvDepthwise(x, row, style, name);
  if (row.squeeze > 0) {
    const auto squeezed = static_cast<int64_t>(static_cast<double>(channels) * row.squeeze);
    x = MBConvSqueezeExcite(x, std::max<int64_t>(1, squeezed), style, name);
  }
  ConvNormRow project{.filters = row.filters, .activate = false};
  if (row.fused && !expands) {
    project.kernel = row.kernel, project.strides = row.strides, project.activate = true;
  }
  x = ConvNormActivation(x, project, style, name + "project_");
  if (row.strides != 1 || channels != row.filters) return x;
  if (row.drop_connect > 0) {
    x = nn::Dropout(
        {.rate = row.drop_connect, .noise_shape = {-1, 1, 1, 1}, .name = name + "drop"})(x);
  }
  return nn::Add({.name = name + "add"})({x, input});
}

std::string MBConvName(int64_t stage, int64_t block) {
  return absl::StrCat("block", stage + 1, std::string(1, static_cast<char>('a' + block)), "_");
}

Symbol EfficientNetTop(const ImageNetBuilder& builder, Symbol x, int64_t filters, double dropout,
                       const EfficientNetStyle& style) {
  x = ConvNormActivation(x, {.filters = filters}, style, "top_");
  const ImageNetOptions& options = builder.options();
  if (!options.include_top) return builder.Pool(x, {.avg = "avg_pool", .max = "max_pool"});
  x = nn::GlobalAveragePooling2D({.name = "avg_pool"})(x);
  const double rate = options.dropout.value_or(dropout);
  if (rate > 0) x = nn::Dropout({.rate = rate, .name = "top_dropout"})(x);
  return nn::Dense({.units = options.classes,
                    .activation = options.classifier_activation,
                    .kernel_initializer = nn::initializers::VarianceScaling(
                        {.scale = 1.0 / 3, .mode = "fan_out", .distribution = "uniform"}),
                    .bias_initializer = style.bias_initializer,
                    .name = "predictions"})(x);
}

}  // namespace penstock::models::internal
