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

  Value Call(CallContext& ctx, const Values& inputs) const override {
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
    const auto variable = [&](const char* name, const std::string& initializer, bool trainable) {
      return ctx.Variable(name, {features}, initializer, {.trainable = trainable});
    };
    Value gamma, beta;
    if (options_.scale) gamma = variable("gamma", options_.gamma_initializer, true);
    if (options_.center) beta = variable("beta", options_.beta_initializer, true);
    const Value moving_mean = variable("moving_mean", options_.moving_mean_initializer, false);
    const Value moving_variance =
        variable("moving_variance", options_.moving_variance_initializer, false);

    Value mean = moving_mean, variance = moving_variance;
    if (ctx.training()) {
      BatchMoments(ctx, x, axis, broadcast, mean, variance);
      const double m = options_.momentum;
      ctx.Assign("moving_mean", moving_mean * m + mean * (1 - m));
      ctx.Assign("moving_variance", moving_variance * m + variance * (1 - m));
    }
    // x * scale + shift: two operations an element, the rest is over features only.
    Value scale = ir::Rsqrt(variance + options_.epsilon);
    if (gamma.valid()) scale = scale * gamma;
    Value shift = -mean * scale;
    if (beta.valid()) shift = shift + beta;
    return x * ir::Reshape(scale, broadcast) + ir::Reshape(shift, broadcast);
  }

 private:
  // Mean and variance over everything but `axis`, of real examples only.
  static void BatchMoments(CallContext& ctx, Value x, int64_t axis, const Shape& broadcast,
                           Value& mean, Value& variance) {
    ir::Axes others;
    for (int64_t i = 0; i < x.rank(); ++i) {
      if (i != axis) others.push_back(i);
    }
    if (!ctx.sample_mask().valid()) {
      mean = ir::ReduceMean(x, others);
      variance = ir::ReduceMean(ir::Square(x - ir::Reshape(mean, broadcast)), others);
      return;
    }
    Shape per_example(std::vector<int64_t>(x.rank(), 1));
    per_example.set_dim(0, x.shape().dim(0));
    const Value mask = ir::Reshape(ir::Convert(ctx.sample_mask(), x.dtype()), per_example);
    double positions = 1;
    for (int64_t i : others)
      positions *= i == 0 ? 1.0 : static_cast<double>(x.shape().dim(static_cast<int>(i)));
    // A replica may get padding only: it then keeps out of harm's way instead of dividing by zero.
    const Value examples = ir::Maximum(ir::ReduceSum(mask), ir::SplatLike(ir::ReduceSum(mask), 1));
    const Value count = examples * positions;
    mean = ir::ReduceSum(x * mask, others) / count;
    variance = ir::ReduceSum(ir::Square(x - ir::Reshape(mean, broadcast)) * mask, others) / count;
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
