// Sequence layers: embedding, attention, recurrent layers and their wrappers. Included by layers.h.
// Sequences are [batch, steps, features].
//
// The mask of a sequence (CallContext::input_mask) marks its real steps. Arguments of
// a call in Keras are options here: whether attention is causal, whether it returns its scores.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "penstock/nn/layer.h"
#include "penstock/nn/typed_options.h"

namespace penstock::nn {

using base::SourceLocation;

// ---- Embedding and masking (layers/embedding.cc) ----

// Lookup of row i of a table for each integer i of the input: [batch, ...] -> [batch, ...,
// output_dim]. Accepts integers of any width; floats are truncated toward zero, under a policy that
// computes in float32. An index outside [0, input_dim) gives NaNs (as in Keras on JAX, except that
// -1 is its last row). embeddings: [input_dim, output_dim].
struct EmbeddingOptions {
  int64_t input_dim = 0;
  int64_t output_dim = 0;
  Initializer embeddings_initializer = "uniform";
  Regularizer embeddings_regularizer = "";
  Regularizer activity_regularizer = "";
  Constraint embeddings_constraint = "";
  bool mask_zero = false;  // 0 is padding: masks the steps where the input is 0
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer Embedding(const EmbeddingOptions& options,
                SourceLocation location = SourceLocation::Current());

// An Embedding with a reverse projection: features [batch, ..., output_dim] times the transposed
// table (or, without tie_weights, a separate table) are logits [batch, ..., input_dim]. Keras
// selects it at the call with reverse=True; here, integer inputs are looked up and float inputs are
// projected. mask_zero as in Embedding.
//
//   nn::Layer tokens = nn::ReversibleEmbedding({.input_dim = 256, .output_dim = 64});
//   nn::Symbol logits = tokens(decoder(tokens(ids)));
//
// embeddings: [input_dim, output_dim]; without tie_weights reverse_embeddings: [output_dim,
// input_dim].
struct ReversibleEmbeddingOptions {
  int64_t input_dim = 0;
  int64_t output_dim = 0;
  bool tie_weights = true;
  Initializer embeddings_initializer = "uniform";
  Regularizer embeddings_regularizer = "";
  Regularizer activity_regularizer = "";  // of the looked-up rows
  Constraint embeddings_constraint = "";
  bool mask_zero = false;
  ElementType reverse_dtype =
      "";  // type of the reverse projection; empty: the policy's compute type
  std::optional<double> logit_soft_cap = std::nullopt;  // logits become cap * tanh(logits / cap)
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer ReversibleEmbedding(const ReversibleEmbeddingOptions& options,
                          SourceLocation location = SourceLocation::Current());

// Learned position embedding of [batch, ..., steps, features], in the shape of the input, to be
// added to it; as KerasHub's. A sequence may be shorter than sequence_length.
//
//   x = Add()({x, PositionEmbedding({.sequence_length = 128})(x)});
//
// embeddings: [sequence_length, features].
struct PositionEmbeddingOptions {
  int64_t sequence_length = 0;
  Initializer initializer = "glorot_uniform";
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer PositionEmbedding(const PositionEmbeddingOptions& options,
                        SourceLocation location = SourceLocation::Current());

// Masks the steps whose features all equal mask_value, and sets them to zero.
struct MaskingOptions {
  double mask_value = 0;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer Masking(const MaskingOptions& options = {},
              SourceLocation location = SourceLocation::Current());

// ---- Attention (layers/attention.cc) ----

// Dot-product attention, softmax(query key^T) value. Inputs: query [batch, queries, dim], value
// [batch, steps, any], and optionally key [batch, steps, dim] (default: value). The value's mask
// selects the steps to attend to; outputs that the query's mask excludes are zeros.
struct AttentionOptions {
  bool use_scale = false;        // scores are multiplied by a learned scalar "scale"
  ScoreMode score_mode = "dot";  // dot; concat: a learned scalar times sum(tanh(query + key))
  double dropout = 0;            // of the softmax
  bool use_causal_mask = false;  // query i attends to steps up to i
  bool return_attention_scores = false;  // [batch, queries, steps] as second output
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer Attention(const AttentionOptions& options = {},
                SourceLocation location = SourceLocation::Current());

// Additive attention: scores sum(scale * tanh(query + key)); scale: [dim] (Bahdanau et al. 2015).
struct AdditiveAttentionOptions {
  bool use_scale = true;
  double dropout = 0;
  bool use_causal_mask = false;
  bool return_attention_scores = false;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer AdditiveAttention(const AdditiveAttentionOptions& options = {},
                        SourceLocation location = SourceLocation::Current());

// Multi-head attention: for each of num_heads heads, query, key and value are projected, attention
// is computed with scores divided by sqrt(key_dim), and the concatenated results of all heads are
// projected (Vaswani et al. 2017). Inputs: query, value, then optionally key (default: value) and a
// mask of bools or integers, [batch, queries, steps] or [batch, heads, queries, steps], false or 0
// where a query must not attend. A fully masked query gets the mean of all values; with dropout or
// returned scores, zeros (as in Keras). For inputs with more axes, attention is over all but the
// first and last axis; masks require three axes.
//
// query/kernel, key/kernel: [dim, num_heads, key_dim]; value/kernel, gate/kernel: [dim, num_heads,
// value_dim]; attention_output/kernel: [num_heads, value_dim, output_shape...]; biases likewise.
struct MultiHeadAttentionOptions {
  int64_t num_heads = 0;
  int64_t key_dim = 0;
  int64_t value_dim = 0;  // 0: key_dim
  double dropout = 0;
  bool use_bias = true;
  std::vector<int64_t> output_shape = {};  // empty: the query's features
  int64_t sliding_window = 0;              // above 0: only steps closer than this
  bool use_gate = false;  // multiply heads' results by sigmoid(projection of query)
  Initializer kernel_initializer = "glorot_uniform";
  Initializer bias_initializer = "zeros";
  Regularizer kernel_regularizer = "";
  Regularizer bias_regularizer = "";
  Regularizer activity_regularizer = "";  // of each projection
  Constraint kernel_constraint = "";
  Constraint bias_constraint = "";
  bool use_causal_mask = false;
  bool return_attention_scores = false;  // [batch, heads, queries, steps] as second output
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer MultiHeadAttention(const MultiHeadAttentionOptions& options,
                         SourceLocation location = SourceLocation::Current());

// The same with fewer heads of keys and values than of queries (grouped-query attention; Ainslie et
// al. 2023).
struct GroupQueryAttentionOptions {
  int64_t head_dim = 0;
  int64_t num_query_heads = 0;
  int64_t num_key_value_heads = 0;  // divides num_query_heads
  double dropout = 0;
  bool use_bias = true;
  int64_t sliding_window = 0;
  bool use_gate = false;
  Initializer kernel_initializer = "glorot_uniform";
  Initializer bias_initializer = "zeros";
  Regularizer kernel_regularizer = "";
  Regularizer bias_regularizer = "";
  Regularizer activity_regularizer = "";
  Constraint kernel_constraint = "";
  Constraint bias_constraint = "";
  bool use_causal_mask = false;
  bool return_attention_scores = false;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer GroupQueryAttention(const GroupQueryAttentionOptions& options,
                          SourceLocation location = SourceLocation::Current());

// ---- Recurrent layers (layers/recurrent.cc) ----
//
// Inputs: the sequence, then optionally the initial state (default: zeros): [batch, units], for
// LSTM two of them. Outputs: the last step's output or, with return_sequences, every step's; with
// return_state, also the final state. A masked step leaves the state and the output unchanged; with
// zero_output_for_mask its output is zeros.
//
// There is no `stateful`: pass the state returned by return_state as an input.

// h = activation(x kernel + bias + h recurrent_kernel).
// simple_rnn_cell/kernel: [features, units], recurrent_kernel: [units, units], bias: [units].
struct SimpleRNNOptions {
  int64_t units = 0;
  ActivationFunction activation = "tanh";
  bool use_bias = true;
  Initializer kernel_initializer = "glorot_uniform";
  Initializer recurrent_initializer = "orthogonal";
  Initializer bias_initializer = "zeros";
  Regularizer kernel_regularizer = "";
  Regularizer recurrent_regularizer = "";
  Regularizer bias_regularizer = "";
  Regularizer activity_regularizer = "";
  Constraint kernel_constraint = "";
  Constraint recurrent_constraint = "";
  Constraint bias_constraint = "";
  double dropout = 0;            // of the inputs; the same features in every step
  double recurrent_dropout = 0;  // of the state
  bool return_sequences = false;
  bool return_state = false;
  bool go_backwards = false;  // from the last step to the first; outputs are in that order
  bool zero_output_for_mask = false;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer SimpleRNN(const SimpleRNNOptions& options,
                SourceLocation location = SourceLocation::Current());

// Gated recurrent unit (Cho et al. 2014); reset_after selects the variant that cuDNN implements.
// Gates in the order update, reset, candidate. gru_cell/kernel: [features, 3 units],
// recurrent_kernel: [units, 3 units], bias: [2, 3 units] (of inputs and of the state), without
// reset_after [3 units].
struct GRUOptions {
  int64_t units = 0;
  ActivationFunction activation = "tanh";
  ActivationFunction recurrent_activation = "sigmoid";
  bool use_bias = true;
  Initializer kernel_initializer = "glorot_uniform";
  Initializer recurrent_initializer = "orthogonal";
  Initializer bias_initializer = "zeros";
  Regularizer kernel_regularizer = "";
  Regularizer recurrent_regularizer = "";
  Regularizer bias_regularizer = "";
  Regularizer activity_regularizer = "";
  Constraint kernel_constraint = "";
  Constraint recurrent_constraint = "";
  Constraint bias_constraint = "";
  double dropout = 0;
  double recurrent_dropout = 0;
  bool return_sequences = false;
  bool return_state = false;
  bool go_backwards = false;
  bool reset_after = true;
  bool zero_output_for_mask = false;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer GRU(const GRUOptions& options, SourceLocation location = SourceLocation::Current());

// Long short-term memory (Hochreiter and Schmidhuber 1997). Gates in the order input, forget, cell,
// output; the state is h, c. lstm_cell/kernel: [features, 4 units], recurrent_kernel: [units, 4
// units], bias: [4 units].
struct LSTMOptions {
  int64_t units = 0;
  ActivationFunction activation = "tanh";
  ActivationFunction recurrent_activation = "sigmoid";
  bool use_bias = true;
  Initializer kernel_initializer = "glorot_uniform";
  Initializer recurrent_initializer = "orthogonal";
  Initializer bias_initializer = "zeros";
  bool unit_forget_bias = true;  // initialize the forget gate's bias to ones
  Regularizer kernel_regularizer = "";
  Regularizer recurrent_regularizer = "";
  Regularizer bias_regularizer = "";
  Regularizer activity_regularizer = "";
  Constraint kernel_constraint = "";
  Constraint recurrent_constraint = "";
  Constraint bias_constraint = "";
  double dropout = 0;
  double recurrent_dropout = 0;
  bool return_sequences = false;
  bool return_state = false;
  bool go_backwards = false;
  bool zero_output_for_mask = false;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer LSTM(const LSTMOptions& options, SourceLocation location = SourceLocation::Current());

// ---- Wrappers (layers/wrappers.cc) ----

// A recurrent layer in both directions: `layer` forward and a copy of it (or `backward_layer`) from
// the last step to the first, with merged outputs. The states are the forward ones, then the
// backward ones, in inputs and outputs. Variables are "forward_<name>/..." and
// "backward_<name>/...". As in Keras, with return_sequences masked steps are zeros.
//
//   Symbol y = Bidirectional(LSTM({.units = 32}), {.merge_mode = "sum"})(x);
struct BidirectionalOptions {
  MergeMode merge_mode = "concat";  // sum, mul, ave, concat; none: two outputs
  Layer backward_layer = Layer();   // must have the opposite go_backwards
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer Bidirectional(const Layer& layer, const BidirectionalOptions& options = {},
                    SourceLocation location = SourceLocation::Current());

// Applies `layer` to every step of [batch, steps, ...] by one call on [batch * steps, ...]. So
// batch normalization uses the mean over all steps, where Keras uses that of each step in turn.
struct TimeDistributedOptions {
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer TimeDistributed(const Layer& layer, const TimeDistributedOptions& options = {},
                      SourceLocation location = SourceLocation::Current());

}  // namespace penstock::nn
