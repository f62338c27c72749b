// RNN, LSTM, GRU: loops over the steps of sequences.
//
//   nn::LSTM lstm(32, 64, {.num_layers = 2, .batch_first = true, .bidirectional = true});
//   auto [y, h, c] = lstm(x);          // x [N, T, 32]; y [N, T, 128]; h, c [2 * 2, N, 64]
//
// weight_ih_l0 [gates * hidden, in], weight_hh_l0, bias_ih_l0, bias_hh_l0, ..._l1, ..._l0_reverse;
// uniform within +-1 / sqrt(hidden). Order of gates: input, forget, cell, output (LSTM); reset,
// update, new (GRU).
#pragma once

#include <string>

#include "penstock/lazy/nn/module.h"

namespace penstock::lazy::nn {

struct RecurrentOptions {
  int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;
  double dropout = 0;  // of the outputs of all layers but the last
  bool bidirectional = false;
};
struct RecurrentOutput {
  Tensor output;    // [T, N, directions * hidden], or [N, T, ...] with batch_first
  Tensor h_n, c_n;  // [directions * layers, N, hidden]; c_n of an LSTM only
};

class RecurrentImpl : public Module {
 public:
  enum class Cell { kTanh, kRelu, kLstm, kGru };
  RecurrentImpl(Cell cell, int64_t input_size, int64_t hidden_size,
                const RecurrentOptions& options);
  // x [T, N, in] ([N, T, in] with batch_first), or [T, in] without a batch. States are zeros by
  // default.
  RecurrentOutput forward(const Tensor& x, SourceLocation where = SourceLocation::Current()) {
    return forward(x, Tensor(), Tensor(), where);
  }
  RecurrentOutput forward(const Tensor& x, const Tensor& h0, const Tensor& c0 = {},
                          SourceLocation where = SourceLocation::Current());

 private:
  struct Weights {
    Tensor ih, hh, bias_ih, bias_hh;
  };
  int64_t num_states() const { return cell_ == Cell::kLstm ? 2 : 1; }
  bool CheckInputs(const Tensor& x, const Tensor& h0, const Tensor& c0, SourceLocation where) const;
  Tensors RunLayer(const Weights& weights, const Tensor& x, const Tensors& states, bool reverse,
                   SourceLocation where) const;

  const Cell cell_;
  const int64_t input_size_, hidden_size_;
  const RecurrentOptions options_;
  std::vector<Weights> weights_;  // [layer * directions + direction]
};

class RNN : public ModuleHolder<RecurrentImpl> {
 public:
  using ModuleHolder::ModuleHolder;
  RNN(int64_t input_size, int64_t hidden_size, const RecurrentOptions& options = {},
      const std::string& nonlinearity = "tanh");
};
class LSTM : public ModuleHolder<RecurrentImpl> {
 public:
  using ModuleHolder::ModuleHolder;
  LSTM(int64_t input_size, int64_t hidden_size, const RecurrentOptions& options = {})
      : ModuleHolder(std::make_shared<RecurrentImpl>(RecurrentImpl::Cell::kLstm, input_size,
                                                     hidden_size, options)) {}
};
class GRU : public ModuleHolder<RecurrentImpl> {
 public:
  using ModuleHolder::ModuleHolder;
  GRU(int64_t input_size, int64_t hidden_size, const RecurrentOptions& options = {})
      : ModuleHolder(std::make_shared<RecurrentImpl>(RecurrentImpl::Cell::kGru, input_size,
                                                     hidden_size, options)) {}
};

}  // namespace penstock::lazy::nn
