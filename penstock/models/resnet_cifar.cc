#include "penstock/models/resnet_cifar.h"

#include "absl/strings/str_cat.h"

#include "penstock/nn/layers.h"

namespace penstock::models {
namespace {

using nn::Symbol;

Symbol ConvNorm(Symbol x, int64_t filters, int64_t kernel, int64_t strides,
                const std::string& name) {
  x = nn::Conv2D({.filters = filters,
                  .kernel_size = kernel,
                  .strides = strides,
                  .padding = "same",
                  .use_bias = false,  // batch normalization has a bias
                  .kernel_initializer = "he_normal",
                  .name = name + "_conv"})(x);
  return nn::BatchNormalization({.name = name + "_bn"})(x);
}

Symbol Block(Symbol x, int64_t filters, int64_t strides, bool project, const std::string& name) {
  Symbol y = nn::ReLU({.name = name + "_1_relu"})(ConvNorm(x, filters, 3, strides, name + "_1"));
  y = ConvNorm(y, filters, 3, 1, name + "_2");
  if (project) x = ConvNorm(x, filters, 1, strides, name + "_0");
  return nn::ReLU({.name = name + "_out"})(nn::Add({.name = name + "_add"})({x, y}));
}

}  // namespace

nn::Network ResNetCifar(const ResNetCifarOptions& options) {
  if (options.depth < 8 || options.depth % 6 != 2) {
    return nn::Network(absl::InvalidArgumentError(absl::StrCat(
        "a ResNet for CIFAR has 6n + 2 layers (8, 20, 32, 56, ...), got ", options.depth)));
  }
  const Symbol input =
      nn::Input({.shape = options.input_shape, .dtype = options.input_dtype, .name = "image"});
  Symbol x = input;
  for (const nn::Layer& layer : options.input_layers) x = layer(x);
  x = nn::Rescaling({.scale = options.rescale})(x);
  if (options.height_shift != 0 || options.width_shift != 0) {
    x = nn::RandomTranslation({.height_factor = options.height_shift,
                               .width_factor = options.width_shift,
                               .fill_mode = "nearest"})(x);
  }
  x = nn::ReLU({.name = "stem_relu"})(ConvNorm(x, options.filters, 3, 1, "stem"));
  const int64_t blocks = (options.depth - 2) / 6;
  for (int64_t stage = 0; stage < 3; ++stage) {
    for (int64_t block = 0; block < blocks; ++block) {
      const bool first = block == 0;
      x = Block(x, options.filters << stage, first && stage > 0 ? 2 : 1, first && stage > 0,
                absl::StrCat("stage", stage + 1, "_block", block + 1));
    }
  }
  x = nn::GlobalAveragePooling2D({.name = "avg_pool"})(x);
  return nn::Network({input}, {nn::Dense({.units = options.classes, .name = "logits"})(x)},
                     absl::StrCat("resnet", options.depth));
}

}  // namespace penstock::models
