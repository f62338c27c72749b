// Attention and transformers (Vaswani et al.: Attention is all you need, 2017), with PyTorch's
// options, names of parameters, and meaning of masks: in a bool mask, true excludes a position; a
// float mask is added to the scores.
#pragma once

#include <optional>
#include <string>

#include "penstock/lazy/nn/modules.h"

namespace penstock::lazy::nn {

struct MultiheadAttentionOptions {
  double dropout = 0;
  bool bias = true;
  bool batch_first = false;
};
struct AttentionCallOptions {
  Tensor key_padding_mask = {};  // [N, S]
  bool need_weights = true;
  Tensor attn_mask = {};  // [L, S] or [N * heads, L, S]
  bool average_attn_weights = true;
};
struct AttentionOutput {
  Tensor output;
  Tensor weights;  // [N, L, S], or [N, heads, L, S] if not averaged; undefined unless needed
};
inline void CollectTensors(AttentionOutput& made, std::vector<Tensor*>& out) {
  out.insert(out.end(), {&made.output, &made.weights});
}
// in_proj_weight [3 E, E], in_proj_bias [3 E], out_proj.weight, out_proj.bias.
class MultiheadAttentionImpl : public Module {
 public:
  MultiheadAttentionImpl(int64_t embed_dim, int64_t num_heads,
                         const MultiheadAttentionOptions& options = {});
  // query [L, N, E], key and value [S, N, E]; batch_first: [N, L, E].
  AttentionOutput forward(const Tensor& query, const Tensor& key, const Tensor& value,
                          const AttentionCallOptions& options = {},
                          SourceLocation where = SourceLocation::Current());
  Tensor in_proj_weight, in_proj_bias;
  Linear out_proj = nullptr;

 private:
  bool CheckInputs(const Tensors& inputs, SourceLocation where) const;
  Tensor MaskOf(const AttentionCallOptions& options, const Tensor& query, const Tensor& key,
                SourceLocation where) const;

  const int64_t embed_dim_, num_heads_;
  const MultiheadAttentionOptions options_;
};
class MultiheadAttention : public ModuleHolder<MultiheadAttentionImpl> {
 public:
  using ModuleHolder::ModuleHolder;
  MultiheadAttention(int64_t embed_dim, int64_t num_heads,
                     const MultiheadAttentionOptions& options = {})
      : ModuleHolder(std::make_shared<MultiheadAttentionImpl>(embed_dim, num_heads, options)) {}
  AttentionOutput operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                             const AttentionCallOptions& options = {},
                             SourceLocation where = SourceLocation::Current()) const {
    return internal::CallForward(*ptr(), query, key, value, options, where);
  }
};

struct TransformerLayerOptions {
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  std::string activation = "relu";  // or "gelu"
  double layer_norm_eps = 1e-5;
  bool batch_first = false;
  bool norm_first = false;
};

class TransformerEncoderLayerImpl : public Module {
 public:
  TransformerEncoderLayerImpl(int64_t d_model, int64_t nhead,
                              const TransformerLayerOptions& options = {});
  Tensor forward(const Tensor& src, const Tensor& src_mask = {},
                 const Tensor& src_key_padding_mask = {},
                 SourceLocation where = SourceLocation::Current());
  std::shared_ptr<TransformerEncoderLayerImpl> Clone() const;  // with equal parameters

 private:
  const int64_t d_model_, nhead_;
  const TransformerLayerOptions options_;
  MultiheadAttention self_attn_ = nullptr;
  Linear linear1_ = nullptr, linear2_ = nullptr;
  LayerNorm norm1_ = nullptr, norm2_ = nullptr;
};
PENSTOCK_LAZY_MODULE(TransformerEncoderLayer,
                     (int64_t d_model, int64_t nhead, const TransformerLayerOptions& options = {}),
                     (d_model, nhead, options));

// num_layers copies of the layer, then `norm` if it is not empty.
class TransformerEncoderImpl : public Module {
 public:
  TransformerEncoderImpl(const TransformerEncoderLayer& layer, int64_t num_layers,
                         const LayerNorm& norm = nullptr);
  Tensor forward(const Tensor& src, const Tensor& mask = {},
                 const Tensor& src_key_padding_mask = {},
                 SourceLocation where = SourceLocation::Current());

 private:
  std::vector<std::shared_ptr<TransformerEncoderLayerImpl>> layers_;
  LayerNorm norm_;
};
PENSTOCK_LAZY_MODULE(TransformerEncoder,
                     (const TransformerEncoderLayer& layer, int64_t num_layers,
                      const LayerNorm& norm = nullptr),
                     (layer, num_layers, norm));

struct DecoderMasks {
  Tensor tgt_mask = {}, memory_mask = {};
  Tensor tgt_key_padding_mask = {}, memory_key_padding_mask = {};
};
class TransformerDecoderLayerImpl : public Module {
 public:
  TransformerDecoderLayerImpl(int64_t d_model, int64_t nhead,
                              const TransformerLayerOptions& options = {});
  Tensor forward(const Tensor& tgt, const Tensor& memory, const DecoderMasks& masks = {},
                 SourceLocation where = SourceLocation::Current());
  std::shared_ptr<TransformerDecoderLayerImpl> Clone() const;

 private:
  const int64_t d_model_, nhead_;
  const TransformerLayerOptions options_;
  MultiheadAttention self_attn_ = nullptr, multihead_attn_ = nullptr;
  Linear linear1_ = nullptr, linear2_ = nullptr;
  LayerNorm norm1_ = nullptr, norm2_ = nullptr, norm3_ = nullptr;
};
PENSTOCK_LAZY_MODULE(TransformerDecoderLayer,
                     (int64_t d_model, int64_t nhead, const TransformerLayerOptions& options = {}),
                     (d_model, nhead, options));

class TransformerDecoderImpl : public Module {
 public:
  TransformerDecoderImpl(const TransformerDecoderLayer& layer, int64_t num_layers,
                         const LayerNorm& norm = nullptr);
  Tensor forward(const Tensor& tgt, const Tensor& memory, const DecoderMasks& masks = {},
                 SourceLocation where = SourceLocation::Current());

 private:
  std::vector<std::shared_ptr<TransformerDecoderLayerImpl>> layers_;
  LayerNorm norm_;
};
PENSTOCK_LAZY_MODULE(TransformerDecoder,
                     (const TransformerDecoderLayer& layer, int64_t num_layers,
                      const LayerNorm& norm = nullptr),
                     (layer, num_layers, norm));

struct TransformerOptions {
  int64_t num_encoder_layers = 6, num_decoder_layers = 6;
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  std::string activation = "relu";  // or "gelu"
  double layer_norm_eps = 1e-5;
  bool batch_first = false;
  bool norm_first = false;
};
struct TransformerMasks {
  Tensor src_mask = {}, tgt_mask = {}, memory_mask = {};
  Tensor src_key_padding_mask = {}, tgt_key_padding_mask = {}, memory_key_padding_mask = {};
};
// An encoder and a decoder, each with a LayerNorm at its end.
class TransformerImpl : public Module {
 public:
  explicit TransformerImpl(int64_t d_model = 512, int64_t nhead = 8,
                           const TransformerOptions& options = {});
  // src [S, N, E], tgt [T, N, E]; batch_first: [N, S, E], [N, T, E].
  Tensor forward(const Tensor& src, const Tensor& tgt, const TransformerMasks& masks = {},
                 SourceLocation where = SourceLocation::Current());
  // -infinity above the diagonal, else 0: float32 [size, size].
  static Tensor generate_square_subsequent_mask(int64_t size, const Device& device = {});

 private:
  TransformerEncoder encoder_ = nullptr;
  TransformerDecoder decoder_ = nullptr;
};
PENSTOCK_LAZY_MODULE(Transformer,
                     (int64_t d_model = 512, int64_t nhead = 8,
                      const TransformerOptions& options = {}),
                     (d_model, nhead, options));

}  // namespace penstock::lazy::nn
