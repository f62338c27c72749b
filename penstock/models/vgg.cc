#include "penstock/models/vgg.h"

#include "absl/strings/str_cat.h"

#include "penstock/models/image_net_builder.h"

namespace penstock::models {
namespace {

// A network: configurations D and E of the paper's table 1. Number of 3x3 convolutions in each
// block, which ends by halving height and width.
struct VggRow {
  ModelInfo model;
  int64_t blocks[5];
};

constexpr TorchLayer kVggConv = TorchLayer::kConv, kVggDense = TorchLayer::kDense;
constexpr TorchRow kVgg16TorchRows[] = {
    {"block1_conv1", "features.0", kVggConv},  {"block1_conv2", "features.2", kVggConv},
    {"block2_conv1", "features.5", kVggConv},  {"block2_conv2", "features.7", kVggConv},
    {"block3_conv1", "features.10", kVggConv}, {"block3_conv2", "features.12", kVggConv},
    {"block3_conv3", "features.14", kVggConv}, {"block4_conv1", "features.17", kVggConv},
    {"block4_conv2", "features.19", kVggConv}, {"block4_conv3", "features.21", kVggConv},
    {"block5_conv1", "features.24", kVggConv}, {"block5_conv2", "features.26", kVggConv},
    {"block5_conv3", "features.28", kVggConv}, {"fc1", "classifier.0", kVggDense, 512},
    {"fc2", "classifier.3", kVggDense},        {"predictions", "classifier.6", kVggDense},
};
constexpr TorchRow kVgg19TorchRows[] = {
    {"block1_conv1", "features.0", kVggConv},   {"block1_conv2", "features.2", kVggConv},
    {"block2_conv1", "features.5", kVggConv},   {"block2_conv2", "features.7", kVggConv},
    {"block3_conv1", "features.10", kVggConv},  {"block3_conv2", "features.12", kVggConv},
    {"block3_conv3", "features.14", kVggConv},  {"block3_conv4", "features.16", kVggConv},
    {"block4_conv1", "features.19", kVggConv},  {"block4_conv2", "features.21", kVggConv},
    {"block4_conv3", "features.23", kVggConv},  {"block4_conv4", "features.25", kVggConv},
    {"block5_conv1", "features.28", kVggConv},  {"block5_conv2", "features.30", kVggConv},
    {"block5_conv3", "features.32", kVggConv},  {"block5_conv4", "features.34", kVggConv},
    {"fc1", "classifier.0", kVggDense, 512},    {"fc2", "classifier.3", kVggDense},
    {"predictions", "classifier.6", kVggDense},
};
constexpr TorchLayout kVgg16Torch[] = {{.name = "torchvision", .rows = kVgg16TorchRows}};
constexpr TorchLayout kVgg19Torch[] = {{.name = "torchvision", .rows = kVgg19TorchRows}};

constexpr VggRow kVggs[] = {
    {{"vgg16", "VGG16", VGG16, 224, 32, PreprocessMode::kCaffe, kImageNet, kVgg16Torch},
     {2, 2, 3, 3, 3}},
    {{"vgg19", "VGG19", VGG19, 224, 32, PreprocessMode::kCaffe, kImageNet, kVgg19Torch},
     {2, 2, 4, 4, 4}},
};
constexpr int64_t kVggFilters[] = {64, 128, 256, 512, 512};

nn::Network Vgg(ModelFunction make, const ImageNetOptions& options) {
  const auto& [model, blocks] = internal::RowOf(kVggs, make);
  const auto builder = internal::ImageNetBuilder::Start(model, options);
  if (!builder.ok()) return nn::Network(builder.status());
  nn::Symbol x = builder->image();
  for (int block = 0; block < 5; ++block) {
    const std::string name = absl::StrCat("block", block + 1);
    for (int64_t i = 1; i <= blocks[block]; ++i) {
      x = nn::Conv2D({.filters = kVggFilters[block],
                      .kernel_size = 3,
                      .padding = "same",
                      .activation = "relu",
                      .name = absl::StrCat(name, "_conv", i)})(x);
    }
    x = nn::MaxPooling2D({.name = name + "_pool"})(x);
  }
  if (options.include_top) {
    x = nn::Flatten({.name = "flatten"})(x);
    for (const char* name : {"fc1", "fc2"}) {
      x = nn::Dense({.units = 4096, .activation = "relu", .name = name})(x);
    }
    x = builder->Classify(x);
  } else {
    x = builder->Pool(x);
  }
  return builder->Finish(x, model.name);
}

}  // namespace

nn::Network VGG16(const ImageNetOptions& options) { return Vgg(VGG16, options); }
nn::Network VGG19(const ImageNetOptions& options) { return Vgg(VGG19, options); }

std::vector<ModelInfo> internal::Vggs() { return ModelsOf(kVggs); }

}  // namespace penstock::models
