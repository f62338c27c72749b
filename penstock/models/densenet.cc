#include "penstock/models/densenet.h"

#include "absl/strings/str_cat.h"

#include "penstock/models/image_net_builder.h"

namespace penstock::models {
namespace {

using nn::Symbol;

// A network: number of layers in each block, table 1 of the paper.
struct DenseNetRow {
  ModelInfo model;
  int64_t layers[4];
};

// torchvision's names, and those in its older files. Its epsilon is 1e-5, here and in Keras it is
// 1.001e-5.
constexpr TorchRow kDenseNetTorchRows[] = {
    {"conv1_conv", "features.conv0", TorchLayer::kConv},
    {"conv1_bn", "features.norm0", TorchLayer::kNorm},
    {"conv#_block#_0_bn", "features.denseblock{1-1}.denselayer{2}.norm1", TorchLayer::kNorm},
    {"conv#_block#_1_conv", "features.denseblock{1-1}.denselayer{2}.conv1", TorchLayer::kConv},
    {"conv#_block#_1_bn", "features.denseblock{1-1}.denselayer{2}.norm2", TorchLayer::kNorm},
    {"conv#_block#_2_conv", "features.denseblock{1-1}.denselayer{2}.conv2", TorchLayer::kConv},
    {"pool#_bn", "features.transition{1-1}.norm", TorchLayer::kNorm},
    {"pool#_conv", "features.transition{1-1}.conv", TorchLayer::kConv},
    {"bn", "features.norm5", TorchLayer::kNorm},
    {"predictions", "classifier", TorchLayer::kDense},
};
constexpr TorchRow kDenseNetOldTorchRows[] = {
    {"conv1_conv", "features.conv0", TorchLayer::kConv},
    {"conv1_bn", "features.norm0", TorchLayer::kNorm},
    {"conv#_block#_0_bn", "features.denseblock{1-1}.denselayer{2}.norm.1", TorchLayer::kNorm},
    {"conv#_block#_1_conv", "features.denseblock{1-1}.denselayer{2}.conv.1", TorchLayer::kConv},
    {"conv#_block#_1_bn", "features.denseblock{1-1}.denselayer{2}.norm.2", TorchLayer::kNorm},
    {"conv#_block#_2_conv", "features.denseblock{1-1}.denselayer{2}.conv.2", TorchLayer::kConv},
    {"pool#_bn", "features.transition{1-1}.norm", TorchLayer::kNorm},
    {"pool#_conv", "features.transition{1-1}.conv", TorchLayer::kConv},
    {"bn", "features.norm5", TorchLayer::kNorm},
    {"predictions", "classifier", TorchLayer::kDense},
};
constexpr TorchLayout kDenseNetTorch[] = {
    {.name = "torchvision", .rows = kDenseNetTorchRows},
    {.name = "torchvision (old)", .rows = kDenseNetOldTorchRows}};

constexpr ModelInfo DenseNetInfo(const char* name, const char* keras_name, ModelFunction make) {
  return {name,          keras_name, make, 224, 32, PreprocessMode::kTorch, kImageNet | kMomentum,
          kDenseNetTorch};
}

constexpr DenseNetRow kDenseNets[] = {
    {DenseNetInfo("densenet121", "DenseNet121", DenseNet121), {6, 12, 24, 16}},
    {DenseNetInfo("densenet169", "DenseNet169", DenseNet169), {6, 12, 32, 32}},
    {DenseNetInfo("densenet201", "DenseNet201", DenseNet201), {6, 12, 48, 32}},
};

constexpr int64_t kGrowthRate = 32;  // channels that a layer adds

// Layers of this family, named after `name`.
struct DenseLayers {
  double momentum;

  // Normalization and activation.
  Symbol Active(Symbol x, const std::string& norm, const std::string& relu) const {
    x = nn::BatchNormalization({.momentum = momentum, .epsilon = 1.001e-5, .name = norm})(x);
    return nn::Activation({.activation = "relu", .name = relu})(x);
  }
  static Symbol Conv(Symbol x, int64_t filters, int64_t kernel, const std::string& name) {
    return nn::Conv2D({.filters = filters,
                       .kernel_size = kernel,
                       .padding = kernel > 1 ? "same" : "valid",
                       .use_bias = false,
                       .name = name})(x);
  }

  Symbol Block(Symbol x, int64_t count, const std::string& block) const {
    for (int64_t i = 1; i <= count; ++i) {
      const std::string name = absl::StrCat(block, "_block", i);
      Symbol y = Active(x, name + "_0_bn", name + "_0_relu");
      y = Conv(y, 4 * kGrowthRate, 1, name + "_1_conv");
      y = Active(y, name + "_1_bn", name + "_1_relu");
      y = Conv(y, kGrowthRate, 3, name + "_2_conv");
      x = nn::Concatenate({.axis = 3, .name = name + "_concat"})({x, y});
    }
    return x;
  }

  // Halves height, width, and channels.
  Symbol Transition(Symbol x, const std::string& name) const {
    x = Active(x, name + "_bn", name + "_relu");
    x = Conv(x, internal::Channels(x) / 2, 1, name + "_conv");
    return nn::AveragePooling2D({.pool_size = 2, .name = name + "_pool"})(x);
  }
};

nn::Network DenseNet(ModelFunction make, const ImageNetOptions& options) {
  const DenseNetRow& row = internal::RowOf(kDenseNets, make);
  const auto builder = internal::ImageNetBuilder::Start(row.model, options);
  if (!builder.ok()) return nn::Network(builder.status());
  const DenseLayers layers{options.momentum.value_or(0.99)};
  Symbol x = nn::ZeroPadding2D({.padding = 3})(builder->image());
  x = nn::Conv2D(
      {.filters = 64, .kernel_size = 7, .strides = 2, .use_bias = false, .name = "conv1_conv"})(x);
  x = layers.Active(x, "conv1_bn", "conv1_relu");
  x = nn::ZeroPadding2D({.padding = 1})(x);
  x = nn::MaxPooling2D({.pool_size = 3, .strides = 2, .name = "pool1"})(x);
  for (int block = 0; block < 4; ++block) {
    if (block > 0) x = layers.Transition(x, absl::StrCat("pool", block + 1));
    x = layers.Block(x, row.layers[block], absl::StrCat("conv", block + 2));
  }
  x = layers.Active(x, "bn", "relu");
  return builder->Finish(builder->Top(x, {.avg = "avg_pool", .max = "max_pool"}), row.model.name);
}

}  // namespace

nn::Network DenseNet121(const ImageNetOptions& options) { return DenseNet(DenseNet121, options); }
nn::Network DenseNet169(const ImageNetOptions& options) { return DenseNet(DenseNet169, options); }
nn::Network DenseNet201(const ImageNetOptions& options) { return DenseNet(DenseNet201, options); }

std::vector<ModelInfo> internal::DenseNets() { return ModelsOf(kDenseNets); }

}  // namespace penstock::models
