#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/models/image_net_builder.h"
#include "penstock/models/mobilenet.h"

namespace penstock::models {
namespace {

using internal::Divisible, nn::Symbol;

// Names of torchvision.models.mobilenetv2. Its first block has no expansion.
constexpr TorchRow kMobileNetV2TorchRows[] = {
    {"Conv1", "features.0.0", TorchLayer::kConv},
    {"bn_Conv1", "features.0.1", TorchLayer::kNorm},
    {"expanded_conv_depthwise", "features.1.conv.0.0", TorchLayer::kDepthwiseConv},
    {"expanded_conv_depthwise_BN", "features.1.conv.0.1", TorchLayer::kNorm},
    {"expanded_conv_project", "features.1.conv.1", TorchLayer::kConv},
    {"expanded_conv_project_BN", "features.1.conv.2", TorchLayer::kNorm},
    {"block_#_expand", "features.{1+1}.conv.0.0", TorchLayer::kConv},
    {"block_#_expand_BN", "features.{1+1}.conv.0.1", TorchLayer::kNorm},
    {"block_#_depthwise", "features.{1+1}.conv.1.0", TorchLayer::kDepthwiseConv},
    {"block_#_depthwise_BN", "features.{1+1}.conv.1.1", TorchLayer::kNorm},
    {"block_#_project", "features.{1+1}.conv.2", TorchLayer::kConv},
    {"block_#_project_BN", "features.{1+1}.conv.3", TorchLayer::kNorm},
    {"Conv_1", "features.18.0", TorchLayer::kConv},
    {"Conv_1_bn", "features.18.1", TorchLayer::kNorm},
    {"predictions", "classifier.1", TorchLayer::kDense},
};
constexpr char kTorchConv1Pad[] = "Conv1_pad";  // a layer that only torchvision's variant has
constexpr TorchLayout kMobileNetV2Torch[] = {
    {.name = "torchvision", .rows = kMobileNetV2TorchRows, .required_layer = kTorchConv1Pad}};

struct MobileNetV2Row {
  ModelInfo model;
  bool torch;  // torchvision's variant
};

constexpr MobileNetV2Row kMobileNetV2s[] = {
    {{"mobilenet_v2", "MobileNetV2", MobileNetV2, 224, 32, PreprocessMode::kTf,
      kImageNet | kMomentum | kAlpha},
     false},
    {{"mobilenet_v2_torch", nullptr, MobileNetV2Torch, 224, 32, PreprocessMode::kTorch,
      kImageNet | kMomentum | kAlpha, kMobileNetV2Torch},
     true},
};

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
  double momentum, epsilon;
  Symbol operator()(Symbol x, const std::string& name) const {
    return nn::BatchNormalization({.momentum = momentum, .epsilon = epsilon, .name = name})(x);
  }
};

Symbol Relu6(Symbol x, const std::string& name) {
  return nn::ReLU({.max_value = 6, .name = name})(x);
}

Symbol Pointwise(Symbol x, int64_t filters, const std::string& name) {
  return nn::Conv2D({.filters = filters, .padding = "same", .use_bias = false, .name = name})(x);
}

// Differences of the two variants, and the width.
struct MobileNetV2Style {
  double alpha;
  MobileNorms norm;
  bool torch;

  // Padding of a 3x3 convolution with stride 2.
  nn::Ends<2> Padding(const Symbol& x) const {
    return torch ? nn::Ends<2>(1) : internal::PadForStride2(x, 3);
  }
};

// Inverted residual: expansion, 3x3 depthwise convolution, projection without activation.
Symbol Block(Symbol x, const StageRow& row, int64_t strides, const MobileNetV2Style& style,
             int number) {
  const auto& [alpha, norm, torch] = style;
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
    x = nn::ZeroPadding2D({.padding = style.Padding(x), .name = name + "pad"})(x);
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

nn::Network InvertedResiduals(ModelFunction make, const ImageNetOptions& options) {
  const auto& [model, torch] = internal::RowOf(kMobileNetV2s, make);
  const auto builder = internal::ImageNetBuilder::Start(model, options);
  if (!builder.ok()) return nn::Network(builder.status());
  const double alpha = options.alpha.value_or(1);
  const MobileNorms norm{options.momentum.value_or(torch ? 0.9 : 0.999), torch ? 1e-5 : 1e-3};
  const MobileNetV2Style style{alpha, norm, torch};
  Symbol x = builder->image();
  if (torch) x = nn::ZeroPadding2D({.padding = 1, .name = kTorchConv1Pad})(x);
  x = nn::Conv2D({.filters = Divisible(32 * alpha),
                  .kernel_size = 3,
                  .strides = 2,
                  .padding = torch ? "valid" : "same",
                  .use_bias = false,
                  .name = "Conv1"})(x);
  x = Relu6(norm(x, "bn_Conv1"), "Conv1_relu");
  int number = 0;
  for (const StageRow& row : kStages) {
    for (int64_t block = 0; block < row.count; ++block) {
      x = Block(x, row, block == 0 ? row.strides : 1, style, number++);
    }
  }
  x = nn::Conv2D({.filters = alpha > 1 ? Divisible(1280 * alpha) : 1280,
                  .use_bias = false,
                  .name = "Conv_1"})(x);
  x = Relu6(norm(x, "Conv_1_bn"), "out_relu");
  const std::string name =
      torch ? model.name
            : absl::StrFormat("mobilenetv2_%.2f_%d", alpha, builder->options().input_shape[0]);
  return builder->Finish(builder->Top(x, {.top = ""}), name);
}

}  // namespace

nn::Network MobileNetV2(const ImageNetOptions& options) {
  return InvertedResiduals(MobileNetV2, options);
}
nn::Network MobileNetV2Torch(const ImageNetOptions& options) {
  return InvertedResiduals(MobileNetV2Torch, options);
}

std::vector<ModelInfo> internal::MobileNetV2s() { return ModelsOf(kMobileNetV2s); }

}  // namespace penstock::models
