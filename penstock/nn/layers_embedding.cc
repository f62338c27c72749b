#include <limits>

#include "absl/strings/str_cat.h"

#include "penstock/nn/config.h"
#include "penstock/nn/layer_table.h"
#include "penstock/nn/layers.h"

namespace penstock::nn {
namespace {

using internal::LayerOf;
using internal::OnlyInput;

struct EmbeddingLayer : LayerOf<EmbeddingOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "Embedding"; }
  void Fields(Config& config) override {
    config("input_dim", options_.input_dim)("output_dim", options_.output_dim)(
        "embeddings_initializer", options_.embeddings_initializer)(
        "embeddings_regularizer", options_.embeddings_regularizer)("activity_regularizer",
                                                                   options_.activity_regularizer)(
        "embeddings_constraint", options_.embeddings_constraint)("mask_zero", options_.mask_zero);
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value ids = Integers(ctx, OnlyInput(ctx, inputs));
    if (!ids.valid()) return ids;
    if (options_.input_dim <= 0 || options_.output_dim <= 0) {
      return ctx.Fail(absl::StrCat("input_dim and output_dim must be above 0, got ",
                                   options_.input_dim, " and ", options_.output_dim));
    }
    const Value table = ctx.Variable("embeddings", {options_.input_dim, options_.output_dim},
                                     options_.embeddings_initializer,
                                     {.autocast = false,
                                      .regularizer = options_.embeddings_regularizer,
                                      .constraint = options_.embeddings_constraint});
    const Value rows = ir::Convert(ir::Take(table, ids, 0), ctx.compute_dtype());
    const Value zero = ir::SplatLike(ids, 0);
    const Value inside =
        ir::And(ir::GreaterEqual(ids, zero),
                ir::Less(ids, ir::SplatLike(ids, static_cast<double>(options_.input_dim))));
    const Value nan = ir::SplatLike(rows, std::numeric_limits<double>::quiet_NaN());
    const Value y = ir::Select(ir::ExpandDims(inside, -1), rows, nan);
    if (options_.mask_zero) ctx.SetOutputMask(ir::Compare(ids, zero, ir::Comparison::kNe));
    ctx.RegularizeActivity(options_.activity_regularizer, y);
    return y;
  }

 private:
  // As integers wide enough for any number of rows.
  static Value Integers(CallContext& ctx, Value ids) {
    if (!ids.valid()) return ids;
    if (base::IsFloat(ids.dtype()) && base::ByteWidth(ids.dtype()) < 4) {
      return ctx.Fail(
          absl::StrCat("wants integers: ", ids.type().ToString(),
                       " cannot hold them all (the layer's policy computes in it); give the Input "
                       "an integer dtype"));
    }
    return base::ByteWidth(ids.dtype()) < 4 || base::IsFloat(ids.dtype())
               ? ir::Convert(ids, DType::kI32)
               : ids;
  }
};

struct MaskingLayer : LayerOf<MaskingOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "Masking"; }
  void Fields(Config& config) override { config("mask_value", options_.mask_value); }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = OnlyInput(ctx, inputs);
    if (!x.valid()) return x;
    if (x.rank() < 2) {
      return ctx.Fail(absl::StrCat("wants [batch, ..., features], got ", x.type().ToString()));
    }
    const Value differs =
        ir::Compare(x, ir::SplatLike(x, options_.mask_value), ir::Comparison::kNe);
    const Value real = ir::ReduceOr(differs, {-1});
    ctx.SetOutputMask(real);
    return ir::Select(ir::ExpandDims(real, -1), x, ir::SplatLike(x, 0));
  }
};

}  // namespace

Layer Embedding(const EmbeddingOptions& options, SourceLocation location) {
  return internal::MakeLayer<EmbeddingLayer>(options, location);
}
Layer Masking(const MaskingOptions& options, SourceLocation location) {
  return internal::MakeLayer<MaskingLayer>(options, location);
}

absl::Span<const internal::LayerRow> internal::EmbeddingLayers() {
  static constexpr LayerRow kRows[] = {
      {"Embedding", MakeDefault<EmbeddingLayer>},
      {"Masking", MakeDefault<MaskingLayer>},
  };
  return kRows;
}

}  // namespace penstock::nn
