#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "penstock/models/image_net_builder.h"
#include "penstock/models/mobilenet.h"

namespace penstock::models {
namespace {

using internal::Divisible, nn::Symbol;

// Block of the paper's tables 1 and 2. Minimalistic networks have 3x3 kernels, and neither squeeze
// and excitation nor hard swish.
struct BneckRow {
  double expansion;
  int64_t filters, kernel, strides;
  bool squeeze_excite, hard_swish;
};

constexpr bool kBneckSqueeze = true, kBneckSwish = true;
constexpr BneckRow kSmallBnecks[] = {
    {1, 16, 3, 2, kBneckSqueeze, false},       {72 / 16.0, 24, 3, 2, false, false},
    {88 / 24.0, 24, 3, 1, false, false},       {4, 40, 5, 2, kBneckSqueeze, kBneckSwish},
    {6, 40, 5, 1, kBneckSqueeze, kBneckSwish}, {6, 40, 5, 1, kBneckSqueeze, kBneckSwish},
    {3, 48, 5, 1, kBneckSqueeze, kBneckSwish}, {3, 48, 5, 1, kBneckSqueeze, kBneckSwish},
    {6, 96, 5, 2, kBneckSqueeze, kBneckSwish}, {6, 96, 5, 1, kBneckSqueeze, kBneckSwish},
    {6, 96, 5, 1, kBneckSqueeze, kBneckSwish},
};
constexpr BneckRow kLargeBnecks[] = {
    {1, 16, 3, 1, false, false},
    {4, 24, 3, 2, false, false},
    {3, 24, 3, 1, false, false},
    {3, 40, 5, 2, kBneckSqueeze, false},
    {3, 40, 5, 1, kBneckSqueeze, false},
    {3, 40, 5, 1, kBneckSqueeze, false},
    {6, 80, 3, 2, false, kBneckSwish},
    {2.5, 80, 3, 1, false, kBneckSwish},
    {2.3, 80, 3, 1, false, kBneckSwish},
    {2.3, 80, 3, 1, false, kBneckSwish},
    {6, 112, 3, 1, kBneckSqueeze, kBneckSwish},
    {6, 112, 3, 1, kBneckSqueeze, kBneckSwish},
    {6, 160, 5, 2, kBneckSqueeze, kBneckSwish},
    {6, 160, 5, 1, kBneckSqueeze, kBneckSwish},
    {6, 160, 5, 1, kBneckSqueeze, kBneckSwish},
};

struct MobileNetV3Row {
  ModelInfo model;
  absl::Span<const BneckRow> blocks;
  int64_t top_filters;  // of the layer before the classifier
};

constexpr ModelInfo MobileNetV3Info(const char* name, const char* keras_name, ModelFunction make) {
  return {name,
          keras_name,
          make,
          224,
          32,
          PreprocessMode::kInside,
          kImageNet | kMomentum | kAlpha | kDropout | kMinimalistic | kIncludePreprocessing};
}

constexpr MobileNetV3Row kMobileNetV3s[] = {
    {MobileNetV3Info("mobilenet_v3_small", "MobileNetV3Small", MobileNetV3Small), kSmallBnecks,
     1024},
    {MobileNetV3Info("mobilenet_v3_large", "MobileNetV3Large", MobileNetV3Large), kLargeBnecks,
     1280},
};

struct MobileNetV3Style {
  double alpha, momentum;
  bool minimalistic;

  Symbol Norm(Symbol x, const std::string& name) const {
    return nn::BatchNormalization({.momentum = momentum, .name = name})(x);
  }
  Symbol Activate(Symbol x, bool hard_swish) const {
    if (hard_swish && !minimalistic) return nn::Activation({.activation = "hard_silu"})(x);
    return nn::ReLU()(x);
  }
};

Symbol BneckConv(Symbol x, int64_t filters, bool use_bias, const std::string& name) {
  return nn::Conv2D({.filters = filters, .padding = "same", .use_bias = use_bias, .name = name})(x);
}

// Squeeze and excitation with relu6(x + 3) / 6 as its sigmoid.
Symbol BneckSqueezeExcite(Symbol x, int64_t channels, const std::string& prefix) {
  const std::string name = prefix + "squeeze_excite_";
  Symbol weight = nn::GlobalAveragePooling2D({.keepdims = true, .name = name + "avg_pool"})(x);
  weight = BneckConv(weight, Divisible(static_cast<double>(channels) * 0.25), true, name + "conv");
  weight = nn::ReLU({.name = name + "relu"})(weight);
  weight = BneckConv(weight, channels, true, name + "conv_1");
  weight = nn::ReLU({.max_value = 6})(nn::Add({.constant = 3})(weight));
  weight = nn::Multiply({.constant = 1 / 6.0})(weight);
  return nn::Multiply({.name = name + "mul"})({x, weight});
}

Symbol BneckBlock(Symbol x, const BneckRow& row, const MobileNetV3Style& style, int number) {
  const Symbol input = x;
  const int64_t channels = internal::Channels(x),
                expanded = Divisible(static_cast<double>(channels) * row.expansion),
                filters = Divisible(static_cast<double>(row.filters) * style.alpha),
                kernel = style.minimalistic ? 3 : row.kernel;
  const std::string prefix =
      number == 0 ? "expanded_conv_" : absl::StrCat("expanded_conv_", number, "_");
  if (number > 0) {
    x = style.Norm(BneckConv(x, expanded, false, prefix + "expand"), prefix + "expand_bn");
    x = style.Activate(x, row.hard_swish);
  }
  if (row.strides == 2) {
    x = nn::ZeroPadding2D(
        {.padding = internal::PadForStride2(x, kernel), .name = prefix + "depthwise_pad"})(x);
  }
  x = nn::DepthwiseConv2D({.kernel_size = kernel,
                           .strides = row.strides,
                           .padding = row.strides == 1 ? "same" : "valid",
                           .use_bias = false,
                           .name = prefix + "depthwise"})(x);
  x = style.Activate(style.Norm(x, prefix + "depthwise_bn"), row.hard_swish);
  if (row.squeeze_excite && !style.minimalistic) x = BneckSqueezeExcite(x, expanded, prefix);
  x = style.Norm(BneckConv(x, filters, false, prefix + "project"), prefix + "project_bn");
  if (row.strides == 1 && channels == filters) x = nn::Add({.name = prefix + "add"})({input, x});
  return x;
}

nn::Network MobileNetV3(ModelFunction make, const ImageNetOptions& options) {
  const MobileNetV3Row& row = internal::RowOf(kMobileNetV3s, make);
  const auto builder = internal::ImageNetBuilder::Start(row.model, options);
  if (!builder.ok()) return nn::Network(builder.status());
  const MobileNetV3Style style{options.alpha.value_or(1), options.momentum.value_or(0.999),
                               options.minimalistic.value_or(false)};
  Symbol x = builder->image();
  if (options.include_preprocessing.value_or(true)) {
    x = nn::Rescaling({.scale = 1 / 127.5, .offset = -1})(x);
  }
  x = nn::Conv2D({.filters = 16,
                  .kernel_size = 3,
                  .strides = 2,
                  .padding = "same",
                  .use_bias = false,
                  .name = "conv"})(x);
  x = style.Activate(style.Norm(x, "conv_bn"), true);
  int number = 0;
  for (const BneckRow& block : row.blocks) x = BneckBlock(x, block, style, number++);
  const int64_t last = Divisible(static_cast<double>(internal::Channels(x)) * 6);
  x = style.Norm(BneckConv(x, last, false, "conv_1"), "conv_1_bn");
  x = style.Activate(x, true);
  if (options.include_top) {
    const double top = static_cast<double>(row.top_filters);
    x = nn::GlobalAveragePooling2D({.keepdims = true})(x);
    x = BneckConv(x, style.alpha > 1 ? Divisible(top * style.alpha) : row.top_filters, true,
                  "conv_2");
    x = style.Activate(x, true);
    const double dropout = options.dropout.value_or(0.2);
    if (dropout > 0) x = nn::Dropout({.rate = dropout})(x);
    x = BneckConv(x, options.classes, true, "logits");
    x = nn::Flatten()(x);
    x = nn::Activation({.activation = options.classifier_activation, .name = "predictions"})(x);
  } else {
    x = builder->Pool(x, {.avg = "avg_pool", .max = "max_pool"});
  }
  return builder->Finish(x, row.model.keras_name);
}

}  // namespace

nn::Network MobileNetV3Small(const ImageNetOptions& options) {
  return MobileNetV3(MobileNetV3Small, options);
}
nn::Network MobileNetV3Large(const ImageNetOptions& options) {
  return MobileNetV3(MobileNetV3Large, options);
}

std::vector<ModelInfo> internal::MobileNetV3s() { return ModelsOf(kMobileNetV3s); }

}  // namespace penstock::models
