#include "penstock/models/resnet.h"

#include "absl/strings/str_cat.h"

#include "penstock/models/image_net_builder.h"

namespace penstock::models {
namespace {

using nn::Symbol;

// kV1_5 is torchvision's: the 3x3 convolution of a block has the stride instead of the first one,
// convolutions have no biases, and epsilon is 1e-5.
enum class ResNetVersion { kV1, kV1_5, kV2 };

// A network: numbers of blocks per stage are those of the paper's table 1.
struct ResNetRow {
  ModelInfo model;
  const char* network_name;
  ResNetVersion version;
  int64_t blocks[4];
};

// The names of torchvision.models.resnet.
constexpr TorchRow kResNetTorchRows[] = {
    {"conv1_conv", "conv1", TorchLayer::kConv},
    {"conv1_bn", "bn1", TorchLayer::kNorm},
    {"conv#_block#_0_conv", "layer{1-1}.{2-1}.downsample.0", TorchLayer::kConv},
    {"conv#_block#_0_bn", "layer{1-1}.{2-1}.downsample.1", TorchLayer::kNorm},
    {"conv#_block#_#_conv", "layer{1-1}.{2-1}.conv{3}", TorchLayer::kConv},
    {"conv#_block#_#_bn", "layer{1-1}.{2-1}.bn{3}", TorchLayer::kNorm},
    {"predictions", "fc", TorchLayer::kDense},
};
constexpr TorchLayout kResNetTorch[] = {
    {.name = "torchvision", .rows = kResNetTorchRows, .required_layer = "conv2_block1_2_pad"}};

constexpr ModelInfo ResNetInfo(const char* name, const char* keras_name, ModelFunction make) {
  return {name, keras_name, make, 224, 32, PreprocessMode::kCaffe, kImageNet | kMomentum};
}
constexpr ModelInfo ResNetV2Info(const char* name, const char* keras_name, ModelFunction make) {
  return {name, keras_name, make, 224, 32, PreprocessMode::kTf, kImageNet | kMomentum};
}

constexpr ModelInfo TorchResNetInfo(const char* name, ModelFunction make) {
  return {name,        nullptr, make, 224, 32, PreprocessMode::kTorch, kImageNet | kMomentum,
          kResNetTorch};
}

constexpr auto kV1 = ResNetVersion::kV1, kV1_5 = ResNetVersion::kV1_5, kV2 = ResNetVersion::kV2;
constexpr ResNetRow kResNets[] = {
    {ResNetInfo("resnet50", "ResNet50", ResNet50), "resnet50", kV1, {3, 4, 6, 3}},
    {ResNetInfo("resnet101", "ResNet101", ResNet101), "resnet101", kV1, {3, 4, 23, 3}},
    {ResNetInfo("resnet152", "ResNet152", ResNet152), "resnet152", kV1, {3, 8, 36, 3}},
    {TorchResNetInfo("resnet50_v1_5", ResNet50V1_5), "resnet50_v1_5", kV1_5, {3, 4, 6, 3}},
    {TorchResNetInfo("resnet101_v1_5", ResNet101V1_5), "resnet101_v1_5", kV1_5, {3, 4, 23, 3}},
    {TorchResNetInfo("resnet152_v1_5", ResNet152V1_5), "resnet152_v1_5", kV1_5, {3, 8, 36, 3}},
    {ResNetV2Info("resnet50_v2", "ResNet50V2", ResNet50V2), "resnet50v2", kV2, {3, 4, 6, 3}},
    {ResNetV2Info("resnet101_v2", "ResNet101V2", ResNet101V2), "resnet101v2", kV2, {3, 4, 23, 3}},
    {ResNetV2Info("resnet152_v2", "ResNet152V2", ResNet152V2), "resnet152v2", kV2, {3, 8, 36, 3}},
};

// Batch normalization with this network's options.
struct ResNetNorms {
  double momentum, epsilon;
  Symbol operator()(Symbol x, const std::string& name) const {
    return nn::BatchNormalization({.momentum = momentum, .epsilon = epsilon, .name = name + "_bn"})(
        x);
  }
};

Symbol Relu(Symbol x, const std::string& name) {
  return nn::Activation({.activation = "relu", .name = name})(x);
}

struct ConvOptions {
  int64_t filters, kernel = 1, strides = 1;
  const char* padding = "valid";
  bool use_bias = true;
};

Symbol Conv(Symbol x, const ConvOptions& options, const std::string& name) {
  return nn::Conv2D({.filters = options.filters,
                     .kernel_size = options.kernel,
                     .strides = options.strides,
                     .padding = options.padding,
                     .use_bias = options.use_bias,
                     .name = name + "_conv"})(x);
}

Symbol NormRelu(const ResNetNorms& norm, Symbol x, const std::string& name) {
  return Relu(norm(x, name), name + "_relu");
}

// A block of a stage.
struct BlockOptions {
  int64_t filters, strides;
  bool project;  // with a convolution on the shortcut
  std::string name;
};

// Bottleneck block: reduction to `filters` channels, 3x3, expansion to four times as many. The
// first convolution has the stride, as in the paper.
Symbol Block(const ResNetNorms& norm, Symbol x, const BlockOptions& block) {
  const auto& [filters, strides, project, name] = block;
  const auto conv_norm = [&](Symbol x, const ConvOptions& options, const std::string& name) {
    return norm(Conv(x, options, name), name);
  };
  Symbol shortcut = x;
  if (project) shortcut = conv_norm(x, {.filters = 4 * filters, .strides = strides}, name + "_0");
  x = conv_norm(x, {.filters = filters, .strides = strides}, name + "_1");
  x = Relu(x, name + "_1_relu");
  x = conv_norm(x, {.filters = filters, .kernel = 3, .padding = "same"}, name + "_2");
  x = Relu(x, name + "_2_relu");
  x = conv_norm(x, {.filters = 4 * filters}, name + "_3");
  return Relu(nn::Add({.name = name + "_add"})({shortcut, x}), name + "_out");
}

// The same as torchvision has it (ResNetVersion::kV1_5).
Symbol BlockV1_5(const ResNetNorms& norm, Symbol x, const BlockOptions& block) {
  const auto& [filters, strides, project, name] = block;
  const auto conv_norm = [&](Symbol x, ConvOptions options, const std::string& name) {
    options.use_bias = false;
    return norm(Conv(x, options, name), name);
  };
  Symbol shortcut = x;
  if (project) shortcut = conv_norm(x, {.filters = 4 * filters, .strides = strides}, name + "_0");
  x = Relu(conv_norm(x, {.filters = filters}, name + "_1"), name + "_1_relu");
  // The padding "same" has no pixel at the top and left for stride 2.
  x = nn::ZeroPadding2D({.padding = 1, .name = name + "_2_pad"})(x);
  x = conv_norm(x, {.filters = filters, .kernel = 3, .strides = strides}, name + "_2");
  x = conv_norm(Relu(x, name + "_2_relu"), {.filters = 4 * filters}, name + "_3");
  return Relu(nn::Add({.name = name + "_add"})({shortcut, x}), name + "_out");
}

// The same with pre-activation: normalization and activation precede the convolutions, so that the
// sum is not modified. The 3x3 convolution has the stride, and the shortcut subsamples pixels.
Symbol BlockV2(const ResNetNorms& norm, Symbol x, const BlockOptions& block) {
  const auto& [filters, strides, project, name] = block;
  const Symbol active = NormRelu(norm, x, name + "_preact");
  Symbol shortcut = x;
  if (project) {
    shortcut = Conv(active, {.filters = 4 * filters, .strides = strides}, name + "_0");
  } else if (strides > 1) {
    shortcut = nn::MaxPooling2D({.pool_size = 1, .strides = strides})(x);
  }
  x = Conv(active, {.filters = filters, .use_bias = false}, name + "_1");
  x = nn::ZeroPadding2D({.padding = 1, .name = name + "_2_pad"})(NormRelu(norm, x, name + "_1"));
  x = Conv(x, {.filters = filters, .kernel = 3, .strides = strides, .use_bias = false},
           name + "_2");
  x = Conv(NormRelu(norm, x, name + "_2"), {.filters = 4 * filters}, name + "_3");
  return nn::Add({.name = name + "_out"})({shortcut, x});
}

std::string BlockName(int stage, int64_t block) {
  return absl::StrCat("conv", stage + 2, "_block", block + 1);
}

// Each stage but the first starts by halving height and width.
Symbol Stages(const ResNetNorms& norm, Symbol x, const int64_t (&blocks)[4], bool v1_5) {
  for (int stage = 0; stage < 4; ++stage) {
    for (int64_t block = 0; block < blocks[stage]; ++block) {
      const bool first = block == 0;
      const BlockOptions options{int64_t{64} << stage, first && stage > 0 ? 2 : 1, first,
                                 BlockName(stage, block)};
      x = v1_5 ? BlockV1_5(norm, x, options) : Block(norm, x, options);
    }
  }
  return x;
}

// Each stage but the last ends by halving height and width.
Symbol StagesV2(const ResNetNorms& norm, Symbol x, const int64_t (&blocks)[4]) {
  for (int stage = 0; stage < 4; ++stage) {
    for (int64_t block = 0; block < blocks[stage]; ++block) {
      const bool last = block + 1 == blocks[stage];
      x = BlockV2(
          norm, x,
          {int64_t{64} << stage, last && stage < 3 ? 2 : 1, block == 0, BlockName(stage, block)});
    }
  }
  return NormRelu(norm, x, "post");
}

nn::Network ImageNetResNet(ModelFunction make, const ImageNetOptions& options) {
  const ResNetRow& row = internal::RowOf(kResNets, make);
  const auto builder = internal::ImageNetBuilder::Start(row.model, options);
  if (!builder.ok()) return nn::Network(builder.status());
  Symbol x = nn::ZeroPadding2D({.padding = 3, .name = "conv1_pad"})(builder->image());
  const bool v1_5 = row.version == kV1_5, v2 = row.version == kV2;
  x = Conv(x, {.filters = 64, .kernel = 7, .strides = 2, .use_bias = !v1_5}, "conv1");
  const ResNetNorms norm{options.momentum.value_or(v1_5 ? 0.9 : 0.99), v1_5 ? 1e-5 : 1.001e-5};
  if (!v2) x = NormRelu(norm, x, "conv1");
  x = nn::ZeroPadding2D({.padding = 1, .name = "pool1_pad"})(x);
  x = nn::MaxPooling2D({.pool_size = 3, .strides = 2, .name = "pool1_pool"})(x);
  x = v2 ? StagesV2(norm, x, row.blocks) : Stages(norm, x, row.blocks, v1_5);
  return builder->Finish(builder->Top(x, {.avg = "avg_pool", .max = "max_pool"}), row.network_name);
}

}  // namespace

nn::Network ResNet50(const ImageNetOptions& options) { return ImageNetResNet(ResNet50, options); }
nn::Network ResNet101(const ImageNetOptions& options) { return ImageNetResNet(ResNet101, options); }
nn::Network ResNet152(const ImageNetOptions& options) { return ImageNetResNet(ResNet152, options); }
nn::Network ResNet50V1_5(const ImageNetOptions& options) {
  return ImageNetResNet(ResNet50V1_5, options);
}
nn::Network ResNet101V1_5(const ImageNetOptions& options) {
  return ImageNetResNet(ResNet101V1_5, options);
}
nn::Network ResNet152V1_5(const ImageNetOptions& options) {
  return ImageNetResNet(ResNet152V1_5, options);
}
nn::Network ResNet50V2(const ImageNetOptions& options) {
  return ImageNetResNet(ResNet50V2, options);
}
nn::Network ResNet101V2(const ImageNetOptions& options) {
  return ImageNetResNet(ResNet101V2, options);
}
nn::Network ResNet152V2(const ImageNetOptions& options) {
  return ImageNetResNet(ResNet152V2, options);
}

std::vector<ModelInfo> internal::ResNets() { return ModelsOf(kResNets); }

}  // namespace penstock::models
