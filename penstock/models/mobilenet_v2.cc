#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/models/models.h"
#include "penstock/models/preparation.h"

namespace penstock::models {
namespace {

using nn::Symbol;

// Table 2 of the paper: `count` blocks of `filters` channels, the first of them with `strides`;
// each expands its input by `expansion` inside.
struct StageRow {
  int64_t expansion, filters, count, strides;
};

constexpr StageRow kStages[] = {
    {1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2},  {6, 64, 4, 2},
    {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1},
};

// The nearest multiple of 8, but at least 90 % of `channels`.
int64_t Divisible(double channels) {
  const int64_t nearest = std::max<int64_t>(8, static_cast<int64_t>(channels + 4) / 8 * 8);
  return static_cast<double>(nearest) < 0.9 * channels ? nearest + 8 : nearest;
}

// Batch normalization with this network's options.
struct MobileNorms {
  double momentum;
  Symbol operator()(Symbol x, const std::string& name) const {
    return nn::BatchNormalization({.momentum = momentum, .epsilon = 1e-3, .name = name})(x);
  }
};

Symbol Relu6(Symbol x, const std::string& name) {
  return nn::ReLU({.max_value = 6, .name = name})(x);
}

Symbol Pointwise(Symbol x, int64_t filters, const std::string& name) {
  return nn::Conv2D({.filters = filters, .padding = "same", .use_bias = false, .name = name})(x);
}

int64_t Extent(const Symbol& x, int axis) { return x.type().ok() ? x.type()->shape.dim(axis) : 1; }

// Padding for a 3x3 window of stride 2 that ends at the image's last pixel.
Symbol PadForStride2(Symbol x, const std::string& name) {
  const int64_t odd_height = Extent(x, 1) % 2, odd_width = Extent(x, 2) % 2;
  return nn::ZeroPadding2D({.padding = {{odd_height, 1}, {odd_width, 1}}, .name = name})(x);
}

// Inverted residual: expansion, 3x3 depthwise convolution, projection without activation.
Symbol Block(Symbol x, const StageRow& row, int64_t strides, const MobileNetV2Options& options,
             int number) {
  const double alpha = options.alpha;
  const MobileNorms norm{options.momentum};
  const Symbol input = x;
  const int64_t channels = Extent(x, 3);
  const int64_t filters = Divisible(
      static_cast<double>(static_cast<int64_t>(static_cast<double>(row.filters) * alpha)));
  const std::string name = number == 0 ? "expanded_conv_" : absl::StrCat("block_", number, "_");
  if (number > 0) {
    x = Pointwise(x, row.expansion * channels, name + "expand");
    x = Relu6(norm(x, name + "expand_BN"), name + "expand_relu");
  }
  if (strides == 2) x = PadForStride2(x, name + "pad");
  x = nn::DepthwiseConv2D({.kernel_size = 3,
                           .strides = strides,
                           .padding = strides == 1 ? "same" : "valid",
                           .use_bias = false,
                           .name = name + "depthwise"})(x);
  x = Relu6(norm(x, name + "depthwise_BN"), name + "depthwise_relu");
  x = norm(Pointwise(x, filters, name + "project"), name + "project_BN");
  return channels == filters && strides == 1 ? nn::Add({.name = name + "add"})({input, x}) : x;
}

}  // namespace

nn::Network MobileNetV2(const MobileNetV2Options& options) {
  if (!(options.alpha > 0)) {
    return nn::Network(absl::InvalidArgumentError(
        absl::StrCat("alpha multiplies the width and is above 0, got ", options.alpha)));
  }
  if (absl::Status status = internal::CheckImageNetInput("MobileNetV2", options.input_shape);
      !status.ok()) {
    return nn::Network(std::move(status));
  }
  const Symbol input =
      nn::Input({.shape = options.input_shape, .dtype = options.input_dtype, .name = "image"});
  const MobileNorms norm{options.momentum};
  Symbol x = internal::Prepared(input, options);
  x = nn::Conv2D({.filters = Divisible(32 * options.alpha),
                  .kernel_size = 3,
                  .strides = 2,
                  .padding = "same",
                  .use_bias = false,
                  .name = "Conv1"})(x);
  x = Relu6(norm(x, "bn_Conv1"), "Conv1_relu");
  int number = 0;
  for (const StageRow& row : kStages) {
    for (int64_t block = 0; block < row.count; ++block) {
      x = Block(x, row, block == 0 ? row.strides : 1, options, number++);
    }
  }
  x = nn::Conv2D({.filters = options.alpha > 1 ? Divisible(1280 * options.alpha) : 1280,
                  .use_bias = false,
                  .name = "Conv_1"})(x);
  x = Relu6(norm(x, "Conv_1_bn"), "out_relu");
  if (options.include_top) {
    x = nn::GlobalAveragePooling2D()(x);
    x = nn::Dense({.units = options.classes, .name = "predictions"})(x);
  }
  return nn::Network({input}, {x},
                     absl::StrFormat("mobilenetv2_%.2f_%d", options.alpha, options.input_shape[0]));
}

}  // namespace penstock::models
