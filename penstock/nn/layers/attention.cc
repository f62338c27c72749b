#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"

#include "penstock/nn/config.h"
#include "penstock/nn/initializers.h"
#include "penstock/nn/layers.h"
#include "penstock/nn/layers/layer_table.h"

namespace penstock::nn {
namespace {

using internal::LayerOf;
using Dims = std::vector<int64_t>;

// The score of a masked step: far below any real score, so that its softmax next to any real score
// is 0. It must be a float32: in float16 it would be infinite, and a fully masked row would be NaN.
constexpr double kMasked = -1e9;

// Masks and the softmax are computed in float32 or wider; the weights are rounded once.
Value Wide(Value x) { return base::BitWidth(x.dtype()) < 32 ? ir::Convert(x, DType::kF32) : x; }

bool CheckRate(CallContext& ctx, double rate) {
  if (rate >= 0 && rate < 1) return true;
  ctx.Fail(absl::StrCat("dropout must be a rate from 0 to below 1, got ", rate));
  return false;
}

Value DropOut(CallContext& ctx, Value x, double rate) {
  return rate == 0 ? x : ctx.Call(Dropout({.rate = rate}), "dropout", {x})[0];
}

// a and b, either of which may be invalid (no mask).
Value Both(Value a, Value b) {
  if (!a.valid()) return b;
  return b.valid() ? ir::And(a, b) : a;
}

// Distance of step j behind query i: i32 [queries, steps].
Value Lag(ir::Graph& graph, int64_t queries, int64_t steps) {
  const TensorType type{DType::kI32, {queries, steps}};
  return ir::Iota(graph, type, 0) - ir::Iota(graph, type, 1);
}

// Bool [queries, steps].
Value CausalMask(ir::Graph& graph, int64_t queries, int64_t steps) {
  const Value lag = Lag(graph, queries, steps);
  return ir::GreaterEqual(lag, ir::SplatLike(lag, 0));
}

// ---- Attention, AdditiveAttention ----

// Sum of each query and each key: [batch, queries, steps, dim].
Value Pairs(Value query, Value key) { return ir::ExpandDims(query, 2) + ir::ExpandDims(key, 1); }

Value Scores(CallContext& ctx, const AttentionOptions& o, Value query, Value key) {
  Value scale, weight;
  if (o.use_scale) scale = ctx.Variable("scale", {}, "ones");
  if (o.score_mode == "concat") {
    weight = ctx.Variable("concat_score_weight", {}, "ones");
    const Value pairs = Pairs(query, key);
    return weight * ir::ReduceSum(ir::Tanh(o.use_scale ? scale * pairs : pairs), {-1});
  }
  if (o.score_mode != "dot") {
    return ctx.Fail(absl::StrCat("score_mode must be dot or concat, got '", o.score_mode, "'"));
  }
  const Value scores = ir::MatMul(query, ir::Transpose(key, {0, 2, 1}));
  return o.use_scale ? scores * scale : scores;
}

Value Scores(CallContext& ctx, const AdditiveAttentionOptions& o, Value query, Value key) {
  Value pairs = ir::Tanh(Pairs(query, key));
  if (o.use_scale) {
    pairs = ctx.Variable("scale", {query.shape().dim(-1)}, "glorot_uniform") * pairs;
  }
  return ir::ReduceSum(pairs, {-1});
}

template <typename OptionsType>
struct AttentionLayer : LayerOf<OptionsType> {
  using LayerOf<OptionsType>::LayerOf;
  using LayerOf<OptionsType>::options_;
  static constexpr bool kAdditive = std::is_same_v<OptionsType, AdditiveAttentionOptions>;

  absl::string_view class_name() const override {
    return kAdditive ? "AdditiveAttention" : "Attention";
  }
  void Fields(Config& config) override {
    config("use_scale", options_.use_scale)("dropout", options_.dropout)(
        "use_causal_mask", options_.use_causal_mask)("return_attention_scores",
                                                     options_.return_attention_scores);
    if constexpr (!kAdditive) config("score_mode", options_.score_mode);
  }
  KerasForm keras_form() const override {
    return {.call_options = {"use_causal_mask", "return_attention_scores"}};
  }
  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const auto& o = options_;
    if (inputs.size() != 2 && inputs.size() != 3) {
      return ctx.Fail(
          absl::StrCat("takes query, value and optionally key, got ", inputs.size(), " inputs"));
    }
    for (const Value& input : inputs) {
      if (input.rank() == 3) continue;
      return ctx.Fail(
          absl::StrCat("expects [batch, steps, features], got ", input.type().ToString()));
    }
    const Value &query = inputs[0], &value = inputs[1], &key = inputs.back();
    if (!CheckRate(ctx, o.dropout)) return Value();
    Value scores = Scores(ctx, o, query, key);
    if (!scores.valid()) return scores;
    Value mask = ctx.input_mask(1);
    if (mask.valid()) mask = ir::ExpandDims(mask, 1);
    if (o.use_causal_mask) {
      mask = Both(mask, CausalMask(ctx.graph(), scores.shape().dim(1), scores.shape().dim(2)));
    }
    const DType dtype = scores.dtype();
    // As in Keras: added to the score instead of replacing it, which matters in fully masked rows.
    if (mask.valid()) scores = ir::Select(mask, Wide(scores), Wide(scores) + kMasked);
    const Value weights = DropOut(ctx, ir::Convert(ir::Softmax(scores), dtype), o.dropout);
    Value y = ir::MatMul(weights, value);
    if (const Value real = ctx.input_mask(0); real.valid()) {
      y = ir::Select(ir::ExpandDims(real, 2), y, ir::SplatLike(y, 0));
    }
    ctx.SetOutputMask(ctx.input_mask(0));
    return o.return_attention_scores ? Outputs(Values{y, weights}) : Outputs(y);
  }
};

// ---- MultiHeadAttention, GroupQueryAttention ----

struct Heads {
  int64_t query = 0, value = 0;  // numbers of heads
  int64_t key_dim = 0, value_dim = 0;
  Dims output_shape;  // empty: the query's features
};

Heads HeadsOf(const MultiHeadAttentionOptions& o) {
  return {o.num_heads, o.num_heads, o.key_dim, o.value_dim == 0 ? o.key_dim : o.value_dim,
          o.output_shape};
}
Heads HeadsOf(const GroupQueryAttentionOptions& o) {
  return {o.num_query_heads, o.num_key_value_heads, o.head_dim, o.head_dim, {}};
}

void HeadFields(MultiHeadAttentionOptions& o, Config& config) {
  config("num_heads", o.num_heads)("key_dim", o.key_dim);
  config.Optional("value_dim", o.value_dim).Optional("output_shape", o.output_shape);
}
void HeadFields(GroupQueryAttentionOptions& o, Config& config) {
  config("head_dim", o.head_dim)("num_query_heads", o.num_query_heads)("num_key_value_heads",
                                                                       o.num_key_value_heads);
}

// [batch, steps..., features] with all axes in between merged.
Value OneAxisOfSteps(Value x) {
  return x.rank() == 3 ? x : ir::Reshape(x, {x.shape().dim(0), -1, x.shape().dim(-1)});
}

// [batch, steps, heads, dim] with each head repeated `times` times.
Value RepeatHeads(Value x, int64_t times) {
  if (times == 1) return x;
  const Dims dims(x.shape().begin(), x.shape().end());
  return ir::Reshape(
      ir::BroadcastTo(ir::ExpandDims(x, 3), {dims[0], dims[1], dims[2], times, dims[3]}),
      {dims[0], dims[1], dims[2] * times, dims[3]});
}

int64_t Product(const Dims& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

template <typename OptionsType>
struct MultiHeadLayer : LayerOf<OptionsType> {
  using LayerOf<OptionsType>::LayerOf;
  using LayerOf<OptionsType>::options_;

  static constexpr bool kIsMultiHead = std::is_same_v<OptionsType, MultiHeadAttentionOptions>;

  absl::string_view class_name() const override {
    return kIsMultiHead ? "MultiHeadAttention" : "GroupedQueryAttention";
  }
  void Fields(Config& config) override {
    auto& o = options_;
    HeadFields(o, config);
    if constexpr (kIsMultiHead) config.Optional("attention_axes", attention_axes_);
    config.Optional("sliding_window", o.sliding_window);
    config("dropout", o.dropout)("use_bias", o.use_bias)("use_gate", o.use_gate)(
        "kernel_initializer", o.kernel_initializer)("bias_initializer", o.bias_initializer)(
        "kernel_regularizer", o.kernel_regularizer)("bias_regularizer", o.bias_regularizer)(
        "activity_regularizer", o.activity_regularizer)("kernel_constraint", o.kernel_constraint)(
        "bias_constraint", o.bias_constraint)("use_causal_mask", o.use_causal_mask)(
        "return_attention_scores", o.return_attention_scores);
  }
  KerasForm keras_form() const override {
    return {.class_name = kIsMultiHead ? "" : "GroupQueryAttention",
            .arguments = {"value", "key", "attention_mask"},
            .call_options = {"use_causal_mask", "return_attention_scores"}};
  }
  // Attributes that are public in one of Keras's classes are private in the other.
  std::string KerasPath(absl::string_view part) const override {
    if (part.empty()) return "";
    const bool is_private = !kIsMultiHead || part == "gate";
    return absl::StrCat(is_private ? "_" : "", part == "attention_output" ? "output" : part,
                        "_dense");
  }

  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    const auto& o = options_;
    const Heads heads = HeadsOf(o);
    Inputs in;
    if (!Check(ctx, heads) || !Sort(ctx, inputs, in) || !CheckRanks(ctx, heads, in)) return Value();
    const Value mask = Mask(ctx, in);
    if (!ctx.graph().status().ok()) return Value();
    const Dims keys{heads.value, heads.key_dim}, values{heads.value, heads.value_dim};
    const Value query = Projected(ctx, "query", in.query, 1, {heads.query, heads.key_dim});
    const Value key = Projected(ctx, "key", in.key, 1, keys);
    Value gate;
    if (o.use_gate) {
      gate = Projected(ctx, "gate", in.query, 1, {heads.query, heads.value_dim}, /*gate=*/true);
    }
    const Value value = Projected(ctx, "value", in.value, 1, values);
    if (!value.valid()) return value;
    Value scores = AllScores(query, RepeatHeads(key, heads.query / heads.value), mask);
    Value y =
        Combine(DropOut(ctx, scores, o.dropout), RepeatHeads(value, heads.query / heads.value));
    if (gate.valid()) y = y * gate;
    y = Projected(ctx, "attention_output", y, 2,
                  heads.output_shape.empty() ? Dims{in.query.shape().dim(-1)} : heads.output_shape);
    if (!y.valid()) return y;
    ctx.SetOutputMask(ctx.input_mask(0));
    y = ir::Reshape(y, Shape(Joined({in.query_shape.begin(), in.query_shape.end() - 1},
                                    {y.shape().begin() + 2, y.shape().end()})));
    if (!o.return_attention_scores) return y;
    const Dims queries(in.query_shape.begin() + 1, in.query_shape.end() - 1);
    const Dims steps(in.value_shape.begin() + 1, in.value_shape.end() - 1);
    const Dims all{y.shape().dim(0), heads.query};
    return Values{y, ir::Reshape(scores, Shape(Joined(Joined(all, queries), steps)))};
  }

 private:
  struct Inputs {
    Value query, value, key;  // [batch, steps, features]
    bool key_given = false;
    Value attention_mask;           // bool, [batch, 1 or heads, queries, steps]
    Dims query_shape, value_shape;  // original shapes
  };

  static Dims Joined(Dims a, const Dims& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

  bool Check(CallContext& ctx, const Heads& heads) const {
    if (heads.query <= 0 || heads.value <= 0 || heads.key_dim <= 0 || heads.value_dim <= 0 ||
        heads.query % heads.value != 0) {
      ctx.Fail(absl::StrCat(
          "numbers of heads and their sizes must be above 0, and the heads of keys divide those of "
          "queries; got ",
          heads.query, " and ", heads.value, " heads of ", heads.key_dim, " and ",
          heads.value_dim));
      return false;
    }
    return CheckRate(ctx, options_.dropout);
  }

  // Checks the ranks of the results: the axes of the queries, and of output_shape or of the
  // attended steps.
  bool CheckRanks(CallContext& ctx, const Heads& heads, const Inputs& in) const {
    const size_t outputs = std::max<size_t>(1, heads.output_shape.size());
    for (int64_t extent : heads.output_shape) {
      if (extent > 0) continue;
      ctx.Fail(absl::StrCat("sizes of output_shape must be above 0, got ", extent));
      return false;
    }
    const size_t scores = in.query_shape.size() + in.value_shape.size() - 2;
    if (std::max(in.query_shape.size() - 1, size_t{2}) + outputs <= base::kMaxRank &&
        (!options_.return_attention_scores || scores <= base::kMaxRank)) {
      return true;
    }
    ctx.Fail(absl::StrCat("would have more axes than ", base::kMaxRank, " for queries ",
                          in.query.type().ToString(), " and an output_shape of ", outputs));
    return false;
  }

  // Determines the role of each input.
  bool Sort(CallContext& ctx, const Values& inputs, Inputs& in) const {
    size_t floats = 0;
    while (floats < inputs.size() && base::IsFloat(inputs[floats].dtype())) ++floats;
    if (floats < 2 || floats > 3 || inputs.size() > floats + 1) {
      ctx.Fail(
          absl::StrCat("takes query, value and optionally key, which are floats, then optionally a "
                       "mask of bools or integers; got ",
                       inputs.size(), " inputs, the first ", floats, " of them floats"));
      return false;
    }
    const auto steps = [](Value x) { return Dims(x.shape().begin() + 1, x.shape().end() - 1); };
    const bool masked = inputs.size() > floats || ctx.input_mask(0).valid() ||
                        ctx.input_mask(1).valid() || ctx.input_mask(2).valid() ||
                        options_.use_causal_mask || options_.sliding_window > 0;
    for (size_t i = 0; i < floats; ++i) {
      if (inputs[i].rank() < 3 || (masked && inputs[i].rank() != 3)) {
        ctx.Fail(absl::StrCat("expects [batch, steps, features]",
                              masked ? " (more axes only without any mask)" : "", ", got ",
                              inputs[i].type().ToString()));
        return false;
      }
    }
    for (size_t i = 0; i < attention_axes_.size(); ++i) {
      const int64_t axis = attention_axes_[i], rank = inputs[0].rank();
      if (axis + (axis < 0 ? rank : 0) == static_cast<int64_t>(i) + 1 &&
          attention_axes_.size() + 2 == static_cast<size_t>(rank)) {
        continue;
      }
      ctx.Fail(
          "attention goes over all axes but the first and last; other attention_axes are not "
          "supported");
      return false;
    }
    in.key_given = floats == 3;
    const Value& key = inputs[floats - 1];
    if (steps(inputs[1]) != steps(key)) {
      ctx.Fail(absl::StrCat("value and key differ in their steps: ", inputs[1].type().ToString(),
                            " and ", key.type().ToString()));
      return false;
    }
    in.query_shape = Dims(inputs[0].shape().begin(), inputs[0].shape().end());
    in.value_shape = Dims(inputs[1].shape().begin(), inputs[1].shape().end());
    in.query = OneAxisOfSteps(inputs[0]);
    in.value = OneAxisOfSteps(inputs[1]);
    in.key = OneAxisOfSteps(key);
    if (inputs.size() == floats) return true;
    const Value& mask = inputs.back();
    if (mask.rank() != 3 && mask.rank() != 4) {
      ctx.Fail(
          absl::StrCat("an attention mask is [batch, queries, steps] or [batch, heads, "
                       "queries, steps], got ",
                       mask.type().ToString()));
      return false;
    }
    in.attention_mask = ir::Convert(mask, DType::kBool);
    if (mask.rank() == 3) in.attention_mask = ir::ExpandDims(in.attention_mask, 1);
    return true;
  }

  // Steps to attend to: bool, broadcasts to [batch, heads, queries, steps]; invalid: all.
  Value Mask(CallContext& ctx, const Inputs& in) const {
    const int64_t queries = in.query.shape().dim(1), steps = in.value.shape().dim(1);
    Value mask = in.attention_mask;
    const auto step_mask = [](Value m, int axis) {  // [batch, steps] beside heads and queries
      return m.valid() ? ir::ExpandDims(ir::ExpandDims(m, 1), axis) : m;
    };
    mask = Both(mask, step_mask(ctx.input_mask(0), 3));
    mask = Both(mask, step_mask(ctx.input_mask(1), 2));
    if (in.key_given) mask = Both(mask, step_mask(ctx.input_mask(2), 2));
    if (options_.use_causal_mask) mask = Both(mask, CausalMask(ctx.graph(), queries, steps));
    if (options_.sliding_window > 0) {
      const Value lag = ir::Abs(Lag(ctx.graph(), queries, steps));
      const auto window = static_cast<double>(options_.sliding_window);
      mask = Both(mask, ir::Less(lag, ir::SplatLike(lag, window)));
    }
    return mask;
  }

  // Keras's EinsumDense: x's last `bound` axes times a kernel [those axes, out], plus a bias.
  Value Projected(CallContext& ctx, const char* name, Value x, int bound, const Dims& out,
                  bool gate = false) const {
    if (!x.valid()) return x;
    const auto& o = options_;
    const Dims in(x.shape().end() - bound, x.shape().end());
    const Value kernel =
        ctx.Variable(absl::StrCat(name, "/kernel"), Shape(Joined(in, out)),
                     WithFans(o.kernel_initializer, bound, static_cast<int64_t>(out.size())),
                     {.regularizer = o.kernel_regularizer, .constraint = o.kernel_constraint});
    const Dims steps{x.shape().dim(0), x.shape().dim(1)};
    Value y = ir::MatMul(ir::Reshape(x, Shape(Joined(steps, {Product(in)}))),
                         ir::Reshape(kernel, {Product(in), Product(out)}));
    y = ir::Reshape(y, Shape(Joined(steps, out)));
    if (o.use_bias) {
      y = y + ctx.Variable(absl::StrCat(name, "/bias"), Shape(out), o.bias_initializer,
                           {.regularizer = o.bias_regularizer, .constraint = o.bias_constraint});
    }
    if (gate) y = ir::Sigmoid(y);
    ctx.RegularizeActivity(o.activity_regularizer, y);
    return y;
  }

  // Softmax over the steps: [batch, heads, queries, steps].
  Value AllScores(Value query, Value key, Value mask) const {
    query = query * (1 / std::sqrt(static_cast<double>(query.shape().dim(-1))));
    Value scores = ir::DotGeneral(
        query, key,
        {.lhs_contracting = {3}, .rhs_contracting = {3}, .lhs_batch = {0, 2}, .rhs_batch = {0, 2}});
    if (!mask.valid()) return ir::Softmax(scores);
    const DType dtype = scores.dtype();
    scores = Wide(scores);
    scores =
        ir::Convert(ir::Softmax(ir::Select(mask, scores, ir::SplatLike(scores, kMasked))), dtype);
    // Keras's two implementations differ for fully masked queries.
    const bool zeros = options_.dropout > 0 || options_.return_attention_scores;
    return zeros ? ir::Select(mask, scores, ir::SplatLike(scores, 0)) : scores;
  }

  // [batch, queries, heads, dim].
  static Value Combine(Value scores, Value value) {
    const Value y = ir::DotGeneral(
        scores, value,
        {.lhs_contracting = {3}, .rhs_contracting = {1}, .lhs_batch = {0, 1}, .rhs_batch = {0, 2}});
    return ir::Transpose(y, {0, 2, 1, 3});
  }

  // Keras's option, accepted in JSON: values other than the default are rejected.
  Dims attention_axes_;
};

}  // namespace

Layer Attention(const AttentionOptions& options, SourceLocation location) {
  return internal::MakeLayer<AttentionLayer<AttentionOptions>>(options, location);
}
Layer AdditiveAttention(const AdditiveAttentionOptions& options, SourceLocation location) {
  return internal::MakeLayer<AttentionLayer<AdditiveAttentionOptions>>(options, location);
}
Layer MultiHeadAttention(const MultiHeadAttentionOptions& options, SourceLocation location) {
  return internal::MakeLayer<MultiHeadLayer<MultiHeadAttentionOptions>>(options, location);
}
Layer GroupQueryAttention(const GroupQueryAttentionOptions& options, SourceLocation location) {
  return internal::MakeLayer<MultiHeadLayer<GroupQueryAttentionOptions>>(options, location);
}

absl::Span<const internal::LayerRow> internal::AttentionLayers() {
  static constexpr LayerRow kRows[] = {
      {"Attention", MakeDefault<AttentionLayer<AttentionOptions>>},
      {"AdditiveAttention", MakeDefault<AttentionLayer<AdditiveAttentionOptions>>},
      {"MultiHeadAttention", MakeDefault<MultiHeadLayer<MultiHeadAttentionOptions>>},
      {"GroupedQueryAttention", MakeDefault<MultiHeadLayer<GroupQueryAttentionOptions>>},
  };
  return kRows;
}

}  // namespace penstock::nn
