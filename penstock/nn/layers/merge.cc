#include "penstock/nn/layers/merge.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "penstock/nn/config.h"
#include "penstock/nn/layers/layer_table.h"
#include "penstock/nn/norms.h"

namespace penstock::nn {
namespace {

using internal::LayerOf;

// Treatment of masked steps in an elementwise layer, as in Keras.
enum class Masked {
  kLikeOthers,   // like all others
  kOnes,         // as 1; steps that every input masks give 0
  kOtherInputs,  // only the other inputs' values count
};

// Properties of an elementwise merge layer.
struct Merge {
  const char* class_name;
  const char* verb;
  Value (*merge)(Value a, Value b);
  Masked masked = Masked::kLikeOthers;
  bool mean = false;  // divide by the number of inputs
  size_t at_most = SIZE_MAX;
};
constexpr Merge kAdd = {"Add", "adds", ir::Add};
constexpr Merge kSubtract = {"Subtract", "subtracts", ir::Subtract, Masked::kLikeOthers, false, 2};
constexpr Merge kMultiply = {"Multiply", "multiplies", ir::Multiply, Masked::kOnes};
constexpr Merge kAverage = {"Average", "averages", ir::Add, Masked::kLikeOthers, true};
constexpr Merge kMaximum = {"Maximum", "compares", ir::Maximum, Masked::kOtherInputs};
constexpr Merge kMinimum = {"Minimum", "compares", ir::Minimum, Masked::kOtherInputs};

// Mask of elementwise merging: a step is real if it is real in any input; no mask if an input has
// none.
Value MergedMask(const Values& masks) {
  Value merged = masks[0];
  for (size_t i = 1; i < masks.size() && merged.valid(); ++i) {
    merged = masks[i].valid() ? ir::Or(merged, masks[i]) : Value();
  }
  return merged;
}

// Selects `yes` where `mask`, which applies to x's first axes, is 1, and `no` elsewhere.
Value Where(Value mask, Value yes, Value no) {
  while (mask.rank() < yes.rank()) mask = ir::ExpandDims(mask, mask.rank());
  return ir::Select(mask, yes, no);
}

// The product of `inputs`; masks[i] is invalid if inputs[i] has none.
Value MultiplyUnmasked(const Values& inputs, const Values& masks) {
  Value merged;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Value x = inputs[i];
    if (masks[i].valid()) x = Where(masks[i], x, ir::SplatLike(x, 1));
    merged = i == 0 ? x : merged * x;
  }
  const Value mask = MergedMask(masks);
  return mask.valid() && merged.valid() ? Where(mask, merged, ir::SplatLike(merged, 0)) : merged;
}

// `inputs` merged pairwise; a masked value is replaced by the other one.
Value MergeUnmasked(Value (*merge)(Value, Value), const Values& inputs, const Values& masks) {
  Value merged = inputs[0], mask = masks[0];
  for (size_t i = 1; i < inputs.size() && merged.valid(); ++i) {
    Value x = inputs[i];
    if (masks[i].valid()) x = Where(masks[i], x, merged);
    if (mask.valid()) merged = Where(mask, merged, x);
    mask = MergedMask({mask, masks[i]});
    merged = merge(merged, x);
  }
  return merged;
}

template <const Merge& kMerge>
struct MergeLayer : LayerOf<MergeOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return kMerge.class_name; }
  void Fields(Config& config) override {
    config.IfGiven("constant", options_.constant).IfFalse("use_masks", options_.use_masks);
  }
  // In Keras, `x + 1` is an operation instead of a layer. There is none of an average.
  KerasForm keras_form() const override {
    if (!options_.constant.has_value() && options_.use_masks) return {};
    return {.module = kMerge.mean ? "" : kKerasOperations};
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const std::optional<double>& constant = options_.constant;
    const size_t count = inputs.size() + (constant.has_value() ? 1 : 0);
    if (inputs.empty() || count < 2 || count > kMerge.at_most) {
      return ctx.Fail(absl::StrCat(kMerge.verb, kMerge.at_most == 2 ? " two" : " two or more",
                                   " inputs, got ", inputs.size(),
                                   constant.has_value() ? " and a constant" : ""));
    }
    int rank = 0;
    for (const Value& x : inputs) rank = std::max(rank, x.rank());
    Values same_rank, masks;
    for (size_t i = 0; i < inputs.size(); ++i) {
      same_rank.push_back(WithRank(inputs[i], rank));
      masks.push_back(options_.use_masks ? ctx.input_mask(i) : Value());
    }
    const Value mask = MergedMask(masks);
    Value merged = Merged(same_rank, MasksOfValues(inputs, masks, rank));
    if (!merged.valid()) return merged;
    if (mask.valid()) ctx.SetOutputMask(mask);
    if (constant.has_value()) merged = kMerge.merge(merged, ir::SplatLike(merged, *constant));
    return kMerge.mean ? merged / static_cast<double>(count) : merged;
  }

 private:
  static Value Merged(const Values& inputs, const Values& masks) {
    if (std::any_of(masks.begin(), masks.end(), [](const Value& m) { return m.valid(); })) {
      if (kMerge.masked == Masked::kOnes) return MultiplyUnmasked(inputs, masks);
      if (kMerge.masked == Masked::kOtherInputs) {
        return MergeUnmasked(kMerge.merge, inputs, masks);
      }
    }
    Value merged = inputs[0];
    for (size_t i = 1; i < inputs.size(); ++i) merged = kMerge.merge(merged, inputs[i]);
    return merged;
  }

  // The masks that apply to the values: not those of inputs that are broadcast to another rank,
  // whose axes no longer match the mask (Keras drops them, too).
  static Values MasksOfValues(const Values& inputs, const Values& masks, int rank) {
    Values of_values = masks;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Value& mask = masks[i];
      if (inputs[i].rank() != rank || (mask.valid() && mask.rank() > rank)) of_values[i] = Value();
    }
    return of_values;
  }

  static Value WithRank(Value x, int rank) {
    while (x.rank() < rank) x = ir::ExpandDims(x, 1);
    return x;
  }
};

struct ScaledSumLayer : LayerOf<CustomScaleLayerOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "CustomScaleLayer"; }
  void Fields(Config& config) override { config("scale", options_.scale); }
  KerasForm keras_form() const override {
    return {.module = "keras.src.applications.inception_resnet_v2"};
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    if (inputs.size() != 2) return ctx.Fail(absl::StrCat("adds two inputs, got ", inputs.size()));
    return inputs[0] + inputs[1] * options_.scale;
  }
};

struct ConcatenateLayer : LayerOf<ConcatenateOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "Concatenate"; }
  void Fields(Config& config) override { config("axis", options_.axis); }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    if (inputs.empty()) return ctx.Fail("joins one input or more, got none");
    const Value y = ir::Concatenate(inputs, options_.axis);
    if (y.valid()) JoinMasks(ctx, inputs);
    return y;
  }

 private:
  // Mask of a concatenation: along the steps, the masks are concatenated; along the features, a
  // step is real if it is real in any input. An input without a mask is all real.
  void JoinMasks(CallContext& ctx, const Values& inputs) const {
    Values masks;
    bool any = false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].rank() != 3) return;
      masks.push_back(ctx.input_mask(i));
      any = any || masks[i].valid();
      const Shape steps = {inputs[i].shape().dim(0), inputs[i].shape().dim(1)};
      if (!masks[i].valid()) masks[i] = ir::Splat(ctx.graph(), {DType::kBool, steps}, 1);
    }
    if (!any) return;
    if (options_.axis == 1 || options_.axis == -2) {
      ctx.SetOutputMask(ir::Concatenate(masks, 1));
      return;
    }
    Value mask = masks[0];
    for (size_t i = 1; i < masks.size(); ++i) mask = ir::Or(mask, masks[i]);
    ctx.SetOutputMask(mask);
  }
};

struct DotLayer : LayerOf<DotOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "Dot"; }
  void Fields(Config& config) override {
    config("axes", options_.axes)("normalize", options_.normalize);
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    if (inputs.size() != 2) return ctx.Fail(absl::StrCat("takes two inputs, got ", inputs.size()));
    const AxisList& given = options_.axes;
    if (given.empty() || given.size() > 2) {
      return ctx.Fail(absl::StrCat("axes is one number or two, got ", given.size()));
    }
    Value x[2] = {inputs[0], inputs[1]};
    int64_t axes[2];
    for (int i = 0; i < 2; ++i) {
      const int64_t rank = x[i].rank(), axis = given[given.size() == 1 ? 0 : i];
      axes[i] = axis < 0 ? axis + rank : axis;
      if (axes[i] <= 0 || axes[i] >= rank) {
        return ctx.Fail(absl::StrCat("axis ", axis, " is not one of ", x[i].type().ToString(),
                                     " after the batch's"));
      }
      if (options_.normalize) x[i] = internal::UnitLength(x[i], {axes[i]}, 1e-7);
    }
    const Value y = ir::DotGeneral(x[0], x[1],
                                   {.lhs_contracting = {axes[0]},
                                    .rhs_contracting = {axes[1]},
                                    .lhs_batch = {0},
                                    .rhs_batch = {0}});
    return y.valid() && y.rank() == 1 ? ir::ExpandDims(y, 1) : y;
  }
};

template <const Merge& kMerge>
Layer MakeMerge(const MergeOptions& options, const SourceLocation& location) {
  return internal::MakeLayer<MergeLayer<kMerge>>(options, location);
}

}  // namespace

Layer Add(const MergeOptions& options, SourceLocation location) {
  return MakeMerge<kAdd>(options, location);
}
Layer Subtract(const MergeOptions& options, SourceLocation location) {
  return MakeMerge<kSubtract>(options, location);
}
Layer Multiply(const MergeOptions& options, SourceLocation location) {
  return MakeMerge<kMultiply>(options, location);
}
Layer Average(const MergeOptions& options, SourceLocation location) {
  return MakeMerge<kAverage>(options, location);
}
Layer Maximum(const MergeOptions& options, SourceLocation location) {
  return MakeMerge<kMaximum>(options, location);
}
Layer Minimum(const MergeOptions& options, SourceLocation location) {
  return MakeMerge<kMinimum>(options, location);
}
Layer CustomScaleLayer(const CustomScaleLayerOptions& options, SourceLocation location) {
  return internal::MakeLayer<ScaledSumLayer>(options, location);
}
Layer Concatenate(const ConcatenateOptions& options, SourceLocation location) {
  return internal::MakeLayer<ConcatenateLayer>(options, location);
}
Layer Dot(const DotOptions& options, SourceLocation location) {
  return internal::MakeLayer<DotLayer>(options, location);
}

absl::Span<const internal::LayerRow> internal::MergeLayers() {
  static constexpr LayerRow kRows[] = {
      {"Add", MakeDefault<MergeLayer<kAdd>>},
      {"Subtract", MakeDefault<MergeLayer<kSubtract>>},
      {"Multiply", MakeDefault<MergeLayer<kMultiply>>},
      {"Average", MakeDefault<MergeLayer<kAverage>>},
      {"Maximum", MakeDefault<MergeLayer<kMaximum>>},
      {"Minimum", MakeDefault<MergeLayer<kMinimum>>},
      {"CustomScaleLayer", MakeDefault<ScaledSumLayer>},
      {"Concatenate", MakeDefault<ConcatenateLayer>},
      {"Dot", MakeDefault<DotLayer>},
  };
  return kRows;
}

}  // namespace penstock::nn
