#include "penstock/models/convnext.h"

#include <numeric>

#include "absl/strings/str_cat.h"

#include "penstock/models/image_net_builder.h"

namespace penstock::models {
namespace {

using nn::Symbol;

// Section 3 of the paper: numbers of blocks and channels of the four stages.
struct ConvNeXtRow {
  ModelInfo model;
  int64_t depths[4], dims[4];
};

// Names of torchvision.models.convnext and of timm.models.convnext. Without the top, the last
// normalization is called "layer_normalization".
constexpr TorchRow kConvNeXtTorchvision[] = {
    {"*_stem_conv", "features.0.0", TorchLayer::kConv},
    {"*_stem_layernorm", "features.0.1", TorchLayer::kNorm},
    {"*_downsampling_layernorm_#", "features.{2*1+2}.0", TorchLayer::kNorm},
    {"*_downsampling_conv_#", "features.{2*1+2}.1", TorchLayer::kConv},
    {"*_stage_#_block_#_depthwise_conv", "features.{2*1+1}.{2}.block.0", TorchLayer::kConv},
    {"*_stage_#_block_#_layernorm", "features.{2*1+1}.{2}.block.2", TorchLayer::kNorm},
    {"*_stage_#_block_#_pointwise_conv_1", "features.{2*1+1}.{2}.block.3", TorchLayer::kDense},
    {"*_stage_#_block_#_pointwise_conv_2", "features.{2*1+1}.{2}.block.5", TorchLayer::kDense},
    {"*_stage_#_block_#_layer_scale", "features.{2*1+1}.{2}.layer_scale", TorchLayer::kScaleC11},
    {"*_head_layernorm", "classifier.0", TorchLayer::kNorm},
    {"layer_normalization", "classifier.0", TorchLayer::kNorm},
    {"*_head_dense", "classifier.2", TorchLayer::kDense},
};
constexpr TorchRow kConvNeXtTimm[] = {
    {"*_stem_conv", "stem.0", TorchLayer::kConv},
    {"*_stem_layernorm", "stem.1", TorchLayer::kNorm},
    {"*_downsampling_layernorm_#", "stages.{1+1}.downsample.0", TorchLayer::kNorm},
    {"*_downsampling_conv_#", "stages.{1+1}.downsample.1", TorchLayer::kConv},
    {"*_stage_#_block_#_depthwise_conv", "stages.{1}.blocks.{2}.conv_dw", TorchLayer::kConv},
    {"*_stage_#_block_#_layernorm", "stages.{1}.blocks.{2}.norm", TorchLayer::kNorm},
    {"*_stage_#_block_#_pointwise_conv_1", "stages.{1}.blocks.{2}.mlp.fc1", TorchLayer::kDense},
    {"*_stage_#_block_#_pointwise_conv_2", "stages.{1}.blocks.{2}.mlp.fc2", TorchLayer::kDense},
    {"*_stage_#_block_#_layer_scale", "stages.{1}.blocks.{2}.gamma", TorchLayer::kScale},
    {"*_head_layernorm", "head.norm", TorchLayer::kNorm},
    {"layer_normalization", "head.norm", TorchLayer::kNorm},
    {"*_head_dense", "head.fc", TorchLayer::kDense},
};
constexpr TorchLayout kConvNeXtTorch[] = {{.name = "torchvision", .rows = kConvNeXtTorchvision},
                                          {.name = "timm", .rows = kConvNeXtTimm}};

constexpr ModelInfo ConvNeXtInfo(const char* name, const char* keras_name, ModelFunction make) {
  return {name,
          keras_name,
          make,
          224,
          32,
          PreprocessMode::kInside,
          kImageNet | kDropConnect | kIncludePreprocessing,
          kConvNeXtTorch};
}

constexpr ConvNeXtRow kConvNeXts[] = {
    {ConvNeXtInfo("convnext_tiny", "ConvNeXtTiny", ConvNeXtTiny),
     {3, 3, 9, 3},
     {96, 192, 384, 768}},
    {ConvNeXtInfo("convnext_small", "ConvNeXtSmall", ConvNeXtSmall),
     {3, 3, 27, 3},
     {96, 192, 384, 768}},
    {ConvNeXtInfo("convnext_base", "ConvNeXtBase", ConvNeXtBase),
     {3, 3, 27, 3},
     {128, 256, 512, 1024}},
    {ConvNeXtInfo("convnext_large", "ConvNeXtLarge", ConvNeXtLarge),
     {3, 3, 27, 3},
     {192, 384, 768, 1536}},
    {ConvNeXtInfo("convnext_xlarge", "ConvNeXtXLarge", ConvNeXtXLarge),
     {3, 3, 27, 3},
     {256, 512, 1024, 2048}},
};

Symbol ConvNeXtNorm(Symbol x, const std::string& name = "") {
  return nn::LayerNormalization({.epsilon = 1e-6, .name = name})(x);
}

// The layers that `layers` adds to x, as one layer: a Sequential of this name.
template <typename Layers>
Symbol AsOneLayer(Symbol x, const std::string& name, const Layers& layers) {
  if (!x.type().ok()) return x;
  const auto dims = x.type()->shape.dims();
  const Symbol input = nn::Input({.shape = {dims.begin() + 1, dims.end()}});
  return nn::Nested(nn::Network({input}, {layers(input)}, name).AsSequential())(x);
}

Symbol ConvNeXtPatches(Symbol x, int64_t filters, int64_t size, const std::string& name) {
  return nn::Conv2D({.filters = filters, .kernel_size = size, .strides = size, .name = name})(x);
}

Symbol ConvNeXtBlock(Symbol x, double drop_connect, const std::string& name) {
  const Symbol input = x;
  const int64_t dim = internal::Channels(x);
  x = nn::Conv2D({.filters = dim,
                  .kernel_size = 7,
                  .padding = "same",
                  .groups = dim,
                  .name = name + "_depthwise_conv"})(x);
  x = ConvNeXtNorm(x, name + "_layernorm");
  x = nn::Dense({.units = 4 * dim, .name = name + "_pointwise_conv_1"})(x);
  x = nn::Activation({.activation = "gelu", .name = name + "_gelu"})(x);
  x = nn::Dense({.units = dim, .name = name + "_pointwise_conv_2"})(x);
  x = nn::LayerScale({.projection_dim = dim, .name = name + "_layer_scale"})(x);
  x = drop_connect > 0 ? nn::StochasticDepth({.drop_path_rate = drop_connect,
                                              .name = name + "_stochastic_depth"})(x)
                       : nn::Activation({.name = name + "_identity"})(x);
  return nn::Add()({input, x});
}

nn::Network ConvNeXt(ModelFunction make, const ImageNetOptions& options) {
  const ConvNeXtRow& row = internal::RowOf(kConvNeXts, make);
  const auto builder = internal::ImageNetBuilder::Start(row.model, options);
  if (!builder.ok()) return nn::Network(builder.status());
  // The network's name begins the names of its layers.
  const std::string name = options.name.empty() ? row.model.name : options.name;
  Symbol x = builder->image();
  if (options.include_preprocessing.value_or(true) && internal::Channels(x) == 3) {
    const auto square = [](double x) { return x * x; };
    x = nn::Normalization(
        {.mean = {0.485 * 255, 0.456 * 255, 0.406 * 255},
         .variance = {square(0.229 * 255), square(0.224 * 255), square(0.225 * 255)},
         .name = name + "_prestem_normalization"})(x);
  }
  const int64_t blocks = std::accumulate(std::begin(row.depths), std::end(row.depths), int64_t{0});
  int64_t number = 0;
  for (int stage = 0; stage < 4; ++stage) {
    const int64_t filters = row.dims[stage];
    if (stage == 0) {
      x = AsOneLayer(x, name + "_stem", [&](Symbol y) {
        return ConvNeXtNorm(ConvNeXtPatches(y, filters, 4, name + "_stem_conv"),
                            name + "_stem_layernorm");
      });
    } else {
      x = AsOneLayer(x, absl::StrCat(name, "_downsampling_block_", stage - 1), [&](Symbol y) {
        y = ConvNeXtNorm(y, absl::StrCat(name, "_downsampling_layernorm_", stage - 1));
        return ConvNeXtPatches(y, filters, 2, absl::StrCat(name, "_downsampling_conv_", stage - 1));
      });
    }
    for (int64_t block = 0; block < row.depths[stage]; ++block, ++number) {
      const double drop = options.drop_connect.value_or(0) * static_cast<double>(number) /
                          static_cast<double>(blocks - 1);
      x = ConvNeXtBlock(x, drop, absl::StrCat(name, "_stage_", stage, "_block_", block));
    }
  }
  if (options.include_top) {
    x = nn::GlobalAveragePooling2D({.name = name + "_head_gap"})(x);
    x = ConvNeXtNorm(x, name + "_head_layernorm");
    x = nn::Dense({.units = options.classes,
                   .activation = options.classifier_activation,
                   .name = name + "_head_dense"})(x);
  } else {
    x = ConvNeXtNorm(builder->Pool(x));
  }
  return builder->Finish(x, name);
}

}  // namespace

nn::Network ConvNeXtTiny(const ImageNetOptions& options) { return ConvNeXt(ConvNeXtTiny, options); }
nn::Network ConvNeXtSmall(const ImageNetOptions& options) {
  return ConvNeXt(ConvNeXtSmall, options);
}
nn::Network ConvNeXtBase(const ImageNetOptions& options) { return ConvNeXt(ConvNeXtBase, options); }
nn::Network ConvNeXtLarge(const ImageNetOptions& options) {
  return ConvNeXt(ConvNeXtLarge, options);
}
nn::Network ConvNeXtXLarge(const ImageNetOptions& options) {
  return ConvNeXt(ConvNeXtXLarge, options);
}

std::vector<ModelInfo> internal::ConvNeXts() { return ModelsOf(kConvNeXts); }

}  // namespace penstock::models
