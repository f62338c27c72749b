#include "absl/strings/str_cat.h"

#include "penstock/nn/activations.h"
#include "penstock/nn/config.h"
#include "penstock/nn/layer_table.h"
#include "penstock/nn/layers.h"

namespace penstock::nn {
namespace {

using internal::LayerOf;
using internal::OnlyInput;

struct DenseLayer : LayerOf<DenseOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "Dense"; }
  void Fields(Config& config) override {
    config("units", options_.units)("activation", options_.activation)(
        "use_bias", options_.use_bias)("kernel_initializer", options_.kernel_initializer)(
        "bias_initializer", options_.bias_initializer);
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = OnlyInput(ctx, inputs);
    if (!x.valid()) return x;
    if (options_.units <= 0)
      return ctx.Fail(absl::StrCat("units must be above 0, got ", options_.units));
    if (x.rank() < 2) {
      return ctx.Fail(absl::StrCat("wants [batch, ..., features], got ", x.type().ToString()));
    }
    const Value kernel =
        ctx.Variable("kernel", {x.shape().dim(-1), options_.units}, options_.kernel_initializer);
    Value y = ir::MatMul(x, kernel);
    if (options_.use_bias)
      y = y + ctx.Variable("bias", {options_.units}, options_.bias_initializer);
    return Activate(options_.activation, y);
  }
};

struct ActivationLayer : LayerOf<ActivationOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "Activation"; }
  void Fields(Config& config) override { config("activation", options_.activation); }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    return Activate(options_.activation, OnlyInput(ctx, inputs));
  }
};

struct ReLULayer : LayerOf<ReLUOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "ReLU"; }
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

struct SoftmaxLayer : LayerOf<SoftmaxOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "Softmax"; }
  void Fields(Config& config) override { config("axis", options_.axis); }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    return ir::Softmax(OnlyInput(ctx, inputs), options_.axis);
  }
};

struct DropoutLayer : LayerOf<DropoutOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "Dropout"; }
  void Fields(Config& config) override { config("rate", options_.rate); }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = OnlyInput(ctx, inputs);
    if (!x.valid()) return x;
    if (!(options_.rate >= 0 && options_.rate <= 1)) {
      return ctx.Fail(absl::StrCat("rate is a probability, got ", options_.rate));
    }
    if (!ctx.training() || options_.rate == 0) return x;
    if (options_.rate == 1) return ir::SplatLike(x, 0);
    const Value keep = ir::RandomBernoulli(ctx.NextKey(), x.shape(), 1 - options_.rate);
    return ir::Select(keep, x / (1 - options_.rate), ir::SplatLike(x, 0));
  }
};

struct FlattenLayer : LayerOf<FlattenOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "Flatten"; }
  void Fields(Config&) override {}
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = OnlyInput(ctx, inputs);
    if (!x.valid()) return x;
    if (x.rank() < 1) return ctx.Fail("wants a batch, got a scalar");
    return ir::Reshape(x, {x.shape().dim(0), x.shape().RowShape().num_elements()});
  }
};

struct AddLayer : LayerOf<AddOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "Add"; }
  void Fields(Config&) override {}
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    if (inputs.size() < 2)
      return ctx.Fail(absl::StrCat("adds two or more inputs, got ", inputs.size()));
    int rank = 0;
    for (const Value& x : inputs) rank = std::max(rank, x.shape().rank());
    Value sum = WithRank(inputs[0], rank);
    for (size_t i = 1; i < inputs.size(); ++i) sum = sum + WithRank(inputs[i], rank);
    return sum;
  }

 private:
  // Missing axes go right after the batch's, as in Keras: [B, 4] meets [B, 5, 4] as [B, 1, 4].
  static Value WithRank(Value x, int rank) {
    while (x.shape().rank() < rank) x = ir::ExpandDims(x, 1);
    return x;
  }
};

struct RescalingLayer : LayerOf<RescalingOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "Rescaling"; }
  void Fields(Config& config) override {
    config("scale", options_.scale)("offset", options_.offset);
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = ir::Convert(OnlyInput(ctx, inputs), DType::kF32);
    return ir::Convert(x * options_.scale + options_.offset, ctx.compute_dtype());
  }
};

}  // namespace

Layer Dense(const DenseOptions& options, SourceLocation location) {
  return internal::MakeLayer<DenseLayer>(options, location);
}
Layer Activation(const ActivationOptions& options, SourceLocation location) {
  return internal::MakeLayer<ActivationLayer>(options, location);
}
Layer ReLU(const ReLUOptions& options, SourceLocation location) {
  return internal::MakeLayer<ReLULayer>(options, location);
}
Layer Softmax(const SoftmaxOptions& options, SourceLocation location) {
  return internal::MakeLayer<SoftmaxLayer>(options, location);
}
Layer Dropout(const DropoutOptions& options, SourceLocation location) {
  return internal::MakeLayer<DropoutLayer>(options, location);
}
Layer Flatten(const FlattenOptions& options, SourceLocation location) {
  return internal::MakeLayer<FlattenLayer>(options, location);
}
Layer Add(const AddOptions& options, SourceLocation location) {
  return internal::MakeLayer<AddLayer>(options, location);
}
Layer Rescaling(const RescalingOptions& options, SourceLocation location) {
  return internal::MakeLayer<RescalingLayer>(options, location);
}

absl::Span<const internal::LayerRow> internal::CoreLayers() {
  static constexpr LayerRow kRows[] = {
      {"Dense", MakeDefault<DenseLayer>},     {"Activation", MakeDefault<ActivationLayer>},
      {"ReLU", MakeDefault<ReLULayer>},       {"Softmax", MakeDefault<SoftmaxLayer>},
      {"Dropout", MakeDefault<DropoutLayer>}, {"Flatten", MakeDefault<FlattenLayer>},
      {"Add", MakeDefault<AddLayer>},         {"Rescaling", MakeDefault<RescalingLayer>},
  };
  return kRows;
}

}  // namespace penstock::nn
