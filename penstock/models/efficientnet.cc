#include "penstock/models/efficientnet.h"

#include <cmath>

#include "penstock/models/efficientnet_blocks.h"

namespace penstock::models {
namespace {

using internal::Divisible, nn::Symbol;

// Stage of table 1 of the paper: `count` blocks, the first of them with `strides`.
struct EfficientNetStage {
  int64_t kernel, count, filters, expansion, strides;
};

constexpr EfficientNetStage kEfficientNetStages[] = {
    {3, 1, 16, 1, 1},  {3, 2, 24, 6, 2},  {5, 2, 40, 6, 2},  {3, 3, 80, 6, 2},
    {5, 3, 112, 6, 1}, {5, 4, 192, 6, 2}, {3, 1, 320, 6, 1},
};
constexpr int64_t kEfficientNetStem = 32, kEfficientNetTop = 1280;

// kTorch is torchvision's: symmetric padding, epsilon 1e-5 for B0 to B4, nothing preprocessed
// inside.
enum class EfficientNetVariant { kKeras, kLite, kTorch };

struct EfficientNetRow {
  ModelInfo model;
  const char* network_name;
  double width, depth, dropout;
  EfficientNetVariant variant = EfficientNetVariant::kKeras;
  bool lite() const { return variant == EfficientNetVariant::kLite; }
  bool torch() const { return variant == EfficientNetVariant::kTorch; }
};

constexpr TorchLayer kEffConv = TorchLayer::kConv, kEffDepthwise = TorchLayer::kDepthwiseConv,
                     kEffNorm = TorchLayer::kNorm, kEffDense = TorchLayer::kDense;

// Names of torchvision.models.efficientnet. The blocks of the first stage have no expansion.
constexpr TorchRow kEfficientNetTorchvision[] = {
    {"stem_conv", "features.0.0", kEffConv},
    {"stem_bn", "features.0.1", kEffNorm},
    {"block1@_dwconv", "features.1.{1-1}.block.0.0", kEffDepthwise},
    {"block1@_bn", "features.1.{1-1}.block.0.1", kEffNorm},
    {"block1@_se_reduce", "features.1.{1-1}.block.1.fc1", kEffConv},
    {"block1@_se_expand", "features.1.{1-1}.block.1.fc2", kEffConv},
    {"block1@_project_conv", "features.1.{1-1}.block.2.0", kEffConv},
    {"block1@_project_bn", "features.1.{1-1}.block.2.1", kEffNorm},
    {"block#@_expand_conv", "features.{1}.{2-1}.block.0.0", kEffConv},
    {"block#@_expand_bn", "features.{1}.{2-1}.block.0.1", kEffNorm},
    {"block#@_dwconv", "features.{1}.{2-1}.block.1.0", kEffDepthwise},
    {"block#@_bn", "features.{1}.{2-1}.block.1.1", kEffNorm},
    {"block#@_se_reduce", "features.{1}.{2-1}.block.2.fc1", kEffConv},
    {"block#@_se_expand", "features.{1}.{2-1}.block.2.fc2", kEffConv},
    {"block#@_project_conv", "features.{1}.{2-1}.block.3.0", kEffConv},
    {"block#@_project_bn", "features.{1}.{2-1}.block.3.1", kEffNorm},
    {"top_conv", "features.8.0", kEffConv},
    {"top_bn", "features.8.1", kEffNorm},
    {"predictions", "classifier.1", kEffDense},
};
// Names of timm.models.efficientnet.
constexpr TorchRow kEfficientNetTimm[] = {
    {"stem_conv", "conv_stem", kEffConv},
    {"stem_bn", "bn1", kEffNorm},
    {"block1@_dwconv", "blocks.0.{1-1}.conv_dw", kEffDepthwise},
    {"block1@_bn", "blocks.0.{1-1}.bn1", kEffNorm},
    {"block1@_se_reduce", "blocks.0.{1-1}.se.conv_reduce", kEffConv},
    {"block1@_se_expand", "blocks.0.{1-1}.se.conv_expand", kEffConv},
    {"block1@_project_conv", "blocks.0.{1-1}.conv_pw", kEffConv},
    {"block1@_project_bn", "blocks.0.{1-1}.bn2", kEffNorm},
    {"block#@_expand_conv", "blocks.{1-1}.{2-1}.conv_pw", kEffConv},
    {"block#@_expand_bn", "blocks.{1-1}.{2-1}.bn1", kEffNorm},
    {"block#@_dwconv", "blocks.{1-1}.{2-1}.conv_dw", kEffDepthwise},
    {"block#@_bn", "blocks.{1-1}.{2-1}.bn2", kEffNorm},
    {"block#@_se_reduce", "blocks.{1-1}.{2-1}.se.conv_reduce", kEffConv},
    {"block#@_se_expand", "blocks.{1-1}.{2-1}.se.conv_expand", kEffConv},
    {"block#@_project_conv", "blocks.{1-1}.{2-1}.conv_pwl", kEffConv},
    {"block#@_project_bn", "blocks.{1-1}.{2-1}.bn3", kEffNorm},
    {"top_conv", "conv_head", kEffConv},
    {"top_bn", "bn2", kEffNorm},
    {"predictions", "classifier", kEffDense},
};
// The same without squeeze and excitation.
constexpr TorchRow kEfficientNetLiteTimm[] = {
    {"stem_conv", "conv_stem", kEffConv},
    {"stem_bn", "bn1", kEffNorm},
    {"block1@_dwconv", "blocks.0.{1-1}.conv_dw", kEffDepthwise},
    {"block1@_bn", "blocks.0.{1-1}.bn1", kEffNorm},
    {"block1@_project_conv", "blocks.0.{1-1}.conv_pw", kEffConv},
    {"block1@_project_bn", "blocks.0.{1-1}.bn2", kEffNorm},
    {"block#@_expand_conv", "blocks.{1-1}.{2-1}.conv_pw", kEffConv},
    {"block#@_expand_bn", "blocks.{1-1}.{2-1}.bn1", kEffNorm},
    {"block#@_dwconv", "blocks.{1-1}.{2-1}.conv_dw", kEffDepthwise},
    {"block#@_bn", "blocks.{1-1}.{2-1}.bn2", kEffNorm},
    {"block#@_project_conv", "blocks.{1-1}.{2-1}.conv_pwl", kEffConv},
    {"block#@_project_bn", "blocks.{1-1}.{2-1}.bn3", kEffNorm},
    {"top_conv", "conv_head", kEffConv},
    {"top_bn", "bn2", kEffNorm},
    {"predictions", "classifier", kEffDense},
};
// The package efficientnet_lite_pytorch, whose names are those of efficientnet_pytorch.
constexpr TorchRow kEfficientNetLitePytorch[] = {
    {"stem_conv", "_conv_stem", kEffConv},
    {"stem_bn", "_bn0", kEffNorm},
    {"block#@_expand_conv", "_blocks.{#}._expand_conv", kEffConv},
    {"block#@_expand_bn", "_blocks.{#}._bn0", kEffNorm},
    {"block#@_dwconv", "_blocks.{#}._depthwise_conv", kEffDepthwise},
    {"block#@_bn", "_blocks.{#}._bn1", kEffNorm},
    {"block#@_project_conv", "_blocks.{#}._project_conv", kEffConv},
    {"block#@_project_bn", "_blocks.{#}._bn2", kEffNorm},
    {"top_conv", "_conv_head", kEffConv},
    {"top_bn", "_bn1", kEffNorm},
    {"predictions", "_fc", kEffDense},
};

constexpr char kTorchStemPad[] = "stem_pad";  // a layer that only kTorch has
constexpr TorchLayout kEfficientNetTorch[] = {
    {.name = "torchvision", .rows = kEfficientNetTorchvision, .required_layer = kTorchStemPad},
    {.name = "timm", .rows = kEfficientNetTimm, .required_layer = kTorchStemPad}};
constexpr TorchLayout kEfficientNetLiteTorch[] = {
    {.name = "efficientnet_lite_pytorch", .rows = kEfficientNetLitePytorch},
    {.name = "timm", .rows = kEfficientNetLiteTimm}};

constexpr ModelInfo EfficientNetInfo(const char* name, const char* keras_name, ModelFunction make,
                                     int64_t size) {
  return {name,
          keras_name,
          make,
          size,
          32,
          PreprocessMode::kInside,
          kImageNet | kMomentum | kDropout | kDropConnect | kImageNetRescaling};
}
constexpr ModelInfo LiteInfo(const char* name, ModelFunction make, int64_t size) {
  return {name,
          nullptr,
          make,
          size,
          32,
          PreprocessMode::kInside,
          kImageNet | kMomentum | kDropout | kDropConnect | kIncludePreprocessing,
          kEfficientNetLiteTorch};
}
constexpr ModelInfo TorchInfo(const char* name, ModelFunction make, int64_t size) {
  return {name,
          nullptr,
          make,
          size,
          32,
          PreprocessMode::kTorch,
          kImageNet | kMomentum | kDropout | kDropConnect,
          kEfficientNetTorch};
}

constexpr auto kLite = EfficientNetVariant::kLite, kTorch = EfficientNetVariant::kTorch;

constexpr EfficientNetRow kEfficientNets[] = {
    {EfficientNetInfo("efficientnet_b0", "EfficientNetB0", EfficientNetB0, 224), "efficientnetb0",
     1.0, 1.0, 0.2},
    {EfficientNetInfo("efficientnet_b1", "EfficientNetB1", EfficientNetB1, 240), "efficientnetb1",
     1.0, 1.1, 0.2},
    {EfficientNetInfo("efficientnet_b2", "EfficientNetB2", EfficientNetB2, 260), "efficientnetb2",
     1.1, 1.2, 0.3},
    {EfficientNetInfo("efficientnet_b3", "EfficientNetB3", EfficientNetB3, 300), "efficientnetb3",
     1.2, 1.4, 0.3},
    {EfficientNetInfo("efficientnet_b4", "EfficientNetB4", EfficientNetB4, 380), "efficientnetb4",
     1.4, 1.8, 0.4},
    {EfficientNetInfo("efficientnet_b5", "EfficientNetB5", EfficientNetB5, 456), "efficientnetb5",
     1.6, 2.2, 0.4},
    {EfficientNetInfo("efficientnet_b6", "EfficientNetB6", EfficientNetB6, 528), "efficientnetb6",
     1.8, 2.6, 0.5},
    {EfficientNetInfo("efficientnet_b7", "EfficientNetB7", EfficientNetB7, 600), "efficientnetb7",
     2.0, 3.1, 0.5},
    {TorchInfo("efficientnet_b0_torch", EfficientNetB0Torch, 224), "efficientnet_b0_torch", 1.0,
     1.0, 0.2, kTorch},
    {TorchInfo("efficientnet_b1_torch", EfficientNetB1Torch, 240), "efficientnet_b1_torch", 1.0,
     1.1, 0.2, kTorch},
    {TorchInfo("efficientnet_b2_torch", EfficientNetB2Torch, 260), "efficientnet_b2_torch", 1.1,
     1.2, 0.3, kTorch},
    {TorchInfo("efficientnet_b3_torch", EfficientNetB3Torch, 300), "efficientnet_b3_torch", 1.2,
     1.4, 0.3, kTorch},
    {TorchInfo("efficientnet_b4_torch", EfficientNetB4Torch, 380), "efficientnet_b4_torch", 1.4,
     1.8, 0.4, kTorch},
    {TorchInfo("efficientnet_b5_torch", EfficientNetB5Torch, 456), "efficientnet_b5_torch", 1.6,
     2.2, 0.4, kTorch},
    {TorchInfo("efficientnet_b6_torch", EfficientNetB6Torch, 528), "efficientnet_b6_torch", 1.8,
     2.6, 0.5, kTorch},
    {TorchInfo("efficientnet_b7_torch", EfficientNetB7Torch, 600), "efficientnet_b7_torch", 2.0,
     3.1, 0.5, kTorch},
    {LiteInfo("efficientnet_lite0", EfficientNetLite0, 224), "efficientnet-lite0", 1.0, 1.0, 0.2,
     kLite},
    {LiteInfo("efficientnet_lite1", EfficientNetLite1, 240), "efficientnet-lite1", 1.0, 1.1, 0.2,
     kLite},
    {LiteInfo("efficientnet_lite2", EfficientNetLite2, 260), "efficientnet-lite2", 1.1, 1.2, 0.3,
     kLite},
    {LiteInfo("efficientnet_lite3", EfficientNetLite3, 280), "efficientnet-lite3", 1.2, 1.4, 0.3,
     kLite},
    {LiteInfo("efficientnet_lite4", EfficientNetLite4, 300), "efficientnet-lite4", 1.4, 1.8, 0.3,
     kLite},
};

// Number of blocks of a stage; Lite networks scale neither the first nor the last stage.
int64_t EfficientNetCount(const EfficientNetRow& row, const EfficientNetStage& stage) {
  const bool outermost =
      &stage == std::begin(kEfficientNetStages) || &stage == std::end(kEfficientNetStages) - 1;
  if (row.lite() && outermost) return stage.count;
  return static_cast<int64_t>(std::ceil(row.depth * static_cast<double>(stage.count)));
}

Symbol PreprocessEfficientNet(Symbol x, const ImageNetOptions& options,
                              const EfficientNetRow& row) {
  if (row.torch()) return x;
  if (row.lite()) {
    if (!options.include_preprocessing.value_or(true)) return x;
    return nn::Rescaling({.scale = 1 / 128.0, .offset = -127 / 128.0})(x);
  }
  x = nn::Normalization()(nn::Rescaling({.scale = 1 / 255.0})(x));
  if (!options.imagenet_rescaling.value_or(false)) return x;
  // Normalization divides by the square root of its variance, which in Keras's weights is the
  // standard deviation; the original networks divide by the standard deviation.
  return nn::Rescaling(
      {.scale = {1 / std::sqrt(0.229), 1 / std::sqrt(0.224), 1 / std::sqrt(0.225)}})(x);
}

internal::EfficientNetStyle EfficientNetStyleOf(const EfficientNetRow& row,
                                                const ImageNetOptions& options) {
  internal::EfficientNetStyle style{.momentum = options.momentum.value_or(0.99),
                                    .padding_layer = !row.lite(),
                                    .symmetric_padding = row.torch()};
  // torchvision's B5 to B7 have the paper's epsilon and momentum.
  if (row.torch() && row.depth < 2) {
    style.momentum = options.momentum.value_or(0.9);
    style.epsilon = 1e-5;
  }
  if (row.lite()) {
    style.activation = "relu6";
    style.kernel_initializer = nn::initializers::VarianceScaling(
        {.scale = 2, .mode = "fan_out", .distribution = "untruncated_normal"});
  }
  return style;
}

nn::Network EfficientNet(ModelFunction make, const ImageNetOptions& options) {
  const EfficientNetRow& row = internal::RowOf(kEfficientNets, make);
  const auto builder = internal::ImageNetBuilder::Start(row.model, options);
  if (!builder.ok()) return nn::Network(builder.status());
  const internal::EfficientNetStyle style = EfficientNetStyleOf(row, options);
  const auto width = [&](int64_t filters) {
    return Divisible(static_cast<double>(filters) * row.width);
  };
  Symbol x = PreprocessEfficientNet(builder->image(), options, row);
  internal::ConvNormRow stem{.filters = row.lite() ? kEfficientNetStem : width(kEfficientNetStem),
                             .kernel = 3,
                             .strides = 2};
  if (style.padding_layer) {
    x = nn::ZeroPadding2D({.padding = style.PaddingForStride2(x, 3),
                           .name = row.torch() ? kTorchStemPad : "stem_conv_pad"})(x);
    stem.padding = "valid";
  }
  x = internal::ConvNormActivation(x, stem, style, "stem_");
  int64_t number = 0, blocks = 0;
  for (const EfficientNetStage& stage : kEfficientNetStages)
    blocks += EfficientNetCount(row, stage);
  for (const EfficientNetStage& stage : kEfficientNetStages) {
    for (int64_t block = 0; block < EfficientNetCount(row, stage); ++block, ++number) {
      const double drop = options.drop_connect.value_or(0.2) * static_cast<double>(number) /
                          static_cast<double>(blocks);
      x = internal::MBConv(x,
                           {.fused = false,
                            .kernel = stage.kernel,
                            .filters = width(stage.filters),
                            .expansion = stage.expansion,
                            .strides = block == 0 ? stage.strides : 1,
                            .squeeze = row.lite() ? 0 : 0.25,
                            .drop_connect = drop},
                           style, internal::MBConvName(&stage - kEfficientNetStages, block));
    }
  }
  const int64_t top = row.lite() ? kEfficientNetTop : width(kEfficientNetTop);
  return builder->Finish(internal::EfficientNetTop(*builder, x, top, row.dropout, style),
                         row.network_name);
}

}  // namespace

nn::Network EfficientNetB0(const ImageNetOptions& options) {
  return EfficientNet(EfficientNetB0, options);
}
nn::Network EfficientNetB1(const ImageNetOptions& options) {
  return EfficientNet(EfficientNetB1, options);
}
nn::Network EfficientNetB2(const ImageNetOptions& options) {
  return EfficientNet(EfficientNetB2, options);
}
nn::Network EfficientNetB3(const ImageNetOptions& options) {
  return EfficientNet(EfficientNetB3, options);
}
nn::Network EfficientNetB4(const ImageNetOptions& options) {
  return EfficientNet(EfficientNetB4, options);
}
nn::Network EfficientNetB5(const ImageNetOptions& options) {
  return EfficientNet(EfficientNetB5, options);
}
nn::Network EfficientNetB6(const ImageNetOptions& options) {
  return EfficientNet(EfficientNetB6, options);
}
nn::Network EfficientNetB7(const ImageNetOptions& options) {
  return EfficientNet(EfficientNetB7, options);
}
nn::Network EfficientNetB0Torch(const ImageNetOptions& options) {
  return EfficientNet(EfficientNetB0Torch, options);
}
nn::Network EfficientNetB1Torch(const ImageNetOptions& options) {
  return EfficientNet(EfficientNetB1Torch, options);
}
nn::Network EfficientNetB2Torch(const ImageNetOptions& options) {
  return EfficientNet(EfficientNetB2Torch, options);
}
nn::Network EfficientNetB3Torch(const ImageNetOptions& options) {
  return EfficientNet(EfficientNetB3Torch, options);
}
nn::Network EfficientNetB4Torch(const ImageNetOptions& options) {
  return EfficientNet(EfficientNetB4Torch, options);
}
nn::Network EfficientNetB5Torch(const ImageNetOptions& options) {
  return EfficientNet(EfficientNetB5Torch, options);
}
nn::Network EfficientNetB6Torch(const ImageNetOptions& options) {
  return EfficientNet(EfficientNetB6Torch, options);
}
nn::Network EfficientNetB7Torch(const ImageNetOptions& options) {
  return EfficientNet(EfficientNetB7Torch, options);
}
nn::Network EfficientNetLite0(const ImageNetOptions& options) {
  return EfficientNet(EfficientNetLite0, options);
}
nn::Network EfficientNetLite1(const ImageNetOptions& options) {
  return EfficientNet(EfficientNetLite1, options);
}
nn::Network EfficientNetLite2(const ImageNetOptions& options) {
  return EfficientNet(EfficientNetLite2, options);
}
nn::Network EfficientNetLite3(const ImageNetOptions& options) {
  return EfficientNet(EfficientNetLite3, options);
}
nn::Network EfficientNetLite4(const ImageNetOptions& options) {
  return EfficientNet(EfficientNetLite4, options);
}

std::vector<ModelInfo> internal::EfficientNets() { return ModelsOf(kEfficientNets); }

}  // namespace penstock::models
