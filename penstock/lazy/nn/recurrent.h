// RNN, LSTM, GRU: loops over the steps of sequences, and their cells: one step.
//
//   nn::LSTM lstm(32, 64, {.num_layers = 2, .batch_first = true, .bidirectional = true});
//   auto [y, h, c] = lstm(x);          // x [N, T, 32]; y [N, T, 128]; h, c [2 * 2, N, 64]
//
// weight_ih_l0 [gates * hidden, in], weight_hh_l0, bias_ih_l0, bias_hh_l0, ..._l1, ..._l0_reverse;
// uniform within +-1 / sqrt(hidden). Order of gates: input, forget, cell, output (LSTM); reset,
// update, new (GRU).
#pragma once

#include <string>
#include <utility>

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
inline void CollectTensors(RecurrentOutput& made, std::vector<Tensor*>& out) {
  out.insert(out.end(), {&made.output, &made.h_n, &made.c_n});
}

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

// ---- Cells: one step, of x [N, in] or [in] and states [N, hidden] or [hidden] (default zeros).
// weight_ih, weight_hh, bias_ih, bias_hh as above ----
struct CellOptions {
  bool bias = true;
};

// h' = cell(x, h).
class RNNCellImpl : public Module {
 public:
  RNNCellImpl(RecurrentImpl::Cell cell, int64_t input_size, int64_t hidden_size,
              const CellOptions& options);
  Tensor forward(const Tensor& x, SourceLocation where = SourceLocation::Current()) {
    return forward(x, Tensor(), where);
  }
  Tensor forward(const Tensor& x, const Tensor& h,
                 SourceLocation where = SourceLocation::Current());

 protected:
  // The next states; empty after an error.
  Tensors Step(const Tensor& x, const Tensors& states, SourceLocation where);

 private:
  const RecurrentImpl::Cell cell_;
  const int64_t input_size_, hidden_size_;
  Tensor weight_ih_, weight_hh_, bias_ih_, bias_hh_;
};
class RNNCell : public ModuleHolder<RNNCellImpl> {
 public:
  using ModuleHolder::ModuleHolder;
  RNNCell(int64_t input_size, int64_t hidden_size, const CellOptions& options = {},
          const std::string& nonlinearity = "tanh");
};
class GRUCell : public ModuleHolder<RNNCellImpl> {
 public:
  using ModuleHolder::ModuleHolder;
  GRUCell(int64_t input_size, int64_t hidden_size, const CellOptions& options = {})
      : ModuleHolder(std::make_shared<RNNCellImpl>(RecurrentImpl::Cell::kGru, input_size,
                                                   hidden_size, options)) {}
};

// auto [h, c] = cell(x, h, c);
class LSTMCellImpl : public RNNCellImpl {
 public:
  LSTMCellImpl(int64_t input_size, int64_t hidden_size, const CellOptions& options = {})
      : RNNCellImpl(RecurrentImpl::Cell::kLstm, input_size, hidden_size, options) {}
  std::pair<Tensor, Tensor> forward(const Tensor& x,
                                    SourceLocation where = SourceLocation::Current()) {
    return forward(x, Tensor(), Tensor(), where);
  }
  std::pair<Tensor, Tensor> forward(const Tensor& x, const Tensor& h, const Tensor& c,
                                    SourceLocation where = SourceLocation::Current());
};
PENSTOCK_LAZY_MODULE(LSTMCell,
                     (int64_t input_size, int64_t hidden_size, const CellOptions& options = {}),
                     (input_size, hidden_size, options));

}  // namespace penstock::lazy::nn
