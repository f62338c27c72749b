// Layers for sequences: embedding, attention, recurrent layers and what wraps them. Included by
// layers.h. Sequences are [batch, steps, features].
//
// Which steps of a sequence are real goes along as its mask (CallContext::input_mask). What Keras
// is given at a call is an option here: whether attention is causal, whether it returns its scores.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "penstock/nn/layer.h"

namespace penstock::nn {

using base::SourceLocation;

// ---- Embedding and masking (layers_embedding.cc) ----

// Row i of a table for each integer i of the input: [batch, ...] -> [batch, ..., output_dim].
// Integers of any width; floats are rounded towards zero, under a policy that computes in float32.
// One outside [0, input_dim) gives NaNs (so does Keras on JAX, but that -1 is its last row).
// embeddings: [input_dim, output_dim].
struct EmbeddingOptions {
  int64_t input_dim = 0;
  int64_t output_dim = 0;
  std::string embeddings_initializer = "uniform";
  std::string embeddings_regularizer = "";
  std::string activity_regularizer = "";
  std::string embeddings_constraint = "";
  bool mask_zero = false;  // 0 is padding: the output's mask is where the input is not 0
  std::string name = "";
  std::string dtype = "";
};
Layer Embedding(const EmbeddingOptions& options,
                SourceLocation location = SourceLocation::Current());

// An Embedding that also goes back: features [batch, ..., output_dim] times the table (or, without
// tie_weights, a table of its own) are logits [batch, ..., input_dim]. Keras is told at the call
// with reverse=True; here integers are looked up and floats go back. mask_zero as in Embedding.
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
  std::string embeddings_initializer = "uniform";
  std::string embeddings_regularizer = "";
  std::string activity_regularizer = "";  // of the rows that were looked up
  std::string embeddings_constraint = "";
  bool mask_zero = false;
  std::string reverse_dtype = "";  // in which to go back; empty: as the policy computes
  std::optional<double> logit_soft_cap = std::nullopt;  // logits become cap * tanh(logits / cap)
  std::string name = "";
  std::string dtype = "";
};
Layer ReversibleEmbedding(const ReversibleEmbeddingOptions& options,
                          SourceLocation location = SourceLocation::Current());

// A learned vector for each position of [batch, ..., steps, features], in the shape of the input,
// to be added to it: as KerasHub's. A sequence may be shorter than sequence_length.
//
//   x = Add()({x, PositionEmbedding({.sequence_length = 128})(x)});
//
// embeddings: [sequence_length, features].
struct PositionEmbeddingOptions {
  int64_t sequence_length = 0;
  std::string initializer = "glorot_uniform";
  std::string name = "";
  std::string dtype = "";
};
Layer PositionEmbedding(const PositionEmbeddingOptions& options,
                        SourceLocation location = SourceLocation::Current());

// Masks the steps whose features all are mask_value, and makes them zeros.
struct MaskingOptions {
  double mask_value = 0;
  std::string name = "";
  std::string dtype = "";
};
Layer Masking(const MaskingOptions& options = {},
              SourceLocation location = SourceLocation::Current());

// ---- Attention (layers_attention.cc) ----

// softmax(query key^T) value. Inputs: query [batch, queries, dim], value [batch, steps, any], and
// key [batch, steps, dim], which is the value where it is not given. The value's mask says which
// steps may be looked at; outputs that the query's mask leaves out are zeros.
struct AttentionOptions {
  bool use_scale = false;                // a variable "scale", a number, times the scores
  std::string score_mode = "dot";        // dot; concat: a variable times sum(tanh(query + key))
  double dropout = 0;                    // of the softmax
  bool use_causal_mask = false;          // query i looks at steps up to i
  bool return_attention_scores = false;  // [batch, queries, steps] as second output
  std::string name = "";
  std::string dtype = "";
};
Layer Attention(const AttentionOptions& options = {},
                SourceLocation location = SourceLocation::Current());

// The same with scores sum(scale * tanh(query + key)); scale: [dim] (Bahdanau et al. 2015).
struct AdditiveAttentionOptions {
  bool use_scale = true;
  double dropout = 0;
  bool use_causal_mask = false;
  bool return_attention_scores = false;
  std::string name = "";
  std::string dtype = "";
};
Layer AdditiveAttention(const AdditiveAttentionOptions& options = {},
                        SourceLocation location = SourceLocation::Current());

// num_heads times: query, key and value are projected, attended to with scores over sqrt(key_dim),
// and all heads' results projected together (Vaswani et al. 2017). Inputs: query, value, key (the
// value where it is not given), then, if wanted, a mask of bools or integers, [batch, queries,
// steps] or [batch, heads, queries, steps], false or 0 where a query must not look. A query that
// may look nowhere gets the mean of all values; with dropout or scores returned, zeros (so does
// Keras). Of inputs of more axes, attention goes over all but the first and last; masks want three
// axes.
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
  int64_t sliding_window = 0;              // above 0: only steps nearer than that
  bool use_gate = false;                   // heads' results times sigmoid(a projection of query)
  std::string kernel_initializer = "glorot_uniform";
  std::string bias_initializer = "zeros";
  std::string kernel_regularizer = "";
  std::string bias_regularizer = "";
  std::string activity_regularizer = "";  // of each projection
  std::string kernel_constraint = "";
  std::string bias_constraint = "";
  bool use_causal_mask = false;
  bool return_attention_scores = false;  // [batch, heads, queries, steps] as second output
  std::string name = "";
  std::string dtype = "";
};
Layer MultiHeadAttention(const MultiHeadAttentionOptions& options,
                         SourceLocation location = SourceLocation::Current());

// The same with fewer heads of keys and values than of queries (Ainslie et al. 2023).
struct GroupQueryAttentionOptions {
  int64_t head_dim = 0;
  int64_t num_query_heads = 0;
  int64_t num_key_value_heads = 0;  // divides num_query_heads
  double dropout = 0;
  bool use_bias = true;
  int64_t sliding_window = 0;
  bool use_gate = false;
  std::string kernel_initializer = "glorot_uniform";
  std::string bias_initializer = "zeros";
  std::string kernel_regularizer = "";
  std::string bias_regularizer = "";
  std::string activity_regularizer = "";
  std::string kernel_constraint = "";
  std::string bias_constraint = "";
  bool use_causal_mask = false;
  bool return_attention_scores = false;
  std::string name = "";
  std::string dtype = "";
};
Layer GroupQueryAttention(const GroupQueryAttentionOptions& options,
                          SourceLocation location = SourceLocation::Current());

// ---- Recurrent layers (layers_recurrent.cc) ----
//
// Inputs: the sequence, then, if wanted, the state to start from (zeros otherwise): [batch, units],
// for LSTM two of them. Outputs: the last step's output or, with return_sequences, every step's;
// with return_state, the last state. A masked step leaves the state and the output as they were;
// with zero_output_for_mask its output is zeros.
//
// There is no `stateful`: give the state that return_state returned as an input.

// h = activation(x kernel + bias + h recurrent_kernel).
// simple_rnn_cell/kernel: [features, units], recurrent_kernel: [units, units], bias: [units].
struct SimpleRNNOptions {
  int64_t units = 0;
  std::string activation = "tanh";
  bool use_bias = true;
  std::string kernel_initializer = "glorot_uniform";
  std::string recurrent_initializer = "orthogonal";
  std::string bias_initializer = "zeros";
  std::string kernel_regularizer = "";
  std::string recurrent_regularizer = "";
  std::string bias_regularizer = "";
  std::string activity_regularizer = "";
  std::string kernel_constraint = "";
  std::string recurrent_constraint = "";
  std::string bias_constraint = "";
  double dropout = 0;            // of the inputs; every step drops the same features
  double recurrent_dropout = 0;  // of the state
  bool return_sequences = false;
  bool return_state = false;
  bool go_backwards = false;  // from the last step to the first; outputs come in that order
  bool zero_output_for_mask = false;
  std::string name = "";
  std::string dtype = "";
};
Layer SimpleRNN(const SimpleRNNOptions& options,
                SourceLocation location = SourceLocation::Current());

// Cho et al. 2014; with reset_after the variant that cuDNN has. Gates in the order update, reset,
// candidate. gru_cell/kernel: [features, 3 units], recurrent_kernel: [units, 3 units], bias: [2, 3
// units] (of inputs and of the state), without reset_after [3 units].
struct GRUOptions {
  int64_t units = 0;
  std::string activation = "tanh";
  std::string recurrent_activation = "sigmoid";
  bool use_bias = true;
  std::string kernel_initializer = "glorot_uniform";
  std::string recurrent_initializer = "orthogonal";
  std::string bias_initializer = "zeros";
  std::string kernel_regularizer = "";
  std::string recurrent_regularizer = "";
  std::string bias_regularizer = "";
  std::string activity_regularizer = "";
  std::string kernel_constraint = "";
  std::string recurrent_constraint = "";
  std::string bias_constraint = "";
  double dropout = 0;
  double recurrent_dropout = 0;
  bool return_sequences = false;
  bool return_state = false;
  bool go_backwards = false;
  bool reset_after = true;
  bool zero_output_for_mask = false;
  std::string name = "";
  std::string dtype = "";
};
Layer GRU(const GRUOptions& options, SourceLocation location = SourceLocation::Current());

// Hochreiter and Schmidhuber 1997. Gates in the order input, forget, cell, output; the state is h,
// c. lstm_cell/kernel: [features, 4 units], recurrent_kernel: [units, 4 units], bias: [4 units].
struct LSTMOptions {
  int64_t units = 0;
  std::string activation = "tanh";
  std::string recurrent_activation = "sigmoid";
  bool use_bias = true;
  std::string kernel_initializer = "glorot_uniform";
  std::string recurrent_initializer = "orthogonal";
  std::string bias_initializer = "zeros";
  bool unit_forget_bias = true;  // the forget gate's bias begins as ones
  std::string kernel_regularizer = "";
  std::string recurrent_regularizer = "";
  std::string bias_regularizer = "";
  std::string activity_regularizer = "";
  std::string kernel_constraint = "";
  std::string recurrent_constraint = "";
  std::string bias_constraint = "";
  double dropout = 0;
  double recurrent_dropout = 0;
  bool return_sequences = false;
  bool return_state = false;
  bool go_backwards = false;
  bool zero_output_for_mask = false;
  std::string name = "";
  std::string dtype = "";
};
Layer LSTM(const LSTMOptions& options, SourceLocation location = SourceLocation::Current());

// ---- Wrappers (layers_wrappers.cc) ----

// A recurrent layer and the same (or `backward_layer`) from the other end, their outputs merged.
// The states are the forward ones, then the backward ones, in inputs and outputs. Variables are
// "forward_<name>/..." and "backward_<name>/...". As in Keras, with return_sequences masked steps
// are zeros.
//
//   Symbol y = Bidirectional(LSTM({.units = 32}), {.merge_mode = "sum"})(x);
struct BidirectionalOptions {
  std::string merge_mode = "concat";  // sum, mul, ave, concat; none: two outputs
  Layer backward_layer = Layer();     // has the other go_backwards
  std::string name = "";
  std::string dtype = "";
};
Layer Bidirectional(const Layer& layer, const BidirectionalOptions& options = {},
                    SourceLocation location = SourceLocation::Current());

// `layer` for every step of [batch, steps, ...]: one call on [batch * steps, ...]. So batch
// normalisation has the mean of all steps, where Keras has one for each step in turn.
struct TimeDistributedOptions {
  std::string name = "";
  std::string dtype = "";
};
Layer TimeDistributed(const Layer& layer, const TimeDistributedOptions& options = {},
                      SourceLocation location = SourceLocation::Current());

}  // namespace penstock::nn
