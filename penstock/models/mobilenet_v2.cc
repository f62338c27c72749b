#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/models/image_net_builder.h"
#include "penstock/models/mobilenet.h"

namespace penstock::models {
namespace {

using internal::Divisible, nn::Symbol;

constexpr ModelInfo kMobileNetV2 = {"mobilenet_v2",
                                    "MobileNetV2",
                                    MobileNetV2,
                                    224,
                                    32,
                                    PreprocessMode::kTf,
                                    kImageNet | kMomentum | kAlpha};

// Table 2 of the paper: `count` blocks of `filters` channels, the first of them with `strides`;
// each expands its input by `expansion` inside.
struct StageRow {
  int64_t expansion, filters, count, strides;
};

constexpr StageRow kStages[] = {
    {1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2},  {6, 64, 4, 2},
    {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1},
};

// Batch normalization with this network's options.
struct MobileNorms {
  double momentum;
  Symbol operator()(Symbol x, const std::string& name) const {
    return nn::BatchNormalization({.momentum = momentum, .epsilon = 1e-3, .name = name})(x);
  }
};

Symbol Relu6(Symbol x, const std::string& name) {
  return nn::ReLU({.max_value = 6, .name = name})(x);
}

Symbol Pointwise(Symbol x, int64_t filters, const std::string& name) {
  return nn::Conv2D({.filters = filters, .padding = "same", .use_bias = false, .name = name})(x);
}

// Inverted residual: expansion, 3x3 depthwise convolution, projection without activation.
Symbol Block(Symbol x, const StageRow& row, int64_t strides, double alpha, const MobileNorms& norm,
             int number) {
  const Symbol input = x;
  const int64_t channels = internal::Channels(x);
  const int64_t filters = Divisible(
      static_cast<double>(static_cast<int64_t>(static_cast<double>(row.filters) * alpha)));
  const std::string name = number == 0 ? "expanded_conv_" : absl::StrCat("block_", number, "_");
  if (number > 0) {
    x = Pointwise(x, row.expansion * channels, name + "expand");
    x = Relu6(norm(x, name + "expand_BN"), name + "expand_relu");
  }
  if (strides == 2) {
    x = nn::ZeroPadding2D({.padding = internal::PadForStride2(x, 3), .name = name + "pad"})(x);
  }
  x = nn::DepthwiseConv2D({.kernel_size = 3,
                           .strides = strides,
                           .padding = strides == 1 ? "same" : "valid",
                           .use_bias = false,
                           .name = name + "depthwise"})(x);
  x = Relu6(norm(x, name + "depthwise_BN"), name + "depthwise_relu");
  x = norm(Pointwise(x, filters, name + "project"), name + "project_BN");
  return channels == filters && strides == 1 ? nn::Add({.name = name + "add"})({input, x}) : x;
}

}  // namespace

nn::Network MobileNetV2(const ImageNetOptions& options) {
  const auto builder = internal::ImageNetBuilder::Start(kMobileNetV2, options);
  if (!builder.ok()) return nn::Network(builder.status());
  const double alpha = options.alpha.value_or(1);
  const MobileNorms norm{options.momentum.value_or(0.999)};
  Symbol x = builder->image();
  x = nn::Conv2D({.filters = Divisible(32 * alpha),
                  .kernel_size = 3,
                  .strides = 2,
                  .padding = "same",
                  .use_bias = false,
                  .name = "Conv1"})(x);
  x = Relu6(norm(x, "bn_Conv1"), "Conv1_relu");
  int number = 0;
  for (const StageRow& row : kStages) {
    for (int64_t block = 0; block < row.count; ++block) {
      x = Block(x, row, block == 0 ? row.strides : 1, alpha, norm, number++);
    }
  }
  x = nn::Conv2D({.filters = alpha > 1 ? Divisible(1280 * alpha) : 1280,
                  .use_bias = false,
                  .name = "Conv_1"})(x);
  x = Relu6(norm(x, "Conv_1_bn"), "out_relu");
  return builder->Finish(
      builder->Top(x, {.top = ""}),
      absl::StrFormat("mobilenetv2_%.2f_%d", alpha, builder->options().input_shape[0]));
}

std::vector<ModelInfo> internal::MobileNetV2s() { return {kMobileNetV2}; }

}  // namespace penstock::models
