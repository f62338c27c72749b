#include "absl/strings/str_cat.h"

#include "penstock/nn/activations.h"
#include "penstock/nn/config.h"
#include "penstock/nn/image_input.h"
#include "penstock/nn/layer_table.h"
#include "penstock/nn/layers.h"

namespace penstock::nn {
namespace {

struct Conv2DLayer : internal::LayerOf<Conv2DOptions> {
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
  Value Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = internal::ImageInput(ctx, inputs);
    if (!x.valid()) return x;
    const int64_t channels = x.shape().dim(-1), groups = options_.groups;
    if (options_.filters <= 0)
      return ctx.Fail(absl::StrCat("filters must be above 0, got ", options_.filters));
    if (groups <= 0 || channels % groups != 0 || options_.filters % groups != 0) {
      return ctx.Fail(absl::StrCat("groups (", groups, ") must divide the input's channels (",
                                   channels, ") and filters (", options_.filters, ")"));
    }
    ir::ConvolutionOptions convolution;
    const internal::Window2D window{options_.kernel_size, options_.strides, options_.dilation_rate,
                                    options_.padding};
    if (!internal::ResolvePadding(ctx, x, window, convolution.padding)) return Value();
    convolution.strides = {options_.strides.height, options_.strides.width};
    convolution.rhs_dilation = {options_.dilation_rate.height, options_.dilation_rate.width};
    convolution.feature_group_count = groups;
    const Value kernel = ctx.Variable("kernel",
                                      {options_.kernel_size.height, options_.kernel_size.width,
                                       channels / groups, options_.filters},
                                      options_.kernel_initializer);
    Value y = ir::Convolution(x, kernel, convolution);
    if (options_.use_bias)
      y = y + ctx.Variable("bias", {options_.filters}, options_.bias_initializer);
    return Activate(options_.activation, y);
  }
};

}  // namespace

Layer Conv2D(const Conv2DOptions& options, SourceLocation location) {
  return internal::MakeLayer<Conv2DLayer>(options, location);
}

absl::Span<const internal::LayerRow> internal::ConvolutionLayers() {
  static constexpr LayerRow kRows[] = {{"Conv2D", MakeDefault<Conv2DLayer>}};
  return kRows;
}

}  // namespace penstock::nn
