#include "penstock/nn/layers/convolution.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "penstock/nn/activations.h"
#include "penstock/nn/config.h"
#include "penstock/nn/layers/layer_table.h"
#include "penstock/nn/layers/spatial_input.h"

namespace penstock::nn {
namespace {

using internal::LayerOf;

// Bias, activation and activity regularization.
template <typename Options>
Value BiasAndActivation(CallContext& ctx, const Options& options, Value y) {
  if (options.use_bias && y.valid()) {
    y = y + ctx.Variable(
                "bias", {y.shape().dim(-1)}, options.bias_initializer,
                {.regularizer = options.bias_regularizer, .constraint = options.bias_constraint});
  }
  y = Activate(options.activation, y);
  ctx.RegularizeActivity(options.activity_regularizer, y);
  return y;
}

// Parameters of the window over x. False, and an error of the layer, if they are invalid.
template <typename Options>
bool Resolve(CallContext& ctx, const Value& x, const Options& options, bool allow_causal,
             ir::ConvolutionOptions& out) {
  out.strides = internal::ToVector(options.strides);
  out.rhs_dilation = internal::ToVector(options.dilation_rate);
  return internal::ResolvePadding(ctx, x,
                                  {.size = internal::ToVector(options.kernel_size),
                                   .strides = out.strides,
                                   .dilation = out.rhs_dilation,
                                   .padding = options.padding,
                                   .allow_causal = allow_causal},
                                  out.padding);
}

// Converts a convolution of a sequence to one of an image of height 1, for which platforms have
// faster kernels; the result is the same.
void SeeAsImage(ir::ConvolutionOptions& options) {
  options.strides.insert(options.strides.begin(), 1);
  options.rhs_dilation.insert(options.rhs_dilation.begin(), 1);
  options.padding.insert(options.padding.begin(), {0, 0});
}

Value Convolve(Value x, Value kernel, ir::ConvolutionOptions options) {
  if (!x.valid() || !kernel.valid() || x.rank() != 3) return ir::Convolution(x, kernel, options);
  SeeAsImage(options);
  return ir::Squeeze(ir::Convolution(ir::ExpandDims(x, 1), ir::ExpandDims(kernel, 0), options),
                     {1});
}

// `shape` is the result's shape.
Value ConvolveTransposed(Value x, Value kernel, Shape shape, ir::ConvolutionOptions options) {
  if (!x.valid() || !kernel.valid() || x.rank() != 3) {
    return ir::ConvolutionTranspose(x, kernel, shape, options);
  }
  SeeAsImage(options);
  return ir::Squeeze(
      ir::ConvolutionTranspose(ir::ExpandDims(x, 1), ir::ExpandDims(kernel, 0),
                               {shape.dim(0), 1, shape.dim(1), shape.dim(2)}, options),
      {1});
}

template <int N>
Shape KernelShape(const Size<N>& size, int64_t in, int64_t out) {
  std::vector<int64_t> dims(size.begin(), size.end());
  dims.push_back(in);
  dims.push_back(out);
  return Shape(dims);
}

// ---- Options shared by several layers ----

// Common to all: the window, the activation and the bias.
template <typename Options>
void WindowFields(Options& o, Config& config) {
  config("kernel_size", o.kernel_size)("strides", o.strides)("padding", o.padding)(
      "dilation_rate", o.dilation_rate)("activation", o.activation)("use_bias", o.use_bias)(
      "bias_initializer", o.bias_initializer)("bias_regularizer", o.bias_regularizer)(
      "activity_regularizer", o.activity_regularizer)("bias_constraint", o.bias_constraint);
}

template <typename Options>
void WeightFields(Options& o, Config& config) {
  config("kernel_initializer", o.kernel_initializer)("kernel_regularizer", o.kernel_regularizer)(
      "kernel_constraint", o.kernel_constraint);
}

template <typename Options>
void DepthwiseFields(Options& o, Config& config) {
  config("depth_multiplier", o.depth_multiplier)("depthwise_initializer", o.depthwise_initializer)(
      "depthwise_regularizer", o.depthwise_regularizer)("depthwise_constraint",
                                                        o.depthwise_constraint);
}

template <int N>
struct ConvLayer : LayerOf<ConvOptions<N>> {
  using LayerOf<ConvOptions<N>>::LayerOf;
  using LayerOf<ConvOptions<N>>::options_;
  absl::string_view class_name() const override {
    constexpr const char* kNames[] = {"Conv1D", "Conv2D", "Conv3D"};
    return kNames[N - 1];
  }
  void Fields(Config& config) override {
    WindowFields(options_, config);
    config("filters", options_.filters)("groups", options_.groups);
    WeightFields(options_, config);
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = internal::SpatialInput(ctx, inputs, N);
    if (!x.valid()) return x;
    const int64_t channels = x.shape().dim(-1), groups = options_.groups;
    if (options_.filters <= 0)
      return ctx.Fail(absl::StrCat("filters must be above 0, got ", options_.filters));
    if (groups <= 0 || channels % groups != 0 || options_.filters % groups != 0) {
      return ctx.Fail(absl::StrCat("groups (", groups, ") must divide the input's channels (",
                                   channels, ") and filters (", options_.filters, ")"));
    }
    ir::ConvolutionOptions convolution{.feature_group_count = groups};
    if (!Resolve(ctx, x, options_, N == 1, convolution)) return Value();
    const Value kernel = ctx.Variable(
        "kernel", KernelShape(options_.kernel_size, channels / groups, options_.filters),
        options_.kernel_initializer,
        {.regularizer = options_.kernel_regularizer, .constraint = options_.kernel_constraint});
    return BiasAndActivation(ctx, options_, Convolve(x, kernel, convolution));
  }
};

// One axis of a transposed convolution: the extent of the result, and the padding of the
// convolution from it to `extent` positions (formulas of Keras's documentation).
struct TransposedAxis {
  int64_t extent, low, high;
};
TransposedAxis Transposed(int64_t extent, int64_t reach, int64_t stride, bool same,
                          std::optional<int64_t> output_padding) {
  int64_t low, high;  // padding of x with strides - 1 zeros between elements, as in Keras
  if (same) {
    const int64_t total =
        output_padding.has_value() ? reach + reach % 2 - 2 + *output_padding : stride + reach - 2;
    low = std::min((total + 1) / 2, reach - 1);
    high = total - low;
  } else {
    low = reach - 1;
    high = reach - 1 + output_padding.value_or(std::max(reach, stride) - reach);
  }
  return {(extent - 1) * stride + low + high - reach + 2, reach - 1 - low, reach - 1 - high};
}

template <int N>
struct ConvTransposeLayer : LayerOf<ConvTransposeOptions<N>> {
  using LayerOf<ConvTransposeOptions<N>>::LayerOf;
  using LayerOf<ConvTransposeOptions<N>>::options_;
  absl::string_view class_name() const override {
    constexpr const char* kNames[] = {"Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"};
    return kNames[N - 1];
  }
  void Fields(Config& config) override {
    WindowFields(options_, config);
    config("filters", options_.filters)("output_padding", options_.output_padding);
    WeightFields(options_, config);
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = internal::SpatialInput(ctx, inputs, N);
    if (!x.valid()) return x;
    if (options_.filters <= 0)
      return ctx.Fail(absl::StrCat("filters must be above 0, got ", options_.filters));
    const bool same = options_.padding == "same";
    if (!same && options_.padding != "valid") {
      return ctx.Fail(
          absl::StrCat("padding must be \"valid\" or \"same\", got \"", options_.padding, "\""));
    }
    ir::ConvolutionOptions convolution;
    std::vector<int64_t> extents(x.shape().begin(), x.shape().end());
    for (int i = 0; i < N; ++i) {
      const int64_t size = options_.kernel_size[i], stride = options_.strides[i],
                    dilation = options_.dilation_rate[i];
      if (size <= 0 || stride <= 0 || dilation <= 0) {
        return ctx.Fail(absl::StrCat("kernel_size, strides and dilation_rate must be above 0, got ",
                                     size, ", ", stride, ", ", dilation));
      }
      std::optional<int64_t> more;
      if (options_.output_padding.has_value()) more = (*options_.output_padding)[i];
      if (more.has_value() && (*more < 0 || *more >= stride)) {
        return ctx.Fail(absl::StrCat("output_padding must be at least 0 and below the stride ",
                                     stride, ", got ", *more));
      }
      const TransposedAxis axis =
          Transposed(extents[i + 1], (size - 1) * dilation + 1, stride, same, more);
      if (axis.extent <= 0) {
        return ctx.Fail(absl::StrCat("nothing would be left of ", x.type().ToString()));
      }
      extents[i + 1] = axis.extent;
      convolution.padding.push_back({axis.low, axis.high});
    }
    convolution.strides = internal::ToVector(options_.strides);
    convolution.rhs_dilation = internal::ToVector(options_.dilation_rate);
    const Value kernel = ctx.Variable(
        "kernel", KernelShape(options_.kernel_size, options_.filters, extents.back()),
        options_.kernel_initializer,
        {.regularizer = options_.kernel_regularizer, .constraint = options_.kernel_constraint});
    extents.back() = options_.filters;
    return BiasAndActivation(ctx, options_,
                             ConvolveTransposed(x, kernel, Shape(extents), convolution));
  }
};

// Depthwise convolution with the kernel `name`.
template <int N, typename Options>
Value Depthwise(CallContext& ctx, const Values& inputs, const Options& options,
                absl::string_view name) {
  const Value x = internal::SpatialInput(ctx, inputs, N);
  if (!x.valid()) return x;
  const int64_t channels = x.shape().dim(-1), multiplier = options.depth_multiplier;
  if (multiplier <= 0)
    return ctx.Fail(absl::StrCat("depth_multiplier must be above 0, got ", multiplier));
  ir::ConvolutionOptions convolution{.feature_group_count = channels};
  if (!Resolve(ctx, x, options, false, convolution)) return Value();
  const Value kernel = ctx.Variable(
      name, KernelShape(options.kernel_size, channels, multiplier), options.depthwise_initializer,
      {.regularizer = options.depthwise_regularizer, .constraint = options.depthwise_constraint});
  return Convolve(x,
                  ir::Reshape(kernel, KernelShape(options.kernel_size, 1, channels * multiplier)),
                  convolution);
}

template <int N>
struct DepthwiseConvLayer : LayerOf<DepthwiseConvOptions<N>> {
  using LayerOf<DepthwiseConvOptions<N>>::LayerOf;
  using LayerOf<DepthwiseConvOptions<N>>::options_;
  absl::string_view class_name() const override {
    constexpr const char* kNames[] = {"DepthwiseConv1D", "DepthwiseConv2D"};
    return kNames[N - 1];
  }
  void Fields(Config& config) override {
    WindowFields(options_, config);
    DepthwiseFields(options_, config);
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    return BiasAndActivation(ctx, options_, Depthwise<N>(ctx, inputs, options_, "kernel"));
  }
};

template <int N>
struct SeparableConvLayer : LayerOf<SeparableConvOptions<N>> {
  using LayerOf<SeparableConvOptions<N>>::LayerOf;
  using LayerOf<SeparableConvOptions<N>>::options_;
  absl::string_view class_name() const override {
    constexpr const char* kNames[] = {"SeparableConv1D", "SeparableConv2D"};
    return kNames[N - 1];
  }
  void Fields(Config& config) override {
    auto& o = options_;
    WindowFields(o, config);
    DepthwiseFields(o, config);
    config("filters", o.filters)("pointwise_initializer", o.pointwise_initializer)(
        "pointwise_regularizer", o.pointwise_regularizer)("pointwise_constraint",
                                                          o.pointwise_constraint);
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    if (options_.filters <= 0)
      return ctx.Fail(absl::StrCat("filters must be above 0, got ", options_.filters));
    const Value x = Depthwise<N>(ctx, inputs, options_, "depthwise_kernel");
    if (!x.valid()) return x;
    const Value kernel = ctx.Variable("pointwise_kernel",
                                      KernelShape(Size<N>(1), x.shape().dim(-1), options_.filters),
                                      options_.pointwise_initializer,
                                      {.regularizer = options_.pointwise_regularizer,
                                       .constraint = options_.pointwise_constraint});
    return BiasAndActivation(
        ctx, options_,
        Convolve(x, kernel,
                 {.strides = std::vector<int64_t>(N, 1),
                  .padding = std::vector<std::pair<int64_t, int64_t>>(N, {0, 0}),
                  .rhs_dilation = std::vector<int64_t>(N, 1)}));
  }
};

}  // namespace

Layer Conv1D(const ConvOptions<1>& options, SourceLocation location) {
  return internal::MakeLayer<ConvLayer<1>>(options, location);
}
Layer Conv2D(const ConvOptions<2>& options, SourceLocation location) {
  return internal::MakeLayer<ConvLayer<2>>(options, location);
}
Layer Conv3D(const ConvOptions<3>& options, SourceLocation location) {
  return internal::MakeLayer<ConvLayer<3>>(options, location);
}
Layer Conv1DTranspose(const ConvTransposeOptions<1>& options, SourceLocation location) {
  return internal::MakeLayer<ConvTransposeLayer<1>>(options, location);
}
Layer Conv2DTranspose(const ConvTransposeOptions<2>& options, SourceLocation location) {
  return internal::MakeLayer<ConvTransposeLayer<2>>(options, location);
}
Layer Conv3DTranspose(const ConvTransposeOptions<3>& options, SourceLocation location) {
  return internal::MakeLayer<ConvTransposeLayer<3>>(options, location);
}
Layer DepthwiseConv1D(const DepthwiseConvOptions<1>& options, SourceLocation location) {
  return internal::MakeLayer<DepthwiseConvLayer<1>>(options, location);
}
Layer DepthwiseConv2D(const DepthwiseConvOptions<2>& options, SourceLocation location) {
  return internal::MakeLayer<DepthwiseConvLayer<2>>(options, location);
}
Layer SeparableConv1D(const SeparableConvOptions<1>& options, SourceLocation location) {
  return internal::MakeLayer<SeparableConvLayer<1>>(options, location);
}
Layer SeparableConv2D(const SeparableConvOptions<2>& options, SourceLocation location) {
  return internal::MakeLayer<SeparableConvLayer<2>>(options, location);
}

absl::Span<const internal::LayerRow> internal::ConvolutionLayers() {
  static constexpr LayerRow kRows[] = {
      {"Conv1D", MakeDefault<ConvLayer<1>>},
      {"Conv2D", MakeDefault<ConvLayer<2>>},
      {"Conv3D", MakeDefault<ConvLayer<3>>},
      {"Conv1DTranspose", MakeDefault<ConvTransposeLayer<1>>},
      {"Conv2DTranspose", MakeDefault<ConvTransposeLayer<2>>},
      {"Conv3DTranspose", MakeDefault<ConvTransposeLayer<3>>},
      {"DepthwiseConv1D", MakeDefault<DepthwiseConvLayer<1>>},
      {"DepthwiseConv2D", MakeDefault<DepthwiseConvLayer<2>>},
      {"SeparableConv1D", MakeDefault<SeparableConvLayer<1>>},
      {"SeparableConv2D", MakeDefault<SeparableConvLayer<2>>},
  };
  return kRows;
}

}  // namespace penstock::nn
