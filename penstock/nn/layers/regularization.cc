#include "penstock/nn/layers/regularization.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/nn/config.h"
#include "penstock/nn/layers/layer_table.h"
#include "penstock/nn/layers/spatial_input.h"
#include "penstock/nn/typed_options.h"

namespace penstock::nn {
namespace {

using internal::LayerOf;
using internal::OnlyInput;

// Whether the layer modifies x; an error of the layer, and false, for an invalid rate.
bool Applies(CallContext& ctx, const Value& x, double rate, const char* option = "rate") {
  if (!(rate >= 0 && rate <= 1)) {
    ctx.Fail(absl::StrCat(option, " is a probability, got ", rate));
    return false;
  }
  return x.valid() && ctx.training() && rate > 0;
}

// `noise_shape` with unspecified extents replaced by the input's. False, and an error of the layer,
// if it is incompatible.
bool ResolveNoiseShape(CallContext& ctx, const Value& x, const std::vector<int64_t>& given,
                       Shape& shape) {
  shape = x.shape();
  bool fits = given.empty() || static_cast<int>(given.size()) == x.rank();
  for (size_t i = 0; fits && i < given.size(); ++i) {
    const int axis = static_cast<int>(i);
    if (given[i] <= 0) continue;
    fits = given[i] == 1 || given[i] == shape.dim(axis);
    shape.set_dim(axis, given[i]);
  }
  if (!fits) {
    ctx.Fail(absl::StrCat("noise_shape [", absl::StrJoin(given, ", "), "] does not broadcast to ",
                          x.type().ToString()));
  }
  return fits;
}

// x where a random mask of shape `noise` keeps it, otherwise `dropped`.
Value KeepOr(CallContext& ctx, Value x, const Shape& noise, double rate, Value dropped) {
  const Value keep = ir::RandomBernoulli(ctx.NextKey(), noise, 1 - rate);
  return keep.valid() ? ir::Select(keep, x, dropped) : keep;
}

Value Drop(CallContext& ctx, Value x, const Shape& noise, double rate) {
  const Value zero = ir::SplatLike(x, 0);
  return rate == 1 ? zero : KeepOr(ctx, x / (1 - rate), noise, rate, zero);
}

struct DropoutLayer : LayerOf<DropoutOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "Dropout"; }
  bool supports_masking() const override { return true; }
  void Fields(Config& config) override {
    config("rate", options_.rate);
    config.Optional("noise_shape", options_.noise_shape);
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = OnlyInput(ctx, inputs);
    Shape noise;
    if (!Applies(ctx, x, options_.rate) ||
        !ResolveNoiseShape(ctx, x, options_.noise_shape, noise)) {
      return x;
    }
    return Drop(ctx, x, noise, options_.rate);
  }
};

template <int N>
struct SpatialDropoutLayer : LayerOf<SpatialDropoutOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override {
    constexpr const char* kNames[] = {"SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D"};
    return kNames[N - 1];
  }
  bool supports_masking() const override { return true; }
  void Fields(Config& config) override { config("rate", options_.rate); }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = internal::SpatialInput(ctx, inputs, N);
    if (!Applies(ctx, x, options_.rate)) return x;
    Shape noise = x.shape();
    for (int i = 1; i <= N; ++i) noise.set_dim(i, 1);
    return Drop(ctx, x, noise, options_.rate);
  }
};

struct GaussianDropoutLayer : LayerOf<GaussianDropoutOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "GaussianDropout"; }
  bool supports_masking() const override { return true; }
  void Fields(Config& config) override { config("rate", options_.rate); }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = OnlyInput(ctx, inputs);
    if (options_.rate == 1) return ctx.Fail("rate must be below 1: its noise has no end");
    if (!Applies(ctx, x, options_.rate)) return x;
    return x * ir::RandomNormal(ctx.NextKey(), x.type(), 1,
                                std::sqrt(options_.rate / (1 - options_.rate)));
  }
};

struct GaussianNoiseLayer : LayerOf<GaussianNoiseOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "GaussianNoise"; }
  bool supports_masking() const override { return true; }
  void Fields(Config& config) override { config("stddev", options_.stddev); }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = OnlyInput(ctx, inputs);
    if (!x.valid()) return x;
    if (!(options_.stddev >= 0)) {
      return ctx.Fail(absl::StrCat("stddev must not be below 0, got ", options_.stddev));
    }
    if (!ctx.training() || options_.stddev == 0) return x;
    return x + ir::RandomNormal(ctx.NextKey(), x.type(), 0, options_.stddev);
  }
};

struct AlphaDropoutLayer : LayerOf<AlphaDropoutOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "AlphaDropout"; }
  bool supports_masking() const override { return true; }
  void Fields(Config& config) override {
    config("rate", options_.rate);
    config.Optional("noise_shape", options_.noise_shape);
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = OnlyInput(ctx, inputs);
    Shape noise;
    if (!Applies(ctx, x, options_.rate) ||
        !ResolveNoiseShape(ctx, x, options_.noise_shape, noise)) {
      return x;
    }
    if (options_.rate == 1) return ctx.Fail("rate must be below 1: nothing would be left");
    // SELU's lower bound, and the scale and shift that restore mean 0 and variance 1.
    constexpr double kLowest = -1.6732632423543772848 * 1.0507009873554804935;
    const double rate = options_.rate;
    const double scale = 1 / std::sqrt((1 - rate) * (1 + rate * kLowest * kLowest));
    return KeepOr(ctx, x, noise, rate, ir::SplatLike(x, kLowest)) * scale - scale * kLowest * rate;
  }
};

struct StochasticDepthLayer : LayerOf<StochasticDepthOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "StochasticDepth"; }
  void Fields(Config& config) override { config("drop_path_rate", options_.drop_path_rate); }
  KerasForm keras_form() const override { return {.module = "keras.src.applications.convnext"}; }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = OnlyInput(ctx, inputs);
    if (!Applies(ctx, x, options_.drop_path_rate, "drop_path_rate")) return x;
    Shape noise(std::vector<int64_t>(x.rank(), 1));
    noise.set_dim(0, x.shape().dim(0));
    return Drop(ctx, x, noise, options_.drop_path_rate);
  }
};

struct ActivityRegularizationLayer : LayerOf<ActivityRegularizationOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "ActivityRegularization"; }
  bool supports_masking() const override { return true; }
  void Fields(Config& config) override { config("l1", options_.l1)("l2", options_.l2); }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = OnlyInput(ctx, inputs);
    ctx.RegularizeActivity(regularizers::L1L2(options_.l1, options_.l2), x);
    return x;
  }
};

}  // namespace

Layer Dropout(const DropoutOptions& options, SourceLocation location) {
  return internal::MakeLayer<DropoutLayer>(options, location);
}
Layer SpatialDropout1D(const SpatialDropoutOptions& options, SourceLocation location) {
  return internal::MakeLayer<SpatialDropoutLayer<1>>(options, location);
}
Layer SpatialDropout2D(const SpatialDropoutOptions& options, SourceLocation location) {
  return internal::MakeLayer<SpatialDropoutLayer<2>>(options, location);
}
Layer SpatialDropout3D(const SpatialDropoutOptions& options, SourceLocation location) {
  return internal::MakeLayer<SpatialDropoutLayer<3>>(options, location);
}
Layer GaussianDropout(const GaussianDropoutOptions& options, SourceLocation location) {
  return internal::MakeLayer<GaussianDropoutLayer>(options, location);
}
Layer GaussianNoise(const GaussianNoiseOptions& options, SourceLocation location) {
  return internal::MakeLayer<GaussianNoiseLayer>(options, location);
}
Layer AlphaDropout(const AlphaDropoutOptions& options, SourceLocation location) {
  return internal::MakeLayer<AlphaDropoutLayer>(options, location);
}
Layer StochasticDepth(const StochasticDepthOptions& options, SourceLocation location) {
  return internal::MakeLayer<StochasticDepthLayer>(options, location);
}
Layer ActivityRegularization(const ActivityRegularizationOptions& options,
                             SourceLocation location) {
  return internal::MakeLayer<ActivityRegularizationLayer>(options, location);
}

absl::Span<const internal::LayerRow> internal::RegularizationLayers() {
  static constexpr LayerRow kRows[] = {
      {"Dropout", MakeDefault<DropoutLayer>},
      {"SpatialDropout1D", MakeDefault<SpatialDropoutLayer<1>>},
      {"SpatialDropout2D", MakeDefault<SpatialDropoutLayer<2>>},
      {"SpatialDropout3D", MakeDefault<SpatialDropoutLayer<3>>},
      {"GaussianDropout", MakeDefault<GaussianDropoutLayer>},
      {"GaussianNoise", MakeDefault<GaussianNoiseLayer>},
      {"AlphaDropout", MakeDefault<AlphaDropoutLayer>},
      {"StochasticDepth", MakeDefault<StochasticDepthLayer>},
      {"ActivityRegularization", MakeDefault<ActivityRegularizationLayer>},
  };
  return kRows;
}

}  // namespace penstock::nn
