#include "penstock/models/xception.h"

#include "absl/strings/str_cat.h"

#include "penstock/models/image_net_builder.h"

namespace penstock::models {
namespace {

using nn::Symbol;

constexpr ModelInfo kXception = {"xception",          "Xception",           Xception, 299, 71,
                                 PreprocessMode::kTf, kImageNet | kMomentum};

struct XceptionLayers {
  double momentum;

  Symbol Norm(Symbol x, const std::string& name) const {
    return nn::BatchNormalization({.momentum = momentum, .name = name})(x);
  }
  static Symbol Relu(Symbol x, const std::string& name) {
    return nn::Activation({.activation = "relu", .name = name})(x);
  }
  // Convolution, normalization, activation.
  Symbol Conv(Symbol x, int64_t filters, int64_t strides, const std::string& name) const {
    x = nn::Conv2D({.filters = filters,
                    .kernel_size = 3,
                    .strides = strides,
                    .use_bias = false,
                    .name = name})(x);
    return Relu(Norm(x, name + "_bn"), name + "_act");
  }
  // Separable convolution, normalization.
  Symbol Separable(Symbol x, int64_t filters, const std::string& name) const {
    x = nn::SeparableConv2D(
        {.filters = filters, .kernel_size = 3, .padding = "same", .use_bias = false, .name = name})(
        x);
    return Norm(x, name + "_bn");
  }

  // Two separable convolutions, then halving of height and width; beside them a shortcut.
  Symbol HalvingBlock(Symbol x, int number, int64_t first_filters, int64_t filters) const {
    const std::string name = absl::StrCat("block", number);
    const Symbol shortcut = Norm(
        nn::Conv2D({.filters = filters, .strides = 2, .padding = "same", .use_bias = false})(x),
        "");
    if (number > 2) x = Relu(x, name + "_sepconv1_act");
    x = Separable(x, first_filters, name + "_sepconv1");
    x = Separable(Relu(x, name + "_sepconv2_act"), filters, name + "_sepconv2");
    x = nn::MaxPooling2D({.pool_size = 3, .strides = 2, .padding = "same", .name = name + "_pool"})(
        x);
    return nn::Add()({x, shortcut});
  }

  // Three separable convolutions with a shortcut around them.
  Symbol MiddleBlock(Symbol x, int number) const {
    Symbol y = x;
    for (int i = 1; i <= 3; ++i) {
      const std::string name = absl::StrCat("block", number, "_sepconv", i);
      y = Separable(Relu(y, name + "_act"), 728, name);
    }
    return nn::Add()({y, x});
  }
};

}  // namespace

nn::Network Xception(const ImageNetOptions& options) {
  const auto builder = internal::ImageNetBuilder::Start(kXception, options);
  if (!builder.ok()) return nn::Network(builder.status());
  const XceptionLayers layers{options.momentum.value_or(0.99)};
  Symbol x = layers.Conv(builder->image(), 32, 2, "block1_conv1");
  x = layers.Conv(x, 64, 1, "block1_conv2");
  x = layers.HalvingBlock(x, 2, 128, 128);
  x = layers.HalvingBlock(x, 3, 256, 256);
  x = layers.HalvingBlock(x, 4, 728, 728);
  for (int number = 5; number <= 12; ++number) x = layers.MiddleBlock(x, number);
  x = layers.HalvingBlock(x, 13, 728, 1024);
  for (const auto& [name, filters] :
       {std::pair{"block14_sepconv1", 1536}, {"block14_sepconv2", 2048}}) {
    x = layers.Relu(layers.Separable(x, filters, name), absl::StrCat(name, "_act"));
  }
  return builder->Finish(builder->Top(x), "xception");
}

std::vector<ModelInfo> internal::Xceptions() { return {kXception}; }

}  // namespace penstock::models
