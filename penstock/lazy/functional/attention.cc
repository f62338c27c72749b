// Dropout, embedding, attention.
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

#include "penstock/lazy/functional.h"
#include "penstock/lazy/ops/build.h"

namespace penstock::lazy::nn::functional {
namespace {

using ir::SplatLike;
using ir::Value;
using ir::Values;

bool IsProbability(absl::string_view name, const Tensor& x, double p, SourceLocation where) {
  if (p >= 0 && p <= 1) return true;
  FailOp(name, {x}, absl::StrCat("p must be from 0 to 1, got ", p), where);
  return false;
}

// Drops elements, or whole slices of the first `dims` dims; the others are scaled by 1 / (1 - p).
Tensor Drop(absl::string_view name, const Tensor& x, double p, bool training, int64_t dims,
            SourceLocation where) {
  if (!IsProbability(name, x, p, where)) return Tensor();
  if (!training || p == 0) return x;
  return lazy::internal::RandomOp(name, x.device(), {x}, where, [&](Value key, const Values& in) {
    const Value zero = SplatLike(in[0], 0);
    if (p == 1) return in[0] * 0.0;
    std::vector<int64_t> shape(in[0].shape().begin(), in[0].shape().end());
    for (size_t i = static_cast<size_t>(dims); i < shape.size(); ++i) shape[i] = 1;
    const Value kept = ir::RandomBernoulli(key, Shape(shape), 1 - p);
    return ir::Select(kept, in[0] * (1 / (1 - p)), zero);
  });
}

// An x of `unbatched` dims is [C, ...].
Tensor DropChannels(absl::string_view name, const Tensor& x, double p, bool training,
                    int64_t unbatched, SourceLocation where) {
  if (x.defined() && x.dim() < 2) return FailOp(name, {x}, "expects [N, C, ...]", where);
  return Drop(name, x, p, training, x.defined() && x.dim() == unbatched ? 1 : 2, where);
}

// Of a row that is masked wholly it is 0, and so is its gradient (PyTorch since 2.5).
Value SafeSoftmax(Value scores) {
  const Value most = ir::StopGradient(ir::ReduceMax(scores, {-1}, /*keep_dims=*/true));
  const Value minus_infinity = SplatLike(most, -std::numeric_limits<double>::infinity());
  const Value masked = ir::BroadcastTo(ir::Equal(most, minus_infinity), scores.shape());
  const Value weights = ir::Softmax(ir::Select(masked, SplatLike(scores, 0), scores), -1);
  return ir::Select(masked, SplatLike(weights, 0), weights);
}

Value AttentionScores(Value q, Value k, Value mask, bool is_causal) {
  const auto rank = static_cast<int64_t>(q.rank());
  ir::DotDimensions dims{.lhs_contracting = {rank - 1}, .rhs_contracting = {rank - 1}};
  for (int64_t i = 0; i + 2 < rank; ++i) {
    dims.lhs_batch.push_back(i);
    dims.rhs_batch.push_back(i);
  }
  const double scale = 1 / std::sqrt(static_cast<double>(q.shape().dim(-1)));
  // Scaled first: the products of float16 numbers may be too large for it.
  Value scores = ir::DotGeneral(q * scale, k, dims);
  if (!scores.valid()) return scores;
  const Value minus_infinity = lazy::internal::ScalarValue(
      *scores.graph(), scores.dtype(), -std::numeric_limits<double>::infinity());
  if (is_causal) {
    const ir::TensorType type{DType::kI32, {scores.shape().dim(-2), scores.shape().dim(-1)}};
    const Value visible =
        ir::GreaterEqual(ir::Iota(*scores.graph(), type, 0), ir::Iota(*scores.graph(), type, 1));
    scores = ir::Select(visible, scores, minus_infinity);
  }
  if (!mask.valid()) return scores;
  if (mask.dtype() == DType::kBool) return ir::Select(mask, scores, minus_infinity);
  return scores + ir::Convert(mask, scores.dtype());
}

}  // namespace

Tensor dropout(const Tensor& x, double p, bool training, SourceLocation where) {
  return Drop("dropout", x, p, training, x.dim(), where);
}
Tensor dropout1d(const Tensor& x, double p, bool training, SourceLocation where) {
  return DropChannels("dropout1d", x, p, training, 2, where);
}
Tensor dropout2d(const Tensor& x, double p, bool training, SourceLocation where) {
  return DropChannels("dropout2d", x, p, training, 0, where);
}

Tensor dropout3d(const Tensor& x, double p, bool training, SourceLocation where) {
  return DropChannels("dropout3d", x, p, training, 4, where);
}

Tensor gumbel_softmax(const Tensor& logits, double tau, bool hard, int64_t dim,
                      SourceLocation where) {
  constexpr char kName[] = "gumbel_softmax";
  if (!lazy::internal::IsFloatTensor(logits) || !(tau > 0)) {
    return FailOp(kName, {logits}, absl::StrCat("expects floats and a tau above 0, got ", tau),
                  where);
  }
  if (!lazy::internal::ResolveDim(kName, logits, dim, where)) return Tensor();
  // -log(-log(u)), where u is never 0.
  const Tensor noisy = lazy::internal::RandomOp(
      kName, logits.device(), {logits}, where, [&](Value key, const Values& in) {
        const Value u = ir::RandomUniform(key, {DType::kF32, in[0].shape()}, 1e-30, 1);
        const Value noise = -ir::Log(-ir::Log(u));
        return (in[0] + ir::Convert(noise, in[0].dtype())) / tau;
      });
  const Tensor soft = softmax(noisy, dim, {}, where);
  if (!hard || !soft.defined()) return soft;
  return Record(kName, {soft}, where, [&](const Values& in) {
    const bool scalar = in[0].rank() == 0;
    const Value v = scalar ? ir::Reshape(in[0], {1}) : in[0];
    const Value best = ir::ExpandDims(ir::ArgMax(v, dim), dim);
    const Value at = ir::Iota(*v.graph(), {DType::kI32, v.shape()}, dim);
    const Value one_hot = ir::Reshape(ir::Convert(ir::Equal(at, best), v.dtype()), in[0].shape());
    return one_hot - ir::StopGradient(in[0]) + in[0];
  });
}

// Keeps mean and variance of SELU's outputs (Klambauer et al. 2017): dropped elements become
// -alpha scale, then an affine map.
Tensor alpha_dropout(const Tensor& x, double p, bool training, SourceLocation where) {
  if (!IsProbability("alpha_dropout", x, p, where)) return Tensor();
  if (!training || p == 0) return x;
  return lazy::internal::RandomOp(
      "alpha_dropout", x.device(), {x}, where, [&](Value key, const Values& in) {
        if (p == 1) return in[0] * 0.0;
        constexpr double kAlpha = 1.7580993408473766;
        const double a = 1 / std::sqrt((kAlpha * kAlpha * p + 1) * (1 - p));
        const Value kept = ir::RandomBernoulli(key, in[0].shape(), 1 - p);
        return ir::Select(kept, in[0], SplatLike(in[0], -kAlpha)) * a + a * kAlpha * p;
      });
}

Tensor embedding(const Tensor& x, const Tensor& weight, std::optional<int64_t> padding_idx,
                 SourceLocation where) {
  if (!x.defined() || !weight.defined() || !base::IsInteger(x.dtype()) || weight.dim() != 2) {
    return FailOp("embedding", {x, weight},
                  "expects integer indices and weight [num_embeddings, embedding_dim]", where);
  }
  const int64_t rows = weight.size(0);
  if (padding_idx && (*padding_idx < -rows || *padding_idx >= rows)) {
    return FailOp("embedding", {x, weight},
                  absl::StrCat("padding_idx ", *padding_idx, " is not a row of weight"), where);
  }
  return Record("embedding", {x, weight}, where, [&](const Values& in) {
    const Value y = ir::Take(in[1], in[0], 0);
    if (!padding_idx || !y.valid()) return y;
    const double row = static_cast<double>(*padding_idx < 0 ? *padding_idx + rows : *padding_idx);
    const Value padding = ir::ExpandDims(ir::Equal(in[0], SplatLike(in[0], row)), -1);
    return ir::Select(padding, ir::StopGradient(y), y);
  });
}

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options, SourceLocation where) {
  constexpr char kName[] = "scaled_dot_product_attention";
  Tensor q = query, k = key, v = value;
  Tensor* const all[] = {&q, &k, &v};
  lazy::internal::CastAll(kName, all);
  Tensors inputs{q, k};
  if (options.attn_mask.defined()) inputs.push_back(options.attn_mask);
  if (!q.defined() || !k.defined() || q.dim() < 2 || k.dim() != q.dim() ||
      q.size(-1) != k.size(-1)) {
    return FailOp(kName, inputs, "expects query [..., L, E], key [..., S, E], value [..., S, Ev]",
                  where);
  }
  if (options.is_causal && options.attn_mask.defined()) {
    return FailOp(kName, inputs, "attn_mask and is_causal cannot be combined", where);
  }
  // The softmax is computed in float32, as under autocast in PyTorch.
  Tensor weights = Record(kName, inputs, where, [&](const Values& in) {
    const bool has_mask = in.size() > 2;
    const Value scores =
        AttentionScores(in[0], in[1], has_mask ? in[2] : Value(), options.is_causal);
    return has_mask && scores.valid() ? SafeSoftmax(scores) : ir::Softmax(scores, -1);
  });
  if (options.dropout_p > 0) weights = dropout(weights, options.dropout_p, true, where);
  return matmul(weights, v, where);
}

}  // namespace penstock::lazy::nn::functional
