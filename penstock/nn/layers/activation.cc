#include "penstock/nn/layers/activation.h"

#include "absl/strings/str_cat.h"

#include "penstock/nn/activations.h"
#include "penstock/nn/config.h"
#include "penstock/nn/layers/layer_table.h"
#include "penstock/nn/typed_options.h"

namespace penstock::nn {
namespace {

using internal::LayerOf;
using internal::OnlyInput;

struct ActivationLayer : LayerOf<ActivationOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "Activation"; }
  bool supports_masking() const override { return true; }
  void Fields(Config& config) override { config("activation", options_.activation); }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    return Activate(options_.activation, OnlyInput(ctx, inputs));
  }
};

struct ReLULayer : LayerOf<ReLUOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "ReLU"; }
  bool supports_masking() const override { return true; }
  void Fields(Config& config) override {
    config("max_value", options_.max_value)("negative_slope", options_.negative_slope)(
        "threshold", options_.threshold);
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = OnlyInput(ctx, inputs);
    if (!x.valid()) return x;
    const auto& [max, slope, threshold, name, dtype] = options_;
    if (!(max.value_or(0) >= 0 && slope >= 0 && threshold >= 0)) {
      return ctx.Fail(
          absl::StrCat("max_value, negative_slope and threshold must not be below 0, got ",
                       max.value_or(0), ", ", slope, ", ", threshold));
    }
    Value y = ir::Relu(x);
    if (threshold != 0) {
      const Value above = ir::Greater(x, ir::SplatLike(x, threshold));
      y = ir::Select(above, x, ir::SplatLike(x, 0));
    }
    if (max.has_value()) y = ir::Minimum(y, ir::SplatLike(y, *max));
    if (slope != 0) y = y - ir::Relu(threshold - x) * slope;
    return y;
  }
};

struct LeakyReLULayer : LayerOf<LeakyReLUOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "LeakyReLU"; }
  bool supports_masking() const override { return true; }
  void Fields(Config& config) override { config("negative_slope", options_.negative_slope); }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    if (!(options_.negative_slope >= 0)) {
      return ctx.Fail(
          absl::StrCat("negative_slope must not be below 0, got ", options_.negative_slope));
    }
    return Activate(activations::LeakyRelu(options_.negative_slope), OnlyInput(ctx, inputs));
  }
};

struct PReLULayer : LayerOf<PReLUOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "PReLU"; }
  bool supports_masking() const override { return true; }
  void Fields(Config& config) override {
    config("alpha_initializer", options_.alpha_initializer)("alpha_regularizer",
                                                            options_.alpha_regularizer)(
        "alpha_constraint", options_.alpha_constraint)("shared_axes", options_.shared_axes);
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = OnlyInput(ctx, inputs);
    if (!x.valid()) return x;
    Shape shape = x.shape().RowShape();
    for (int64_t axis : options_.shared_axes) {
      if (axis < 1 || axis >= x.rank()) {
        return ctx.Fail(absl::StrCat("shared_axes has ", axis, ", which is not an axis of ",
                                     x.type().ToString(), " after the batch's"));
      }
      shape.set_dim(static_cast<int>(axis) - 1, 1);
    }
    const Value alpha = ctx.Variable(
        "alpha", shape, options_.alpha_initializer,
        {.regularizer = options_.alpha_regularizer, .constraint = options_.alpha_constraint});
    return ir::Relu(x) - alpha * ir::Relu(-x);
  }
};

struct ELULayer : LayerOf<ELUOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "ELU"; }
  bool supports_masking() const override { return true; }
  void Fields(Config& config) override { config("alpha", options_.alpha); }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    return Activate(activations::Elu(options_.alpha), OnlyInput(ctx, inputs));
  }
};

struct SoftmaxLayer : LayerOf<SoftmaxOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "Softmax"; }
  bool supports_masking() const override { return true; }
  void Fields(Config& config) override { config("axis", options_.axis); }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = OnlyInput(ctx, inputs);
    if (!x.valid()) return x;
    const AxisList& axes = options_.axis;
    Value wide = ir::Convert(x, base::BitWidth(x.dtype()) < 32 ? DType::kF32 : x.dtype());
    // A mask for each element, as in Keras: masked elements get weight 0, even if all are masked.
    // float16 cannot represent -1e9.
    const Value mask = ctx.input_mask();
    const bool masked = mask.valid() && mask.shape() == x.shape();
    if (masked) wide = ir::Select(mask, wide, ir::SplatLike(wide, -1e9));
    // Over several axes: exp(x - log sum exp x), as in Keras.
    Value y = axes.size() == 1 ? ir::Softmax(wide, axes[0])
                               : ir::Exp(wide - ir::LogSumExp(wide, axes, /*keep_dims=*/true));
    if (masked) y = ir::Select(mask, y, ir::SplatLike(y, 0));
    return ir::Convert(y, x.dtype());
  }
};

}  // namespace

Layer Activation(const ActivationOptions& options, SourceLocation location) {
  return internal::MakeLayer<ActivationLayer>(options, location);
}
Layer ReLU(const ReLUOptions& options, SourceLocation location) {
  return internal::MakeLayer<ReLULayer>(options, location);
}
Layer LeakyReLU(const LeakyReLUOptions& options, SourceLocation location) {
  return internal::MakeLayer<LeakyReLULayer>(options, location);
}
Layer PReLU(const PReLUOptions& options, SourceLocation location) {
  return internal::MakeLayer<PReLULayer>(options, location);
}
Layer ELU(const ELUOptions& options, SourceLocation location) {
  return internal::MakeLayer<ELULayer>(options, location);
}
Layer Softmax(const SoftmaxOptions& options, SourceLocation location) {
  return internal::MakeLayer<SoftmaxLayer>(options, location);
}

absl::Span<const internal::LayerRow> internal::ActivationLayers() {
  static constexpr LayerRow kRows[] = {
      {"Activation", MakeDefault<ActivationLayer>},
      {"ReLU", MakeDefault<ReLULayer>},
      {"LeakyReLU", MakeDefault<LeakyReLULayer>},
      {"PReLU", MakeDefault<PReLULayer>},
      {"ELU", MakeDefault<ELULayer>},
      {"Softmax", MakeDefault<SoftmaxLayer>},
  };
  return kRows;
}

}  // namespace penstock::nn
