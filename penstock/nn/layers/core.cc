#include "penstock/nn/layers/core.h"

#include "absl/strings/str_cat.h"

#include "penstock/nn/activations.h"
#include "penstock/nn/config.h"
#include "penstock/nn/layers/layer_table.h"

namespace penstock::nn {
namespace {

using internal::LayerOf;
using internal::OnlyInput;

struct DenseLayer : LayerOf<DenseOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "Dense"; }
  bool supports_masking() const override { return true; }
  void Fields(Config& config) override {
    config("units", options_.units)("activation", options_.activation)(
        "use_bias", options_.use_bias)("kernel_initializer", options_.kernel_initializer)(
        "bias_initializer", options_.bias_initializer)("kernel_regularizer",
                                                       options_.kernel_regularizer)(
        "bias_regularizer", options_.bias_regularizer)("activity_regularizer",
                                                       options_.activity_regularizer)(
        "kernel_constraint", options_.kernel_constraint)("bias_constraint",
                                                         options_.bias_constraint);
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = OnlyInput(ctx, inputs);
    if (!x.valid()) return x;
    if (options_.units <= 0)
      return ctx.Fail(absl::StrCat("units must be above 0, got ", options_.units));
    if (x.rank() < 2) {
      return ctx.Fail(absl::StrCat("expects [batch, ..., features], got ", x.type().ToString()));
    }
    const Value kernel = ctx.Variable(
        "kernel", {x.shape().dim(-1), options_.units}, options_.kernel_initializer,
        {.regularizer = options_.kernel_regularizer, .constraint = options_.kernel_constraint});
    Value y = ir::MatMul(x, kernel);
    if (options_.use_bias) {
      y = y + ctx.Variable("bias", {options_.units}, options_.bias_initializer,
                           {.regularizer = options_.bias_regularizer,
                            .constraint = options_.bias_constraint});
    }
    y = Activate(options_.activation, y);
    ctx.RegularizeActivity(options_.activity_regularizer, y);
    return y;
  }
};

struct LayerScaleLayer : LayerOf<LayerScaleOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "LayerScale"; }
  void Fields(Config& config) override {
    config("init_values", options_.init_values)("projection_dim", options_.projection_dim);
  }
  KerasForm keras_form() const override { return {.module = "keras.src.applications.convnext"}; }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = OnlyInput(ctx, inputs);
    if (!x.valid()) return x;
    const int64_t channels = x.shape().dim(-1);
    if (options_.projection_dim != 0 && options_.projection_dim != channels) {
      return ctx.Fail(absl::StrCat("projection_dim is ", options_.projection_dim, ", the input is ",
                                   x.type().ToString()));
    }
    return x * ctx.Variable("gamma", {channels}, initializers::Constant(options_.init_values));
  }
};

struct IdentityLayer : LayerOf<IdentityOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "Identity"; }
  bool supports_masking() const override { return true; }
  void Fields(Config&) override {}
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    return OnlyInput(ctx, inputs);
  }
};

}  // namespace

Layer Dense(const DenseOptions& options, SourceLocation location) {
  return internal::MakeLayer<DenseLayer>(options, location);
}
Layer LayerScale(const LayerScaleOptions& options, SourceLocation location) {
  return internal::MakeLayer<LayerScaleLayer>(options, location);
}
Layer Identity(const IdentityOptions& options, SourceLocation location) {
  return internal::MakeLayer<IdentityLayer>(options, location);
}

absl::Span<const internal::LayerRow> internal::CoreLayers() {
  static constexpr LayerRow kRows[] = {
      {"Dense", MakeDefault<DenseLayer>},
      {"LayerScale", MakeDefault<LayerScaleLayer>},
      {"Identity", MakeDefault<IdentityLayer>},
  };
  return kRows;
}

}  // namespace penstock::nn
