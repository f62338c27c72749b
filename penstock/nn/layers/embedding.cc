#include <limits>

#include "absl/strings/str_cat.h"

#include "penstock/nn/config.h"
#include "penstock/nn/layers.h"
#include "penstock/nn/layers/layer_table.h"

namespace penstock::nn {
namespace {

using internal::LayerOf;
using internal::OnlyInput;

// Converts indices to integers wide enough for any number of rows.
Value Integers(CallContext& ctx, Value ids) {
  if (!ids.valid()) return ids;
  if (base::IsFloat(ids.dtype()) && base::ByteWidth(ids.dtype()) < 4) {
    return ctx.Fail(
        absl::StrCat("expects integers: ", ids.type().ToString(),
                     " cannot hold them all (the layer's policy computes in it); give the Input "
                     "an integer dtype"));
  }
  return base::ByteWidth(ids.dtype()) < 4 || base::IsFloat(ids.dtype())
             ? ir::Convert(ids, DType::kI32)
             : ids;
}

// Common base of Embedding and ReversibleEmbedding.
template <typename OptionsType>
struct TableLayer : LayerOf<OptionsType> {
  using LayerOf<OptionsType>::LayerOf;
  using LayerOf<OptionsType>::options_;

  void Fields(Config& config) override {
    auto& o = options_;
    config("input_dim", o.input_dim)("output_dim", o.output_dim)("embeddings_initializer",
                                                                 o.embeddings_initializer)(
        "embeddings_regularizer", o.embeddings_regularizer)("activity_regularizer",
                                                            o.activity_regularizer)(
        "embeddings_constraint", o.embeddings_constraint)("mask_zero", o.mask_zero);
  }

 protected:
  bool CheckSizes(CallContext& ctx) const {
    if (options_.input_dim > 0 && options_.output_dim > 0) return true;
    ctx.Fail(absl::StrCat("input_dim and output_dim must be above 0, got ", options_.input_dim,
                          " and ", options_.output_dim));
    return false;
  }

  // Table [input_dim, output_dim], in compute_dtype() or as stored.
  Value Table(CallContext& ctx, bool autocast) const {
    return ctx.Variable("embeddings", {options_.input_dim, options_.output_dim},
                        options_.embeddings_initializer,
                        {.autocast = autocast,
                         .regularizer = options_.embeddings_regularizer,
                         .constraint = options_.embeddings_constraint});
  }

  Value Rows(CallContext& ctx, Value ids) const {
    const Value table = Table(ctx, /*autocast=*/false);
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
};

struct EmbeddingLayer : TableLayer<EmbeddingOptions> {
  using TableLayer::TableLayer;
  absl::string_view class_name() const override { return "Embedding"; }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value ids = Integers(ctx, OnlyInput(ctx, inputs));
    if (!ids.valid() || !CheckSizes(ctx)) return Value();
    return Rows(ctx, ids);
  }
};

struct ReversibleEmbeddingLayer : TableLayer<ReversibleEmbeddingOptions> {
  using TableLayer::TableLayer;
  absl::string_view class_name() const override { return "ReversibleEmbedding"; }
  void Fields(Config& config) override {
    TableLayer::Fields(config);
    config("tie_weights", options_.tie_weights)
        .OrNull("reverse_dtype", options_.reverse_dtype, "")("logit_soft_cap",
                                                             options_.logit_soft_cap);
  }
  KerasForm keras_form() const override { return {.true_for_floats = "reverse"}; }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = OnlyInput(ctx, inputs);
    if (!x.valid() || !CheckSizes(ctx)) return Value();
    // Every call declares both variables, so that they do not depend on the order of calls.
    const Value y =
        base::IsFloat(x.dtype()) ? Table(ctx, /*autocast=*/true) : Rows(ctx, Integers(ctx, x));
    Value kernel;
    if (!options_.tie_weights) {
      kernel = ctx.Variable("reverse_embeddings", {options_.output_dim, options_.input_dim},
                            options_.embeddings_initializer);
    }
    if (!base::IsFloat(x.dtype())) return y;
    if (x.rank() < 2 || x.shape().dim(-1) != options_.output_dim) {
      return ctx.Fail(absl::StrCat("takes integers, or features of size output_dim, ",
                                   options_.output_dim, "; got ", x.type().ToString()));
    }
    if (options_.tie_weights) kernel = ir::Transpose(Table(ctx, /*autocast=*/true), {1, 0});
    return Logits(ctx, x, kernel);
  }

 private:
  Value Logits(CallContext& ctx, Value x, Value kernel) const {
    if (!options_.reverse_dtype.empty()) {
      const absl::StatusOr<DType> dtype = base::DTypeFromName(options_.reverse_dtype);
      if (!dtype.ok() || !base::IsFloat(*dtype)) {
        return ctx.Fail(
            absl::StrCat("reverse_dtype is a floating type, got '", options_.reverse_dtype, "'"));
      }
      x = ir::Convert(x, *dtype);
      kernel = ir::Convert(kernel, *dtype);
    }
    const Value logits = ir::MatMul(x, kernel);
    if (!options_.logit_soft_cap.has_value()) return logits;
    const double cap = *options_.logit_soft_cap;
    return ir::Tanh(logits / cap) * cap;
  }
};

struct PositionEmbeddingLayer : LayerOf<PositionEmbeddingOptions> {
  using LayerOf::LayerOf;
  absl::string_view class_name() const override { return "PositionEmbedding"; }
  bool supports_masking() const override { return true; }
  void Fields(Config& config) override {
    config("sequence_length", options_.sequence_length)("initializer", options_.initializer);
  }
  KerasForm keras_form() const override { return {.module = ""}; }  // KerasHub's
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const Value x = OnlyInput(ctx, inputs);
    if (!x.valid()) return x;
    if (x.rank() < 3) {
      return ctx.Fail(
          absl::StrCat("expects [batch, ..., steps, features], got ", x.type().ToString()));
    }
    const int64_t steps = x.shape().dim(-2), features = x.shape().dim(-1);
    if (options_.sequence_length < steps) {
      return ctx.Fail(absl::StrCat("has positions for sequence_length = ", options_.sequence_length,
                                   " steps, got ", steps, " of them"));
    }
    const Value table =
        ctx.Variable("embeddings", {options_.sequence_length, features}, options_.initializer);
    return ir::BroadcastTo(ir::SliceAxis(table, 0, 0, steps), x.shape());
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
      return ctx.Fail(absl::StrCat("expects [batch, ..., features], got ", x.type().ToString()));
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
Layer ReversibleEmbedding(const ReversibleEmbeddingOptions& options, SourceLocation location) {
  return internal::MakeLayer<ReversibleEmbeddingLayer>(options, location);
}
Layer PositionEmbedding(const PositionEmbeddingOptions& options, SourceLocation location) {
  return internal::MakeLayer<PositionEmbeddingLayer>(options, location);
}
Layer Masking(const MaskingOptions& options, SourceLocation location) {
  return internal::MakeLayer<MaskingLayer>(options, location);
}

absl::Span<const internal::LayerRow> internal::EmbeddingLayers() {
  static constexpr LayerRow kRows[] = {
      {"Embedding", MakeDefault<EmbeddingLayer>},
      {"ReversibleEmbedding", MakeDefault<ReversibleEmbeddingLayer>},
      {"PositionEmbedding", MakeDefault<PositionEmbeddingLayer>},
      {"Masking", MakeDefault<MaskingLayer>},
  };
  return kRows;
}

}  // namespace penstock::nn
