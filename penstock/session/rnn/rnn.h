// Recurrent networks: tf.nn.dynamic_rnn and its relatives, with the names and defaults of TensorFlow
// 1.15. The cells are in rnn_cell.h.
//
//   const tf::nn::rnn_cell::RNNCell cell = tf::nn::rnn_cell::BasicLSTMCell(128);
//   auto [outputs, state] = tf::nn::DynamicRnn(cell, x, {.sequence_length = lengths});
//   tf::Tensor logits = tf::layers::Dense(state.h(), 10);
//
// Variables are in the variable scope `scope`: "rnn/basic_lstm_cell/kernel". A second network in the
// same scope makes variables of the same names, which is an error as in TensorFlow: give it another
// scope, or the same cell, or a cell with Reuse::kReuse.
//
// sequence_length: integers [batch], the numbers of steps of the examples. From there on outputs are
// zero, and the state stays the last one. Lengths below 1 leave the initial state, and those above
// the number of steps mean all. The number of steps may be 0, and unknown when the graph is built;
// each one is a program of its own. Gradients flow through inputs, states and variables, in time and
// memory that are linear in the number of steps.
//
// Differences from TensorFlow 1.15: without `dtype` and initial state the type is the inputs';
// inputs are one tensor, not a structure of them; a scope is a name. raw_rnn and
// static_state_saving_rnn are left out.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "penstock/session/graph.h"
#include "penstock/session/rnn/rnn_cell.h"

namespace penstock::session::nn {

// Outputs and the last state. After an error the tensors are invalid.
struct RnnOutput {
  Tensor outputs;
  rnn_cell::State state;
};

struct DynamicRnnOptions {
  Tensor sequence_length = {};
  rnn_cell::State initial_state = {};  // default: zeros
  DType dtype = DType::kInvalid;       // of these zeros; default: the inputs'
  bool time_major = false;             // inputs and outputs are [steps, batch, ...]
  std::string scope = "rnn";
};
// Calls the cell for each step of the inputs, [batch, steps, depth], in one loop on the device.
// outputs: [batch, steps, output_size].
RnnOutput DynamicRnn(const rnn_cell::RNNCell& cell, const Tensor& inputs,
                     const DynamicRnnOptions& options = {},
                     SourceLocation where = SourceLocation::Current());

struct StaticRnnOptions {
  rnn_cell::State initial_state = {};
  DType dtype = DType::kInvalid;
  Tensor sequence_length = {};
  std::string scope = "rnn";
};
struct StaticRnnOutput {
  Tensors outputs;
  rnn_cell::State state;
};
// The same of a list of steps, [batch, depth] each, without a loop: the program is as long as the
// list.
StaticRnnOutput StaticRnn(const rnn_cell::RNNCell& cell, const Tensors& inputs,
                          const StaticRnnOptions& options = {},
                          SourceLocation where = SourceLocation::Current());

struct BidirectionalRnnOptions {
  Tensor sequence_length = {};
  rnn_cell::State initial_state_fw = {}, initial_state_bw = {};
  DType dtype = DType::kInvalid;
  bool time_major = false;
  std::string scope = "bidirectional_rnn";
};
struct BidirectionalRnnOutput {
  Tensors outputs;                      // forward and backward: Concat(outputs, 2)
  std::vector<rnn_cell::State> states;  // the same
};
// One cell runs forward, in "<scope>/fw", the other one from the last step (of each sequence) to the
// first, in "<scope>/bw".
BidirectionalRnnOutput BidirectionalDynamicRnn(const rnn_cell::RNNCell& cell_fw,
                                               const rnn_cell::RNNCell& cell_bw,
                                               const Tensor& inputs,
                                               const BidirectionalRnnOptions& options = {},
                                               SourceLocation where = SourceLocation::Current());

}  // namespace penstock::session::nn
