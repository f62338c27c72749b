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

struct EfficientNetRow {
  ModelInfo model;
  const char* network_name;
  double width, depth, dropout;
  bool lite = false;
};

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
          kImageNet | kMomentum | kDropout | kDropConnect | kIncludePreprocessing};
}

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
    {LiteInfo("efficientnet_lite0", EfficientNetLite0, 224), "efficientnet-lite0", 1.0, 1.0, 0.2,
     true},
    {LiteInfo("efficientnet_lite1", EfficientNetLite1, 240), "efficientnet-lite1", 1.0, 1.1, 0.2,
     true},
    {LiteInfo("efficientnet_lite2", EfficientNetLite2, 260), "efficientnet-lite2", 1.1, 1.2, 0.3,
     true},
    {LiteInfo("efficientnet_lite3", EfficientNetLite3, 280), "efficientnet-lite3", 1.2, 1.4, 0.3,
     true},
    {LiteInfo("efficientnet_lite4", EfficientNetLite4, 300), "efficientnet-lite4", 1.4, 1.8, 0.3,
     true},
};

// Number of blocks of a stage; Lite networks scale neither the first nor the last stage.
int64_t EfficientNetCount(const EfficientNetRow& row, const EfficientNetStage& stage) {
  const bool outermost =
      &stage == std::begin(kEfficientNetStages) || &stage == std::end(kEfficientNetStages) - 1;
  if (row.lite && outermost) return stage.count;
  return static_cast<int64_t>(std::ceil(row.depth * static_cast<double>(stage.count)));
}

Symbol PreprocessEfficientNet(Symbol x, const ImageNetOptions& options, bool lite) {
  if (lite) {
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
                                    .padding_layer = !row.lite};
  if (row.lite) {
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
  Symbol x = PreprocessEfficientNet(builder->image(), options, row.lite);
  internal::ConvNormRow stem{.filters = row.lite ? kEfficientNetStem : width(kEfficientNetStem),
                             .kernel = 3,
                             .strides = 2};
  if (style.padding_layer) {
    x = nn::ZeroPadding2D({.padding = internal::PadForStride2(x, 3), .name = "stem_conv_pad"})(x);
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
                            .squeeze = row.lite ? 0 : 0.25,
                            .drop_connect = drop},
                           style, internal::MBConvName(&stage - kEfficientNetStages, block));
    }
  }
  const int64_t top = row.lite ? kEfficientNetTop : width(kEfficientNetTop);
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
