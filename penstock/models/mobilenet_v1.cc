#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/models/image_net_builder.h"
#include "penstock/models/mobilenet.h"

namespace penstock::models {
namespace {

using nn::Symbol;

constexpr ModelInfo kMobileNet = {"mobilenet",
                                  "MobileNet",
                                  MobileNet,
                                  224,
                                  32,
                                  PreprocessMode::kTf,
                                  kImageNet | kMomentum | kAlpha | kDepthMultiplier | kDropout};

// Table 1 of the paper: depthwise separable convolutions.
struct MobileNetV1Row {
  int64_t filters, strides;
};

constexpr MobileNetV1Row kMobileNetV1Rows[] = {
    {64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},  {512, 2},  {512, 1},
    {512, 1}, {512, 1}, {512, 1}, {512, 1}, {1024, 2}, {1024, 1},
};

// Width multiplier, multiplier of the depthwise convolutions, momentum of batch normalization.
struct MobileNetV1Scale {
  double alpha;
  int64_t depth_multiplier;
  double momentum;

  int64_t Filters(int64_t filters) const {
    return static_cast<int64_t>(static_cast<double>(filters) * alpha);
  }
  Symbol NormRelu6(Symbol x, const std::string& name) const {
    x = nn::BatchNormalization({.momentum = momentum, .name = name + "_bn"})(x);
    return nn::ReLU({.max_value = 6, .name = name + "_relu"})(x);
  }
};

Symbol MobileNetV1Block(Symbol x, const MobileNetV1Row& row, const MobileNetV1Scale& scale,
                        int number) {
  const bool halves = row.strides == 2;
  if (halves) {
    x = nn::ZeroPadding2D({.padding = {{0, 1}, {0, 1}}, .name = absl::StrCat("conv_pad_", number)})(
        x);
  }
  const std::string depthwise = absl::StrCat("conv_dw_", number),
                    pointwise = absl::StrCat("conv_pw_", number);
  x = nn::DepthwiseConv2D({.kernel_size = 3,
                           .strides = row.strides,
                           .padding = halves ? "valid" : "same",
                           .depth_multiplier = scale.depth_multiplier,
                           .use_bias = false,
                           .name = depthwise})(x);
  x = scale.NormRelu6(x, depthwise);
  x = nn::Conv2D({.filters = scale.Filters(row.filters),
                  .padding = "same",
                  .use_bias = false,
                  .name = pointwise})(x);
  return scale.NormRelu6(x, pointwise);
}

}  // namespace

nn::Network MobileNet(const ImageNetOptions& options) {
  const auto builder = internal::ImageNetBuilder::Start(kMobileNet, options);
  if (!builder.ok()) return nn::Network(builder.status());
  const MobileNetV1Scale scale{options.alpha.value_or(1), options.depth_multiplier.value_or(1),
                               options.momentum.value_or(0.99)};
  Symbol x = nn::Conv2D({.filters = scale.Filters(32),
                         .kernel_size = 3,
                         .strides = 2,
                         .padding = "same",
                         .use_bias = false,
                         .name = "conv1"})(builder->image());
  x = scale.NormRelu6(x, "conv1");
  int number = 0;
  for (const MobileNetV1Row& row : kMobileNetV1Rows) x = MobileNetV1Block(x, row, scale, ++number);
  if (options.include_top) {
    x = nn::GlobalAveragePooling2D({.keepdims = true})(x);
    x = nn::Dropout({.rate = options.dropout.value_or(1e-3), .name = "dropout"})(x);
    x = nn::Conv2D({.filters = options.classes, .padding = "same", .name = "conv_preds"})(x);
    x = nn::Reshape({.target_shape = {options.classes}, .name = "reshape_2"})(x);
    x = nn::Activation({.activation = options.classifier_activation, .name = "predictions"})(x);
  } else {
    x = builder->Pool(x);
  }
  return builder->Finish(
      x, absl::StrFormat("mobilenet_%.2f_%d", scale.alpha, builder->options().input_shape[0]));
}

std::vector<ModelInfo> internal::MobileNetV1s() { return {kMobileNet}; }

}  // namespace penstock::models
