#include "absl/strings/str_cat.h"

#include "penstock/nn/activations.h"
#include "penstock/nn/config.h"
#include "penstock/nn/image_input.h"
#include "penstock/nn/layer_table.h"
#include "penstock/nn/layers.h"

namespace penstock::nn {
namespace {

using internal::LayerOf;
using internal::Window2D;

// How a window goes over the image; an error of the layer and nothing when it cannot.
bool Resolve(CallContext& ctx, const Value& image, const Window2D& window,
             ir::ConvolutionOptions& out) {
  out.strides = {window.strides.height, window.strides.width};
  out.rhs_dilation = {window.dilation.height, window.dilation.width};
  return internal::ResolvePadding(ctx, image, window, out.padding);
}

template <typename Options>
Window2D WindowOf(const Options& options) {
  return {options.kernel_size, options.strides, options.dilation_rate, options.padding};
}

// What all of them end with.
template <typename Options>
Value BiasAndActivation(CallContext& ctx, const Options& options, Value y) {
  if (options.use_bias && y.valid())
    y = y + ctx.Variable("bias", {y.shape().dim(-1)}, options.bias_initializer);
  return Activate(options.activation, y);
}

struct Conv2DLayer : LayerOf<Conv2DOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "Conv2D"; }
  void Fields(Config& config) override {
    config("filters", options_.filters)("kernel_size", options_.kernel_size)(
        "strides", options_.strides)("padding", options_.padding)(
        "dilation_rate", options_.dilation_rate)("groups", options_.groups)(
        "activation", options_.activation)("use_bias", options_.use_bias)(
        "kernel_initializer", options_.kernel_initializer)("bias_initializer",
                                                           options_.bias_initializer);
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = internal::ImageInput(ctx, inputs);
    if (!x.valid()) return x;
    const int64_t channels = x.shape().dim(-1), groups = options_.groups;
    if (options_.filters <= 0)
      return ctx.Fail(absl::StrCat("filters must be above 0, got ", options_.filters));
    if (groups <= 0 || channels % groups != 0 || options_.filters % groups != 0) {
      return ctx.Fail(absl::StrCat("groups (", groups, ") must divide the input's channels (",
                                   channels, ") and filters (", options_.filters, ")"));
    }
    ir::ConvolutionOptions convolution{.feature_group_count = groups};
    if (!Resolve(ctx, x, WindowOf(options_), convolution)) return Value();
    const Value kernel = ctx.Variable("kernel",
                                      {options_.kernel_size.height, options_.kernel_size.width,
                                       channels / groups, options_.filters},
                                      options_.kernel_initializer);
    return BiasAndActivation(ctx, options_, ir::Convolution(x, kernel, convolution));
  }
};

// The convolution of each channel by itself; `options` has kernel_size, depth_multiplier and
// depthwise_initializer.
template <typename Options>
Value Depthwise(CallContext& ctx, const Values& inputs, const Options& options,
                absl::string_view kernel_name) {
  const Value x = internal::ImageInput(ctx, inputs);
  if (!x.valid()) return x;
  const int64_t channels = x.shape().dim(-1), multiplier = options.depth_multiplier;
  if (multiplier <= 0)
    return ctx.Fail(absl::StrCat("depth_multiplier must be above 0, got ", multiplier));
  ir::ConvolutionOptions convolution{.feature_group_count = channels};
  if (!Resolve(ctx, x, WindowOf(options), convolution)) return Value();
  const int64_t height = options.kernel_size.height, width = options.kernel_size.width;
  const Value kernel = ctx.Variable(kernel_name, {height, width, channels, multiplier},
                                    options.depthwise_initializer);
  return ir::Convolution(x, ir::Reshape(kernel, {height, width, 1, channels * multiplier}),
                         convolution);
}

struct DepthwiseConv2DLayer : LayerOf<DepthwiseConv2DOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "DepthwiseConv2D"; }
  void Fields(Config& config) override {
    config("kernel_size", options_.kernel_size)("strides", options_.strides)(
        "padding", options_.padding)("depth_multiplier", options_.depth_multiplier)(
        "dilation_rate", options_.dilation_rate)("activation", options_.activation)(
        "use_bias", options_.use_bias)("depthwise_initializer", options_.depthwise_initializer)(
        "bias_initializer", options_.bias_initializer);
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    return BiasAndActivation(ctx, options_, Depthwise(ctx, inputs, options_, "kernel"));
  }
};

struct SeparableConv2DLayer : LayerOf<SeparableConv2DOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "SeparableConv2D"; }
  void Fields(Config& config) override {
    config("filters", options_.filters)("kernel_size", options_.kernel_size)(
        "strides", options_.strides)("padding", options_.padding)(
        "dilation_rate", options_.dilation_rate)("depth_multiplier", options_.depth_multiplier)(
        "activation", options_.activation)("use_bias", options_.use_bias)(
        "depthwise_initializer", options_.depthwise_initializer)(
        "pointwise_initializer", options_.pointwise_initializer)("bias_initializer",
                                                                 options_.bias_initializer);
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    if (options_.filters <= 0)
      return ctx.Fail(absl::StrCat("filters must be above 0, got ", options_.filters));
    const Value x = Depthwise(ctx, inputs, options_, "depthwise_kernel");
    if (!x.valid()) return x;
    const Value kernel =
        ctx.Variable("pointwise_kernel", {1, 1, x.shape().dim(-1), options_.filters},
                     options_.pointwise_initializer);
    return BiasAndActivation(ctx, options_, ir::Convolution(x, kernel));
  }
};

struct ZeroPadding2DLayer : LayerOf<ZeroPadding2DOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "ZeroPadding2D"; }
  void Fields(Config& config) override { config("padding", options_.padding); }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = internal::ImageInput(ctx, inputs);
    if (!x.valid()) return x;
    const auto& [top, bottom, left, right] = options_.padding;
    if (top < 0 || bottom < 0 || left < 0 || right < 0) {
      return ctx.Fail(absl::StrCat("padding must not be below 0, got [[", top, ", ", bottom, "], [",
                                   left, ", ", right, "]]"));
    }
    return ir::Pad(x, 0, {{}, {.low = top, .high = bottom}, {.low = left, .high = right}, {}});
  }
};

}  // namespace

Layer Conv2D(const Conv2DOptions& options, SourceLocation location) {
  return internal::MakeLayer<Conv2DLayer>(options, location);
}
Layer DepthwiseConv2D(const DepthwiseConv2DOptions& options, SourceLocation location) {
  return internal::MakeLayer<DepthwiseConv2DLayer>(options, location);
}
Layer SeparableConv2D(const SeparableConv2DOptions& options, SourceLocation location) {
  return internal::MakeLayer<SeparableConv2DLayer>(options, location);
}
Layer ZeroPadding2D(const ZeroPadding2DOptions& options, SourceLocation location) {
  return internal::MakeLayer<ZeroPadding2DLayer>(options, location);
}

absl::Span<const internal::LayerRow> internal::ConvolutionLayers() {
  static constexpr LayerRow kRows[] = {
      {"Conv2D", MakeDefault<Conv2DLayer>},
      {"DepthwiseConv2D", MakeDefault<DepthwiseConv2DLayer>},
      {"SeparableConv2D", MakeDefault<SeparableConv2DLayer>},
      {"ZeroPadding2D", MakeDefault<ZeroPadding2DLayer>},
  };
  return kRows;
}

}  // namespace penstock::nn
