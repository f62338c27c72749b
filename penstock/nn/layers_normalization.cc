#include "absl/strings/str_cat.h"

#include "penstock/nn/config.h"
#include "penstock/nn/layer_table.h"
#include "penstock/nn/layers.h"

namespace penstock::nn {
namespace {

// Ioffe and Szegedy: Batch normalization, 2015. The variance is the biased one, also in the moving
// average, as in Keras.
struct BatchNormalizationLayer : internal::LayerOf<BatchNormalizationOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "BatchNormalization"; }
  void Fields(Config& config) override {
    config("axis", options_.axis)("momentum", options_.momentum)("epsilon", options_.epsilon)(
        "center", options_.center)("scale", options_.scale)("beta_initializer",
                                                            options_.beta_initializer)(
        "gamma_initializer", options_.gamma_initializer)("moving_mean_initializer",
                                                         options_.moving_mean_initializer)(
        "moving_variance_initializer", options_.moving_variance_initializer);
  }

  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = internal::OnlyInput(ctx, inputs);
    if (!x.valid()) return x;
    const int64_t rank = x.rank(), axis = options_.axis < 0 ? options_.axis + rank : options_.axis;
    if (axis <= 0 || axis >= rank) {
      return ctx.Fail(
          absl::StrCat("axis ", options_.axis, " is not a feature axis of ", x.type().ToString()));
    }
    const int64_t features = x.shape().dim(static_cast<int>(axis));
    // Vectors over the features, seen as [1, .., features, .., 1] so that they broadcast.
    Shape broadcast(std::vector<int64_t>(rank, 1));
    broadcast.set_dim(static_cast<int>(axis), features);
    // Statistics are kept and applied in float32 under every policy, which moving averages need.
    const auto variable = [&](const char* name, const std::string& initializer, bool trainable) {
      CallContext::VariableOptions kept{.trainable = trainable, .autocast = false};
      if (!trainable) kept.dtype = DType::kF32;
      return ir::Convert(ctx.Variable(name, {features}, initializer, kept), DType::kF32);
    };
    Value gamma, beta;
    if (options_.scale) gamma = variable("gamma", options_.gamma_initializer, true);
    if (options_.center) beta = variable("beta", options_.beta_initializer, true);
    const Value moving_mean = variable("moving_mean", options_.moving_mean_initializer, false);
    const Value moving_variance =
        variable("moving_variance", options_.moving_variance_initializer, false);

    if (ctx.training() && ctx.trainable()) {
      const ir::BatchNormResult batch = ir::BatchNormTraining(
          x, gamma, beta, ctx.sample_mask(), {.axis = axis, .epsilon = options_.epsilon});
      const double m = options_.momentum;
      const auto moved = [&](Value moving, Value now) {
        return moving.valid() && now.valid()
                   ? moving * m + ir::Convert(now, moving.dtype()) * (1 - m)
                   : Value();
      };
      ctx.Assign("moving_mean", moved(moving_mean, batch.mean));
      ctx.Assign("moving_variance", moved(moving_variance, batch.variance));
      return batch.y;
    }
    // x * scale + shift: two operations an element, the rest is over features only.
    Value scale = ir::Rsqrt(moving_variance + options_.epsilon);
    if (gamma.valid()) scale = scale * gamma;
    Value shift = -moving_mean * scale;
    if (beta.valid()) shift = shift + beta;
    const Value y =
        ir::Convert(x, DType::kF32) * ir::Reshape(scale, broadcast) + ir::Reshape(shift, broadcast);
    return ir::Convert(y, ctx.compute_dtype());
  }
};

}  // namespace

Layer BatchNormalization(const BatchNormalizationOptions& options, SourceLocation location) {
  return internal::MakeLayer<BatchNormalizationLayer>(options, location);
}

absl::Span<const internal::LayerRow> internal::NormalizationLayers() {
  static constexpr LayerRow kRows[] = {
      {"BatchNormalization", MakeDefault<BatchNormalizationLayer>}};
  return kRows;
}

}  // namespace penstock::nn
