// Recurrent cells: tf.nn.rnn_cell, with the names, defaults and variables of TensorFlow 1.15.
//
//   namespace rnn_cell = tf::nn::rnn_cell;
//   const rnn_cell::RNNCell cell = rnn_cell::MultiRNNCell(
//       {rnn_cell::DropoutWrapper(rnn_cell::BasicLSTMCell(128), {.output_keep_prob = keep}),
//        rnn_cell::BasicLSTMCell(128)});
//   auto [outputs, state] = tf::nn::DynamicRnn(cell, x, {.sequence_length = lengths});   // rnn.h
//   tf::Tensor logits = tf::layers::Dense(state[-1].h(), 10);
//
// A cell is one step of a recurrent network: (inputs [batch, depth], state) to (output [batch,
// output_size], new state). Its variables are made by GetVariable when it is first called, and used
// by all later calls: "rnn/basic_lstm_cell/kernel". Copies of an RNNCell are the same cell. Another
// cell in the same scope gets "basic_lstm_cell_1"; with a `reuse`, or in a scope with reuse, it
// shares the variables of the first one. A cell may be used in several graphs, and has variables of
// its own in each.
//
//   BasicRNNCell    <scope>/basic_rnn_cell/kernel [depth + units, units], bias [units]
//   BasicLSTMCell   <scope>/basic_lstm_cell/kernel [depth + units, 4 units], bias [4 units]
//   LSTMCell        <scope>/lstm_cell/kernel, bias, w_f_diag, w_i_diag, w_o_diag [units],
//                   projection/kernel [units, num_proj]
//   GRUCell         <scope>/gru_cell/gates/kernel [depth + units, 2 units], gates/bias,
//                   candidate/kernel [depth + units, units], candidate/bias
//   MultiRNNCell    <scope>/multi_rnn_cell/cell_0/..., cell_1/...
//
// The gates of an LSTM are i, j, f, o, in this order; those of a GRU r, u. Kernels are initialized
// by the variable scope's initializer, else glorot_uniform; biases by zeros, gates/bias by ones.
// Variables have the type of the inputs.
//
// Differences from TensorFlow 1.15: state_is_tuple is always true; num_unit_shards, num_proj_shards
// (partitioned variables) and dropout_state_filter_visitor are left out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "penstock/session/graph.h"
#include "penstock/session/layers.h"
#include "penstock/session/ops/operand.h"
#include "penstock/session/variable.h"

namespace penstock::session::nn::rnn_cell {

// A value, or a tuple of such: of tensors, a State; of sizes, a StateSize.
template <typename T>
class Nested {
 public:
  Nested() = default;                                              // a tuple of nothing
  Nested(T value) : value_(std::move(value)), is_tuple_(false) {}  // NOLINT
  Nested(std::vector<Nested> parts) : parts_(std::move(parts)) {}  // NOLINT
  Nested(std::initializer_list<Nested> parts) : parts_(parts) {}   // NOLINT

  bool is_tuple() const { return is_tuple_; }
  // T() of a tuple.
  const T& value() const { return value_; }
  // Parts of a tuple, from the end for negative i; an empty one if there are fewer.
  size_t size() const { return parts_.size(); }
  const Nested& operator[](int i) const {
    static const Nested kNone;
    const int n = static_cast<int>(parts_.size());
    return i < -n || i >= n ? kNone : parts_[static_cast<size_t>(i < 0 ? i + n : i)];
  }
  // Whether LSTMStateTuple made it.
  bool is_lstm() const { return is_lstm_; }
  Nested AsLstm() && {
    is_lstm_ = true;
    return std::move(*this);
  }
  // The parts of an LSTMStateTuple.
  const T& c() const { return (*this)[0].value(); }
  const T& h() const { return (*this)[1].value(); }

  // The values, from the first to the last.
  std::vector<T> Flatten() const {
    if (!is_tuple_) return {value_};
    std::vector<T> all;
    for (const Nested& part : parts_) {
      const std::vector<T> inner = part.Flatten();
      all.insert(all.end(), inner.begin(), inner.end());
    }
    return all;
  }
  // fn(value) in place of each value.
  template <typename F>
  auto Map(F&& fn) const -> Nested<decltype(fn(std::declval<const T&>()))> {
    if (!is_tuple_) return fn(value_);
    std::vector<Nested<decltype(fn(std::declval<const T&>()))>> mapped;
    for (const Nested& part : parts_) mapped.push_back(part.Map(fn));
    return mapped;
  }

 private:
  T value_ = T();
  std::vector<Nested> parts_;
  bool is_tuple_ = true, is_lstm_ = false;
};

// State of a cell: a tensor, LSTMStateTuple(c, h), or one for each cell of a MultiRNNCell.
using State = Nested<Tensor>;
// Its extents besides the batch.
using StateSize = Nested<int64_t>;
inline State LSTMStateTuple(const Tensor& c, const Tensor& h) {
  return State({State(c), State(h)}).AsLstm();
}

// What a step returns.
struct StepOutput {
  Tensor output;
  State state;
};

// What a cell computes. Programs derive from it for cells of their own (TensorFlow's RNNCell):
//
//   class Decay : public rnn_cell::CellDefinition {
//     int64_t output_size() const override { return 3; }
//     rnn_cell::StateSize state_size() const override { return 3; }
//     std::string scope() const override { return "decay"; }
//     rnn_cell::StepOutput Call(const tf::Tensor& inputs, const rnn_cell::State& state,
//                               tf::SourceLocation) override {
//       const tf::Tensor next = state.value() * tf::GetVariable("rate", {3}) + inputs;
//       return {next, next};
//     }
//   };
//   const rnn_cell::RNNCell cell(std::make_shared<Decay>());
class CellDefinition {
 public:
  virtual ~CellDefinition() = default;
  virtual int64_t output_size() const = 0;
  virtual StateSize state_size() const = 0;
  // One step, in the cell's variable scope, which has reuse from the second call on: GetVariable
  // makes the variables in the first one. Invalid tensors after an error.
  virtual StepOutput Call(const Tensor& inputs, const State& state, SourceLocation where) = 0;
  // Name of the variable scope, which gets a number if it is in use; empty: that around the call.
  virtual std::string scope() const = 0;
  virtual Reuse reuse() const { return Reuse::kNone; }
};

// Handle to a cell; cheap to copy. A default-constructed one is invalid.
class RNNCell {
 public:
  RNNCell() = default;
  explicit RNNCell(std::shared_ptr<CellDefinition> definition)
      : definition_(std::move(definition)) {}

  bool valid() const { return definition_ != nullptr; }
  const std::shared_ptr<CellDefinition>& definition() const { return definition_; }
  int64_t output_size() const { return valid() ? definition_->output_size() : 0; }
  StateSize state_size() const { return valid() ? definition_->state_size() : StateSize(); }
  // Zeros [batch_size, size]. batch_size: a number, or an integer scalar that is known when the
  // program is compiled (GetItem(ShapeOf(x), {0})).
  State ZeroState(const Operand& batch_size, DType dtype = DType::kF32,
                  SourceLocation where = SourceLocation::Current()) const;
  // One step. Errors, also of an invalid cell or a state of another structure, are the graph's.
  StepOutput operator()(const Tensor& inputs, const State& state,
                        SourceLocation where = SourceLocation::Current()) const;

 private:
  std::shared_ptr<CellDefinition> definition_;
};

// output = new state = activation([inputs, state] kernel + bias).
struct BasicRNNCellOptions {
  layers::Activation activation = "tanh";
  Reuse reuse = Reuse::kNone;
  std::string name = "";
};
RNNCell BasicRNNCell(int64_t num_units, const BasicRNNCellOptions& options = {});

// i, j, f, o = [inputs, h] kernel + bias; output = new h = act(new c) sigmoid(o), where
// new c = c sigmoid(f + forget_bias) + sigmoid(i) act(j).
struct BasicLSTMCellOptions {
  double forget_bias = 1;
  layers::Activation activation = "tanh";
  Reuse reuse = Reuse::kNone;
  std::string name = "";
};
RNNCell BasicLSTMCell(int64_t num_units, const BasicLSTMCellOptions& options = {});

// The same, with more options. Peepholes: w_f c and w_i c are added within the sigmoids of f and i,
// and w_o new_c within that of o.
struct LSTMCellOptions {
  bool use_peepholes = false;
  std::optional<double> cell_clip = {};  // new c is clipped to [-cell_clip, cell_clip]
  Initializer initializer = nullptr;     // of all but the bias; default: the variable scope's
  std::optional<int64_t> num_proj = {};  // h is projected to as many units, without a bias
  std::optional<double> proj_clip = {};  // the projected h is clipped
  double forget_bias = 1;
  layers::Activation activation = "tanh";
  Reuse reuse = Reuse::kNone;
  std::string name = "";
};
RNNCell LSTMCell(int64_t num_units, const LSTMCellOptions& options = {});

// r, u = sigmoid([inputs, state] gates/kernel + gates/bias); output = new state =
// u state + (1 - u) act([inputs, r state] candidate/kernel + candidate/bias).
struct GRUCellOptions {
  layers::Activation activation = "tanh";
  Reuse reuse = Reuse::kNone;
  Initializer kernel_initializer = nullptr;  // default: the variable scope's
  Initializer bias_initializer = nullptr;    // default: ones for the gates, zeros
  std::string name = "";
};
RNNCell GRUCell(int64_t num_units, const GRUCellOptions& options = {});

// Each cell's output is the next one's input. The state is a tuple of the cells' states.
RNNCell MultiRNNCell(const std::vector<RNNCell>& cells);

// Dropout around a cell: each element is kept with the probability, and divided by it; other ones
// in each step, or with variational_recurrent the same ones in all steps of a Run and in all
// examples. The c of an LSTMStateTuple is never dropped. Probabilities may be placeholders, to be
// fed 1 for evaluation.
struct DropoutWrapperOptions {
  Operand input_keep_prob = 1;
  Operand output_keep_prob = 1;
  Operand state_keep_prob = 1;
  bool variational_recurrent = false;
  std::optional<uint64_t> seed = {};
};
RNNCell DropoutWrapper(const RNNCell& cell, const DropoutWrapperOptions& options = {});

// output = inputs + the cell's output, which have the same size.
RNNCell ResidualWrapper(const RNNCell& cell);

}  // namespace penstock::session::nn::rnn_cell
