#include <algorithm>
#include <cmath>

#include "absl/types/span.h"

#include "penstock/models/efficientnet.h"
#include "penstock/models/efficientnet_blocks.h"

namespace penstock::models {
namespace {

using nn::Symbol;

// Stage of table 4 of the paper: `count` blocks with 3x3 kernels, the first of them with `strides`.
// Stages that are not fused have squeeze and excitation.
struct EfficientNetV2Stage {
  bool fused;
  int64_t count, filters, expansion, strides;
};

constexpr bool kFused = true;
constexpr EfficientNetV2Stage kV2BStages[] = {
    {kFused, 1, 16, 1, 1}, {kFused, 2, 32, 4, 2}, {kFused, 2, 48, 4, 2},
    {false, 3, 96, 4, 2},  {false, 5, 112, 6, 1}, {false, 8, 192, 6, 2},
};
constexpr EfficientNetV2Stage kV2SStages[] = {
    {kFused, 2, 24, 1, 1}, {kFused, 4, 48, 4, 2}, {kFused, 4, 64, 4, 2},
    {false, 6, 128, 4, 2}, {false, 9, 160, 6, 1}, {false, 15, 256, 6, 2},
};
constexpr EfficientNetV2Stage kV2MStages[] = {
    {kFused, 3, 24, 1, 1},  {kFused, 5, 48, 4, 2},  {kFused, 5, 80, 4, 2}, {false, 7, 160, 4, 2},
    {false, 14, 176, 6, 1}, {false, 18, 304, 6, 2}, {false, 5, 512, 6, 1},
};
constexpr EfficientNetV2Stage kV2LStages[] = {
    {kFused, 4, 32, 1, 1},  {kFused, 7, 64, 4, 2},  {kFused, 7, 96, 4, 2}, {false, 10, 192, 4, 2},
    {false, 19, 224, 6, 1}, {false, 25, 384, 6, 2}, {false, 7, 640, 6, 1},
};

struct EfficientNetV2Row {
  ModelInfo model;
  const char* network_name;
  absl::Span<const EfficientNetV2Stage> stages;
  int64_t stem_filters;
  double width = 1, depth = 1;
  bool torch_preprocessing = false;  // by ImageNet's mean and variance, instead of to -1 to 1
};

constexpr ModelInfo EfficientNetV2Info(const char* name, const char* keras_name, ModelFunction make,
                                       int64_t size) {
  return {name,
          keras_name,
          make,
          size,
          32,
          PreprocessMode::kInside,
          kImageNet | kMomentum | kDropout | kDropConnect | kIncludePreprocessing};
}

constexpr EfficientNetV2Row kEfficientNetV2s[] = {
    {EfficientNetV2Info("efficientnet_v2_b0", "EfficientNetV2B0", EfficientNetV2B0, 224),
     "efficientnetv2-b0", kV2BStages, 32, 1.0, 1.0, true},
    {EfficientNetV2Info("efficientnet_v2_b1", "EfficientNetV2B1", EfficientNetV2B1, 240),
     "efficientnetv2-b1", kV2BStages, 32, 1.0, 1.1, true},
    {EfficientNetV2Info("efficientnet_v2_b2", "EfficientNetV2B2", EfficientNetV2B2, 260),
     "efficientnetv2-b2", kV2BStages, 32, 1.1, 1.2, true},
    {EfficientNetV2Info("efficientnet_v2_b3", "EfficientNetV2B3", EfficientNetV2B3, 300),
     "efficientnetv2-b3", kV2BStages, 32, 1.2, 1.4, true},
    {EfficientNetV2Info("efficientnet_v2_s", "EfficientNetV2S", EfficientNetV2S, 384),
     "efficientnetv2-s", kV2SStages, 24},
    {EfficientNetV2Info("efficientnet_v2_m", "EfficientNetV2M", EfficientNetV2M, 480),
     "efficientnetv2-m", kV2MStages, 24},
    {EfficientNetV2Info("efficientnet_v2_l", "EfficientNetV2L", EfficientNetV2L, 480),
     "efficientnetv2-l", kV2LStages, 32},
};

// The multiple of 8 nearest to width * filters. Unlike Divisible it may be below 90 % of it.
int64_t NearestWidth(double width, int64_t filters) {
  const double wanted = width * static_cast<double>(filters);
  return std::max<int64_t>(8, static_cast<int64_t>(wanted + 4) / 8 * 8);
}

Symbol PreprocessV2(Symbol x, const EfficientNetV2Row& row) {
  if (!row.torch_preprocessing || internal::Channels(x) != 3) {
    return nn::Rescaling({.scale = 1 / 128.0, .offset = -1})(x);
  }
  x = nn::Rescaling({.scale = 1 / 255.0})(x);
  return nn::Normalization({.mean = {0.485, 0.456, 0.406},
                            .variance = {0.229 * 0.229, 0.224 * 0.224, 0.225 * 0.225}})(x);
}

nn::Network EfficientNetV2(ModelFunction make, const ImageNetOptions& options) {
  const EfficientNetV2Row& row = internal::RowOf(kEfficientNetV2s, make);
  const auto builder = internal::ImageNetBuilder::Start(row.model, options);
  if (!builder.ok()) return nn::Network(builder.status());
  const internal::EfficientNetStyle style{.momentum = options.momentum.value_or(0.9),
                                          .bias_initializer = nn::initializers::Constant(0),
                                          .depthwise_name = "dwconv2"};
  Symbol x = builder->image();
  if (options.include_preprocessing.value_or(true)) x = PreprocessV2(x, row);
  x = internal::ConvNormActivation(
      x, {.filters = NearestWidth(row.width, row.stem_filters), .kernel = 3, .strides = 2}, style,
      "stem_");
  // As in Keras, the probability to drop a block is relative to the number of blocks of the base
  // network.
  int64_t number = 0, blocks = 0;
  for (const EfficientNetV2Stage& stage : row.stages) blocks += stage.count;
  for (size_t s = 0; s < row.stages.size(); ++s) {
    const EfficientNetV2Stage& stage = row.stages[s];
    const double count = std::ceil(row.depth * static_cast<double>(stage.count));
    for (int64_t block = 0; block < static_cast<int64_t>(count); ++block, ++number) {
      const double drop = options.drop_connect.value_or(0.2) * static_cast<double>(number) /
                          static_cast<double>(blocks);
      x = internal::MBConv(x,
                           {.fused = stage.fused,
                            .kernel = 3,
                            .filters = NearestWidth(row.width, stage.filters),
                            .expansion = stage.expansion,
                            .strides = block == 0 ? stage.strides : 1,
                            .squeeze = stage.fused ? 0 : 0.25,
                            .drop_connect = drop},
                           style, internal::MBConvName(static_cast<int64_t>(s), block));
    }
  }
  const int64_t top = NearestWidth(row.width, 1280);
  return builder->Finish(internal::EfficientNetTop(*builder, x, top, 0.2, style), row.network_name);
}

}  // namespace

nn::Network EfficientNetV2B0(const ImageNetOptions& options) {
  return EfficientNetV2(EfficientNetV2B0, options);
}
nn::Network EfficientNetV2B1(const ImageNetOptions& options) {
  return EfficientNetV2(EfficientNetV2B1, options);
}
nn::Network EfficientNetV2B2(const ImageNetOptions& options) {
  return EfficientNetV2(EfficientNetV2B2, options);
}
nn::Network EfficientNetV2B3(const ImageNetOptions& options) {
  return EfficientNetV2(EfficientNetV2B3, options);
}
nn::Network EfficientNetV2S(const ImageNetOptions& options) {
  return EfficientNetV2(EfficientNetV2S, options);
}
nn::Network EfficientNetV2M(const ImageNetOptions& options) {
  return EfficientNetV2(EfficientNetV2M, options);
}
nn::Network EfficientNetV2L(const ImageNetOptions& options) {
  return EfficientNetV2(EfficientNetV2L, options);
}

std::vector<ModelInfo> internal::EfficientNetV2s() { return ModelsOf(kEfficientNetV2s); }

}  // namespace penstock::models
