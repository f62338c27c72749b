#include "penstock/lazy/nn/transformer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

#include "penstock/lazy/nn/init.h"
#include "penstock/lazy/ops/build.h"
#include "penstock/lazy/record.h"
#include "penstock/lazy/tensor_impl.h"

namespace penstock::lazy::nn {
namespace {

namespace F = functional;

Operand At(const Tensor& x, SourceLocation where) { return Operand(x, where); }
Tensor Plus(const Tensor& a, const Tensor& b, SourceLocation where) {
  return add(At(a, where), At(b, where));
}

// A mask to be added to scores: -infinity where a bool mask is true.
Tensor Additive(const Tensor& mask, DType dtype, SourceLocation where) {
  if (!mask.defined() || mask.dtype() != DType::kBool) return mask;
  return Record("attention_mask", {mask}, where, [dtype](const ir::Values& in) {
    ir::Graph& graph = *in[0].graph();
    return ir::Select(
        in[0], lazy::internal::ScalarValue(graph, dtype, -std::numeric_limits<double>::infinity()),
        lazy::internal::ScalarValue(graph, dtype, 0));
  });
}

// [N, T, E] to [N, heads, T, E / heads].
Tensor Heads(const Tensor& x, int64_t heads, SourceLocation where) {
  const Tensor split = reshape(x, {x.size(0), x.size(1), heads, x.size(2) / heads}, where);
  return permute(split, {0, 2, 1, 3}, where);
}

Tensor Activate(const Tensor& x, const std::string& activation, SourceLocation where) {
  if (activation == "relu") return relu(x, where);
  if (activation == "gelu") return F::gelu(x, "none", where);
  return FailOp("transformer", {x},
                absl::StrCat("activation must be \"relu\" or \"gelu\", got \"", activation, "\""),
                where);
}

// Gives `copy` the parameters and the mode of `module`.
void CopyState(const Module& module, Module& copy) {
  const NamedTensors from = module.named_parameters(), to = copy.named_parameters();
  for (size_t i = 0; i < from.size() && i < to.size(); ++i) {
    const Tensor& source = from[i].second;
    Tensor target = to[i].second;
    if (source.impl()->data != nullptr) {
      internal::SetContents(target, source);
    } else {  // recorded, not computed yet
      const no_grad guard;
      target.copy_(source);
    }
    target.requires_grad_(source.requires_grad());
  }
  copy.train(module.is_training());
}

// Whether the mask is given and is neither bool nor floating point, or has none of the shapes.
bool IsWrongMask(const Tensor& mask, const std::vector<Shape>& shapes) {
  if (!mask.defined()) return false;
  if (mask.dtype() != DType::kBool && !base::IsFloat(mask.dtype())) return true;
  return std::find(shapes.begin(), shapes.end(), mask.sizes()) == shapes.end();
}

}  // namespace

// ---- MultiheadAttention ----

MultiheadAttentionImpl::MultiheadAttentionImpl(int64_t embed_dim, int64_t num_heads,
                                               const MultiheadAttentionOptions& options)
    : embed_dim_(embed_dim), num_heads_(num_heads), options_(options) {
  if (embed_dim <= 0 || num_heads <= 0 || embed_dim % num_heads != 0) {
    FailThread(absl::InvalidArgumentError(
        absl::StrCat("MultiheadAttention: embed_dim (", embed_dim,
                     ") must be above 0 and divisible by num_heads (", num_heads, ")")));
    return;
  }
  const double bound = std::sqrt(6.0 / static_cast<double>(4 * embed_dim));  // xavier_uniform_
  in_proj_weight = register_parameter(
      "in_proj_weight",
      MakeParameter(internal::UniformValues({3 * embed_dim, embed_dim}, -bound, bound)));
  if (options.bias) {
    in_proj_bias = register_parameter("in_proj_bias",
                                      MakeParameter(Array::Zeros(DType::kF32, {3 * embed_dim})));
  }
  out_proj = register_module("out_proj", Linear(embed_dim, embed_dim, {.bias = options.bias}));
  if (options.bias) init::zeros_(out_proj->bias);
}

bool MultiheadAttentionImpl::CheckInputs(const Tensors& inputs, SourceLocation where) const {
  if (!out_proj) {
    FailOp("multihead_attention", {},
           absl::StrCat("the module was made with invalid options: embed_dim ", embed_dim_,
                        ", num_heads ", num_heads_),
           where);
    return false;
  }
  for (const Tensor& x : inputs) {
    if (x.defined() && x.dim() == 3 && x.size(2) == embed_dim_) continue;
    FailOp("multihead_attention", inputs,
           absl::StrCat("expects query, key and value of 3 dims, the last of size ", embed_dim_),
           where);
    return false;
  }
  return true;
}

// [N or 1, heads or 1, L or 1, S], to be added to the scores; undefined: none.
Tensor MultiheadAttentionImpl::MaskOf(const AttentionCallOptions& options, const Tensor& query,
                                      const Tensor& key, SourceLocation where) const {
  const int64_t batch = query.size(0), length = query.size(1), keys = key.size(1);
  Tensor mask = Additive(options.attn_mask, query.dtype(), where);
  if (mask.defined()) {
    if (mask.numel() == length * keys) {
      mask = reshape(mask, {1, 1, length, keys}, where);
    } else {
      mask = reshape(mask, {batch, num_heads_, length, keys}, where);
    }
  }
  const Tensor padding = Additive(options.key_padding_mask, query.dtype(), where);
  if (!padding.defined()) return mask;
  const Tensor wide = reshape(padding, {batch, 1, 1, keys}, where);
  return mask.defined() ? Plus(mask, wide, where) : wide;
}

AttentionOutput MultiheadAttentionImpl::forward(const Tensor& query, const Tensor& key,
                                                const Tensor& value,
                                                const AttentionCallOptions& options,
                                                SourceLocation where) {
  if (!CheckInputs({query, key, value}, where)) return {};
  const auto to_batch_first = [&](const Tensor& x) {
    return options_.batch_first ? x : transpose(x, 0, 1, where);
  };
  const Tensors inputs{to_batch_first(query), to_batch_first(key), to_batch_first(value)};
  const int64_t batch = inputs[0].size(0), length = inputs[0].size(1), keys = inputs[1].size(1);
  if (IsWrongMask(options.attn_mask, {{length, keys}, {batch * num_heads_, length, keys}}) ||
      IsWrongMask(options.key_padding_mask, {{batch, keys}})) {
    FailOp("multihead_attention", inputs,
           absl::StrCat("masks must be bool or floating point: attn_mask [", length, ", ", keys,
                        "] or [", batch * num_heads_, ", ", length, ", ", keys,
                        "], key_padding_mask [", batch, ", ", keys, "]"),
           where);
    return {};
  }
  Tensors projected;
  for (int64_t i = 0; i < 3; ++i) {
    const Tensor weight = narrow(in_proj_weight, 0, i * embed_dim_, embed_dim_, where);
    const Tensor bias = in_proj_bias.defined()
                            ? narrow(in_proj_bias, 0, i * embed_dim_, embed_dim_, where)
                            : Tensor();
    projected.push_back(Heads(F::linear(inputs[i], weight, bias, where), num_heads_, where));
  }
  const Tensor mask = MaskOf(options, inputs[0], inputs[1], where);
  Tensor weights, attended;
  if (options.need_weights) {
    const double scale = 1 / std::sqrt(static_cast<double>(embed_dim_ / num_heads_));
    Tensor scores = matmul(mul(At(projected[0], where), Operand(scale, where)),
                           transpose(projected[1], 2, 3, where), where);
    if (mask.defined()) scores = Plus(scores, mask, where);
    weights = softmax(scores, -1, {}, where);
    if (options_.dropout > 0) weights = F::dropout(weights, options_.dropout, is_training(), where);
    attended = matmul(weights, projected[2], where);
  } else {  // where the rows of a sequence that is all padding are 0 instead of NaN
    attended = F::scaled_dot_product_attention(
        projected[0], projected[1], projected[2],
        {.attn_mask = mask, .dropout_p = is_training() ? options_.dropout : 0}, where);
  }
  const Tensor heads = permute(attended, {0, 2, 1, 3}, where);
  AttentionOutput out;
  out.output = out_proj(flatten(heads, 2, -1, where), where);
  if (!options_.batch_first) out.output = transpose(out.output, 0, 1, where);
  if (options.need_weights) {
    out.weights = options.average_attn_weights ? mean(weights, 1, false, where) : weights;
  }
  return out;
}

// ---- Encoder ----

TransformerEncoderLayerImpl::TransformerEncoderLayerImpl(int64_t d_model, int64_t nhead,
                                                         const TransformerLayerOptions& options)
    : d_model_(d_model), nhead_(nhead), options_(options) {
  self_attn_ = register_module(
      "self_attn",
      MultiheadAttention(d_model, nhead,
                         {.dropout = options.dropout, .batch_first = options.batch_first}));
  linear1_ = register_module("linear1", Linear(d_model, options.dim_feedforward));
  linear2_ = register_module("linear2", Linear(options.dim_feedforward, d_model));
  const LayerNormOptions norm{.eps = options.layer_norm_eps};
  norm1_ = register_module("norm1", LayerNorm(d_model, norm));
  norm2_ = register_module("norm2", LayerNorm(d_model, norm));
}

std::shared_ptr<TransformerEncoderLayerImpl> TransformerEncoderLayerImpl::Clone() const {
  auto copy = std::make_shared<TransformerEncoderLayerImpl>(d_model_, nhead_, options_);
  CopyState(*this, *copy);
  return copy;
}

Tensor TransformerEncoderLayerImpl::forward(const Tensor& src, const Tensor& src_mask,
                                            const Tensor& src_key_padding_mask,
                                            SourceLocation where) {
  const auto drop = [&](const Tensor& x) {
    return F::dropout(x, options_.dropout, is_training(), where);
  };
  const auto attend = [&](const Tensor& x) {
    return drop(self_attn_(x, x, x,
                           {.key_padding_mask = src_key_padding_mask,
                            .need_weights = false,
                            .attn_mask = src_mask},
                           where)
                    .output);
  };
  const auto feed = [&](const Tensor& x) {
    return drop(linear2_(drop(Activate(linear1_(x, where), options_.activation, where)), where));
  };
  if (options_.norm_first) {
    const Tensor x = Plus(src, attend(norm1_(src, where)), where);
    return Plus(x, feed(norm2_(x, where)), where);
  }
  const Tensor x = norm1_(Plus(src, attend(src), where), where);
  return norm2_(Plus(x, feed(x), where), where);
}

TransformerEncoderImpl::TransformerEncoderImpl(const TransformerEncoderLayer& layer,
                                               int64_t num_layers, const LayerNorm& norm)
    : norm_(norm) {
  ModuleList list;
  for (int64_t i = 0; i < num_layers; ++i) {
    layers_.push_back(layer->Clone());
    list->push_back(AnyModule(layers_.back()));
  }
  register_module("layers", list);
  if (norm_) register_module("norm", norm_);
}

Tensor TransformerEncoderImpl::forward(const Tensor& src, const Tensor& mask,
                                       const Tensor& src_key_padding_mask, SourceLocation where) {
  Tensor x = src;
  for (const auto& layer : layers_) {
    x = internal::CallForward(*layer, x, mask, src_key_padding_mask, where);
  }
  return norm_ ? norm_(x, where) : x;
}

// ---- Decoder ----

TransformerDecoderLayerImpl::TransformerDecoderLayerImpl(int64_t d_model, int64_t nhead,
                                                         const TransformerLayerOptions& options)
    : d_model_(d_model), nhead_(nhead), options_(options) {
  const MultiheadAttentionOptions attention{.dropout = options.dropout,
                                            .batch_first = options.batch_first};
  self_attn_ = register_module("self_attn", MultiheadAttention(d_model, nhead, attention));
  multihead_attn_ =
      register_module("multihead_attn", MultiheadAttention(d_model, nhead, attention));
  linear1_ = register_module("linear1", Linear(d_model, options.dim_feedforward));
  linear2_ = register_module("linear2", Linear(options.dim_feedforward, d_model));
  const LayerNormOptions norm{.eps = options.layer_norm_eps};
  norm1_ = register_module("norm1", LayerNorm(d_model, norm));
  norm2_ = register_module("norm2", LayerNorm(d_model, norm));
  norm3_ = register_module("norm3", LayerNorm(d_model, norm));
}

std::shared_ptr<TransformerDecoderLayerImpl> TransformerDecoderLayerImpl::Clone() const {
  auto copy = std::make_shared<TransformerDecoderLayerImpl>(d_model_, nhead_, options_);
  CopyState(*this, *copy);
  return copy;
}

Tensor TransformerDecoderLayerImpl::forward(const Tensor& tgt, const Tensor& memory,
                                            const DecoderMasks& masks, SourceLocation where) {
  const auto drop = [&](const Tensor& x) {
    return F::dropout(x, options_.dropout, is_training(), where);
  };
  const auto attend_self = [&](const Tensor& x) {
    return drop(self_attn_(x, x, x,
                           {.key_padding_mask = masks.tgt_key_padding_mask,
                            .need_weights = false,
                            .attn_mask = masks.tgt_mask},
                           where)
                    .output);
  };
  const auto attend_memory = [&](const Tensor& x) {
    return drop(multihead_attn_(x, memory, memory,
                                {.key_padding_mask = masks.memory_key_padding_mask,
                                 .need_weights = false,
                                 .attn_mask = masks.memory_mask},
                                where)
                    .output);
  };
  const auto feed = [&](const Tensor& x) {
    return drop(linear2_(drop(Activate(linear1_(x, where), options_.activation, where)), where));
  };
  Tensor x = tgt;
  if (options_.norm_first) {
    x = Plus(x, attend_self(norm1_(x, where)), where);
    x = Plus(x, attend_memory(norm2_(x, where)), where);
    return Plus(x, feed(norm3_(x, where)), where);
  }
  x = norm1_(Plus(x, attend_self(x), where), where);
  x = norm2_(Plus(x, attend_memory(x), where), where);
  return norm3_(Plus(x, feed(x), where), where);
}

TransformerDecoderImpl::TransformerDecoderImpl(const TransformerDecoderLayer& layer,
                                               int64_t num_layers, const LayerNorm& norm)
    : norm_(norm) {
  ModuleList list;
  for (int64_t i = 0; i < num_layers; ++i) {
    layers_.push_back(layer->Clone());
    list->push_back(AnyModule(layers_.back()));
  }
  register_module("layers", list);
  if (norm_) register_module("norm", norm_);
}

Tensor TransformerDecoderImpl::forward(const Tensor& tgt, const Tensor& memory,
                                       const DecoderMasks& masks, SourceLocation where) {
  Tensor x = tgt;
  for (const auto& layer : layers_) x = internal::CallForward(*layer, x, memory, masks, where);
  return norm_ ? norm_(x, where) : x;
}

// ---- Transformer ----

TransformerImpl::TransformerImpl(int64_t d_model, int64_t nhead,
                                 const TransformerOptions& options) {
  const TransformerLayerOptions layer{.dim_feedforward = options.dim_feedforward,
                                      .dropout = options.dropout,
                                      .activation = options.activation,
                                      .layer_norm_eps = options.layer_norm_eps,
                                      .batch_first = options.batch_first,
                                      .norm_first = options.norm_first};
  const LayerNormOptions norm{.eps = options.layer_norm_eps};
  encoder_ = register_module(
      "encoder", TransformerEncoder(TransformerEncoderLayer(d_model, nhead, layer),
                                    options.num_encoder_layers, LayerNorm(d_model, norm)));
  decoder_ = register_module(
      "decoder", TransformerDecoder(TransformerDecoderLayer(d_model, nhead, layer),
                                    options.num_decoder_layers, LayerNorm(d_model, norm)));
  for (const Tensor& x : parameters()) {
    if (x.dim() > 1) init::xavier_uniform_(x);
  }
}

Tensor TransformerImpl::forward(const Tensor& src, const Tensor& tgt, const TransformerMasks& masks,
                                SourceLocation where) {
  const Tensor memory = encoder_(src, masks.src_mask, masks.src_key_padding_mask, where);
  return decoder_(tgt, memory,
                  DecoderMasks{.tgt_mask = masks.tgt_mask,
                               .memory_mask = masks.memory_mask,
                               .tgt_key_padding_mask = masks.tgt_key_padding_mask,
                               .memory_key_padding_mask = masks.memory_key_padding_mask},
                  where);
}

Tensor TransformerImpl::generate_square_subsequent_mask(int64_t size, const Device& device) {
  return triu(full({size, size}, -std::numeric_limits<double>::infinity(), {.device = device}), 1);
}

}  // namespace penstock::lazy::nn
