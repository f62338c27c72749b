#include "penstock/nn/layers/normalization.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/nn/config.h"
#include "penstock/nn/layers/layer_table.h"
#include "penstock/nn/norms.h"

namespace penstock::nn {
namespace {

using internal::LayerOf;
using internal::OnlyInput;

// float32, or float64 if x is float64.
DType WideType(const Value& x) { return x.dtype() == DType::kF64 ? DType::kF64 : DType::kF32; }

// `axes` of x counted from the front and sorted. False, and an error of the layer, if one is not a
// feature axis of x.
bool ResolveAxes(CallContext& ctx, const Value& x, const AxisList& given, ir::Axes& axes) {
  axes.clear();
  for (int64_t axis : given) {
    const int64_t at = axis < 0 ? axis + x.rank() : axis;
    if (at <= 0 || at >= x.rank() || std::find(axes.begin(), axes.end(), at) != axes.end()) {
      ctx.Fail(absl::StrCat("axis ", absl::StrJoin(given, ", "), " is not a feature axis of ",
                            x.type().ToString()));
      return false;
    }
    axes.push_back(at);
  }
  std::sort(axes.begin(), axes.end());
  if (axes.empty()) ctx.Fail("axis is empty");
  return !axes.empty();
}

// Learned scale and shift of a layer whose options include them, in float32 and with shape
// `broadcast`; invalid if disabled.
struct ScaleAndShift {
  Value gamma, beta;
};
template <typename Options>
ScaleAndShift Learned(CallContext& ctx, const Options& options, const Shape& shape,
                      const Shape& broadcast, DType dtype) {
  ScaleAndShift out;
  if (options.scale) {
    out.gamma = ir::Reshape(ir::Convert(ctx.Variable("gamma", shape, options.gamma_initializer,
                                                     {.autocast = false,
                                                      .regularizer = options.gamma_regularizer,
                                                      .constraint = options.gamma_constraint}),
                                        dtype),
                            broadcast);
  }
  if (options.center) {
    out.beta = ir::Reshape(ir::Convert(ctx.Variable("beta", shape, options.beta_initializer,
                                                    {.autocast = false,
                                                     .regularizer = options.beta_regularizer,
                                                     .constraint = options.beta_constraint}),
                                       dtype),
                           broadcast);
  }
  return out;
}

template <typename Options>
void ScaleAndShiftFields(Config& config, Options& options) {
  config("center", options.center)("scale", options.scale)(
      "beta_initializer", options.beta_initializer)("gamma_initializer", options.gamma_initializer)(
      "beta_regularizer", options.beta_regularizer)("gamma_regularizer", options.gamma_regularizer)(
      "beta_constraint", options.beta_constraint)("gamma_constraint", options.gamma_constraint);
}

// (x - mean) / sqrt(variance + epsilon) * gamma + beta.
Value Normalized(Value x, Value mean, Value variance, double epsilon,
                 const ScaleAndShift& learned) {
  Value inverse = ir::Rsqrt(variance + epsilon);
  if (learned.gamma.valid()) inverse = inverse * learned.gamma;
  const Value y = (x - mean) * inverse;
  return learned.beta.valid() ? y + learned.beta : y;
}

Value NormalizedOver(Value x, const ir::Axes& axes, double epsilon, const ScaleAndShift& learned) {
  const Value mean = ir::ReduceMean(x, axes, true);
  const Value variance = ir::ReduceMean(ir::Square(x - mean), axes, true);
  return Normalized(x, mean, variance, epsilon, learned);
}

// Selects the elements of x for the statistics: 1 or 0 in x's type, broadcasting to x. These are
// the real examples (f32[batch]; invalid: all) and in them the real steps (bool [batch, steps, ..],
// x's first axes; invalid: all).
Value StatisticWeights(const Value& x, Value examples, Value steps) {
  const auto spread = [&](const Value& mask) {
    std::vector<int64_t> dims(x.rank(), 1);
    for (int i = 0; i < mask.rank(); ++i) dims[i] = mask.shape().dim(i);
    return ir::Reshape(ir::Convert(mask, x.dtype()), Shape(dims));
  };
  if (!steps.valid() && !examples.valid()) {
    std::vector<int64_t> dims(x.rank(), 1);
    dims[0] = x.shape().dim(0);
    return ir::Splat(*x.graph(), {x.dtype(), Shape(dims)}, 1);
  }
  if (!steps.valid()) return spread(examples);
  return examples.valid() ? spread(examples) * spread(steps) : spread(steps);
}

// The mean and variance of x where `weights` (StatisticWeights) are 1, over all axes except `axis`,
// and over all replicas if `over_replicas`. Two passes: the variance is computed from differences
// to the mean. If no weight is 1, both are 0.
struct Moments {
  Value mean, variance;  // [1, .., features, .., 1]
};
Moments MomentsWhere(Value x, Value weights, int64_t axis, bool over_replicas) {
  ir::Axes axes;
  double each = 1;  // elements of x per summed weight
  for (int i = 0; i < x.rank(); ++i) {
    if (i == axis) continue;
    axes.push_back(i);
    each *= static_cast<double>(x.shape().dim(i)) / static_cast<double>(weights.shape().dim(i));
  }
  const Value zero = ir::SplatLike(x, 0), real = ir::Greater(weights, ir::SplatLike(weights, 0));
  const auto sum = [&](Value of) { return ir::ReduceSum(ir::Select(real, of, zero), axes, true); };
  Values sums{sum(x), ir::ReduceSum(weights, axes, true) * each};
  if (over_replicas) sums = ir::AllReduce(sums);
  const Value count = ir::Maximum(sums[1], ir::SplatLike(sums[1], 1));
  const Value mean = sums[0] / count, squares = sum(ir::Square(x - mean));
  return {mean, (over_replicas ? ir::AllReduce(squares) : squares) / count};
}

// Ioffe and Szegedy: Batch normalization, 2015. The variance is the biased one, also in the moving
// average, as in Keras.
struct BatchNormalizationLayer : LayerOf<BatchNormalizationOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "BatchNormalization"; }
  bool supports_masking() const override { return true; }
  void Fields(Config& config) override {
    config("axis", options_.axis)("momentum", options_.momentum)("epsilon", options_.epsilon);
    ScaleAndShiftFields(config, options_);
    config("moving_mean_initializer", options_.moving_mean_initializer)(
        "moving_variance_initializer", options_.moving_variance_initializer)("synchronized",
                                                                             options_.synchronized);
  }

  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = OnlyInput(ctx, inputs);
    if (!x.valid()) return x;
    ir::Axes axes;
    if (!ResolveAxes(ctx, x, {options_.axis}, axes)) return Value();
    const int64_t axis = axes[0], features = x.shape().dim(static_cast<int>(axis));
    // Vectors over the features, reshaped to [1, .., features, .., 1] for broadcasting.
    Shape broadcast(std::vector<int64_t>(x.rank(), 1));
    broadcast.set_dim(static_cast<int>(axis), features);
    const ScaleAndShift vectors = Learned(ctx, options_, {features}, {features}, DType::kF32);
    // Moving averages are stored in float32 under every policy: they need its precision.
    const auto average = [&](const char* name, const std::string& initializer) {
      return ctx.Variable(name, {features}, initializer,
                          {.trainable = false, .dtype = DType::kF32, .autocast = false});
    };
    const Value moving_mean = average("moving_mean", options_.moving_mean_initializer);
    const Value moving_variance = average("moving_variance", options_.moving_variance_initializer);
    if (!moving_mean.valid() || !moving_variance.valid()) return Value();

    if (ctx.training() && ctx.trainable()) {
      const ir::BatchNormResult batch = Train(ctx, x, vectors, axis, broadcast);
      const double m = options_.momentum;
      const auto moved = [&](Value moving, Value now) {
        return now.valid() ? moving * m + ir::Convert(now, moving.dtype()) * (1 - m) : Value();
      };
      ctx.Assign("moving_mean", moved(moving_mean, batch.mean));
      ctx.Assign("moving_variance", moved(moving_variance, batch.variance));
      return batch.y;
    }
    // x * scale + shift: two operations per element, the rest is per feature.
    Value scale = ir::Rsqrt(moving_variance + options_.epsilon);
    if (vectors.gamma.valid()) scale = scale * vectors.gamma;
    Value shift = -moving_mean * scale;
    if (vectors.beta.valid()) shift = shift + vectors.beta;
    const Value y =
        ir::Convert(x, DType::kF32) * ir::Reshape(scale, broadcast) + ir::Reshape(shift, broadcast);
    return ir::Convert(y, ctx.compute_dtype());
  }

 private:
  // Padding and masked steps are excluded from the statistics.
  ir::BatchNormResult Train(CallContext& ctx, Value x, const ScaleAndShift& vectors, int64_t axis,
                            const Shape& broadcast) const {
    const bool over_replicas = options_.synchronized && ctx.graph().num_replicas() > 1;
    const Value steps = ctx.input_mask();
    if (!over_replicas && !steps.valid()) {
      return ir::BatchNormTraining(x, vectors.gamma, vectors.beta, ctx.sample_mask(),
                                   {.axis = axis, .epsilon = options_.epsilon});
    }
    if (steps.valid() && !IsMaskOf(steps, x)) {
      ctx.Fail(absl::StrCat("the mask of its input is ", steps.type().ToString(),
                            ", which does not match the first axes of ", x.type().ToString()));
      return {};
    }
    const Value wide = ir::Convert(x, WideType(x));
    const auto [mean, variance] =
        MomentsWhere(wide, StatisticWeights(wide, ctx.sample_mask(), steps), axis, over_replicas);
    const auto seen = [&](Value v) {
      return v.valid() ? ir::Reshape(ir::Convert(v, wide.dtype()), broadcast) : v;
    };
    const Value y = Normalized(wide, mean, variance, options_.epsilon,
                               {seen(vectors.gamma), seen(vectors.beta)});
    const Shape flat = {x.shape().dim(static_cast<int>(axis))};
    return {.y = ir::Convert(y, x.dtype()),
            .mean = ir::Reshape(mean, flat),
            .variance = ir::Reshape(variance, flat)};
  }

  static bool IsMaskOf(const Value& mask, const Value& x) {
    if (mask.rank() >= x.rank()) return false;
    for (int i = 0; i < mask.rank(); ++i) {
      if (mask.shape().dim(i) != x.shape().dim(i)) return false;
    }
    return true;
  }
};

// The extents of `axes`, and x's shape with 1 elsewhere.
Shape ShapeOf(const Value& x, const ir::Axes& axes) {
  std::vector<int64_t> dims;
  for (int64_t axis : axes) dims.push_back(x.shape().dim(static_cast<int>(axis)));
  return Shape(dims);
}
Shape BroadcastShapeOf(const Value& x, const ir::Axes& axes) {
  Shape shape(std::vector<int64_t>(x.rank(), 1));
  for (int64_t axis : axes) {
    shape.set_dim(static_cast<int>(axis), x.shape().dim(static_cast<int>(axis)));
  }
  return shape;
}

struct LayerNormalizationLayer : LayerOf<LayerNormalizationOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "LayerNormalization"; }
  bool supports_masking() const override { return true; }
  void Fields(Config& config) override {
    config("axis", options_.axis)("epsilon", options_.epsilon);
    ScaleAndShiftFields(config, options_);
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = OnlyInput(ctx, inputs);
    ir::Axes axes;
    if (!x.valid() || !ResolveAxes(ctx, x, options_.axis, axes)) return Value();
    const Value wide = ir::Convert(x, WideType(x));
    const Value y = NormalizedOver(
        wide, axes, options_.epsilon,
        Learned(ctx, options_, ShapeOf(x, axes), BroadcastShapeOf(x, axes), wide.dtype()));
    return ir::Convert(y, ctx.compute_dtype());
  }
};

struct GroupNormalizationLayer : LayerOf<GroupNormalizationOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "GroupNormalization"; }
  bool supports_masking() const override { return true; }
  void Fields(Config& config) override {
    config("groups", options_.groups)("axis", options_.axis)("epsilon", options_.epsilon);
    ScaleAndShiftFields(config, options_);
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = OnlyInput(ctx, inputs);
    ir::Axes axes;
    if (!x.valid() || !ResolveAxes(ctx, x, {options_.axis}, axes)) return Value();
    const int64_t axis = axes[0], channels = x.shape().dim(static_cast<int>(axis));
    const int64_t groups = options_.groups == -1 ? channels : options_.groups;
    if (groups <= 0 || channels % groups != 0) {
      return ctx.Fail(absl::StrCat("groups (", options_.groups, ") must divide the ", channels,
                                   " channels of ", x.type().ToString(), ", or be -1"));
    }
    if (x.rank() == base::kMaxRank) {
      return ctx.Fail(
          absl::StrCat("takes up to ", base::kMaxRank - 1, " axes, got ", x.type().ToString()));
    }
    // [.., channels, ..] reshaped to [.., groups, channels / groups, ..], and the learned vectors
    // likewise.
    std::vector<int64_t> split(x.shape().begin(), x.shape().end());
    split[axis] = channels / groups;
    split.insert(split.begin() + axis, groups);
    Shape broadcast(std::vector<int64_t>(split.size(), 1));
    broadcast.set_dim(static_cast<int>(axis), groups);
    broadcast.set_dim(static_cast<int>(axis) + 1, channels / groups);
    ir::Axes over;
    for (int64_t i = 1; i <= x.rank(); ++i) {
      if (i != axis) over.push_back(i);
    }
    const Value wide = ir::Reshape(ir::Convert(x, WideType(x)), Shape(split));
    const Value y = NormalizedOver(wide, over, options_.epsilon,
                                   Learned(ctx, options_, {channels}, broadcast, wide.dtype()));
    return ir::Convert(ir::Reshape(y, x.shape()), ctx.compute_dtype());
  }
};

struct RMSNormalizationLayer : LayerOf<RMSNormalizationOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "RMSNormalization"; }
  void Fields(Config& config) override {
    config("axis", options_.axis)("epsilon", options_.epsilon);
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = OnlyInput(ctx, inputs);
    ir::Axes axes;
    if (!x.valid() || !ResolveAxes(ctx, x, options_.axis, axes)) return Value();
    const Value scale = ctx.Variable("scale", ShapeOf(x, axes), "ones");
    const Value wide = ir::Convert(x, WideType(x));
    const Value inverse =
        ir::Rsqrt(ir::ReduceMean(ir::Square(wide), axes, true) + options_.epsilon);
    const Value y =
        wide * inverse * ir::Convert(ir::Reshape(scale, BroadcastShapeOf(x, axes)), wide.dtype());
    return ir::Convert(y, x.dtype());
  }
};

struct UnitNormalizationLayer : LayerOf<UnitNormalizationOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "UnitNormalization"; }
  bool supports_masking() const override { return true; }
  void Fields(Config& config) override { config("axis", options_.axis); }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = OnlyInput(ctx, inputs);
    ir::Axes axes;
    if (!x.valid() || !ResolveAxes(ctx, x, options_.axis, axes)) return Value();
    return internal::UnitLength(x, axes, 1e-12);
  }
};

}  // namespace

Layer BatchNormalization(const BatchNormalizationOptions& options, SourceLocation location) {
  return internal::MakeLayer<BatchNormalizationLayer>(options, location);
}
Layer LayerNormalization(const LayerNormalizationOptions& options, SourceLocation location) {
  return internal::MakeLayer<LayerNormalizationLayer>(options, location);
}
Layer GroupNormalization(const GroupNormalizationOptions& options, SourceLocation location) {
  return internal::MakeLayer<GroupNormalizationLayer>(options, location);
}
Layer RMSNormalization(const RMSNormalizationOptions& options, SourceLocation location) {
  return internal::MakeLayer<RMSNormalizationLayer>(options, location);
}
Layer UnitNormalization(const UnitNormalizationOptions& options, SourceLocation location) {
  return internal::MakeLayer<UnitNormalizationLayer>(options, location);
}

absl::Span<const internal::LayerRow> internal::NormalizationLayers() {
  static constexpr LayerRow kRows[] = {
      {"BatchNormalization", MakeDefault<BatchNormalizationLayer>},
      {"LayerNormalization", MakeDefault<LayerNormalizationLayer>},
      {"GroupNormalization", MakeDefault<GroupNormalizationLayer>},
      {"RMSNormalization", MakeDefault<RMSNormalizationLayer>},
      {"UnitNormalization", MakeDefault<UnitNormalizationLayer>},
  };
  return kRows;
}

}  // namespace penstock::nn
