#include "penstock/nn/layers_merge.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "penstock/nn/config.h"
#include "penstock/nn/layer_table.h"
#include "penstock/nn/norms.h"

namespace penstock::nn {
namespace {

using internal::LayerOf;

// What the elementwise ones differ in.
struct Merge {
  const char* class_name;
  const char* verb;
  Value (*merge)(Value a, Value b);
  bool mean = false;  // the merged is divided by the number of inputs
  size_t at_most = SIZE_MAX;
};
constexpr Merge kAdd = {"Add", "adds", ir::Add};
constexpr Merge kSubtract = {"Subtract", "subtracts", ir::Subtract, false, 2};
constexpr Merge kMultiply = {"Multiply", "multiplies", ir::Multiply};
constexpr Merge kAverage = {"Average", "averages", ir::Add, true};
constexpr Merge kMaximum = {"Maximum", "compares", ir::Maximum};
constexpr Merge kMinimum = {"Minimum", "compares", ir::Minimum};

// The mask of elementwise merging: a step is real when it is in any input, and none is masked
// unless every input has a mask.
void MergeMasks(CallContext& ctx, size_t inputs) {
  Value mask = ctx.input_mask(0);
  for (size_t i = 1; i < inputs && mask.valid(); ++i) {
    const Value other = ctx.input_mask(i);
    mask = other.valid() ? ir::Or(mask, other) : other;
  }
  if (mask.valid()) ctx.SetOutputMask(mask);
}

template <const Merge& kMerge>
struct MergeLayer : LayerOf<MergeOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return kMerge.class_name; }
  void Fields(Config&) override {}
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    if (inputs.size() < 2 || inputs.size() > kMerge.at_most) {
      return ctx.Fail(absl::StrCat(kMerge.verb, kMerge.at_most == 2 ? " two" : " two or more",
                                   " inputs, got ", inputs.size()));
    }
    int rank = 0;
    for (const Value& x : inputs) rank = std::max(rank, x.rank());
    Value merged = WithRank(inputs[0], rank);
    for (size_t i = 1; i < inputs.size(); ++i) {
      merged = kMerge.merge(merged, WithRank(inputs[i], rank));
    }
    MergeMasks(ctx, inputs.size());
    return kMerge.mean ? merged / static_cast<double>(inputs.size()) : merged;
  }

 private:
  static Value WithRank(Value x, int rank) {
    while (x.rank() < rank) x = ir::ExpandDims(x, 1);
    return x;
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
  // Of sequences: masks follow each other along the steps, or, along the features, a step is real
  // when it is in any input. An input without a mask is all real.
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
      {"Concatenate", MakeDefault<ConcatenateLayer>},
      {"Dot", MakeDefault<DotLayer>},
  };
  return kRows;
}

}  // namespace penstock::nn
