#include "penstock/lazy/nn/recurrent.h"

#include <cmath>

#include "absl/strings/str_cat.h"

#include "penstock/lazy/functional.h"
#include "penstock/lazy/nn/init.h"
#include "penstock/lazy/ops/build.h"
#include "penstock/lazy/record.h"

namespace penstock::lazy::nn {
namespace {

using ir::Value;
using ir::Values;
using Cell = RecurrentImpl::Cell;

int64_t GatesOf(Cell cell) { return cell == Cell::kLstm ? 4 : cell == Cell::kGru ? 3 : 1; }

// x [..., in] times weight [out, in] transposed.
Value TimesTransposed(Value x, Value weight) {
  return ir::DotGeneral(x, weight, {.lhs_contracting = {x.rank() - 1}, .rhs_contracting = {1}});
}

// The next states from the input's and the state's contributions to the gates [N, gates * hidden].
Values NextStates(Cell cell, Value from_x, Value from_h, const Values& state) {
  if (cell == Cell::kTanh) return {ir::Tanh(from_x + from_h)};
  if (cell == Cell::kRelu) return {ir::Relu(from_x + from_h)};
  if (cell == Cell::kLstm) {
    const Values gate = ir::Split(from_x + from_h, 4, 1);
    if (gate.size() != 4) return {};
    const Value c = ir::Sigmoid(gate[1]) * state[1] + ir::Sigmoid(gate[0]) * ir::Tanh(gate[2]);
    return {ir::Sigmoid(gate[3]) * ir::Tanh(c), c};
  }
  const Values x = ir::Split(from_x, 3, 1), h = ir::Split(from_h, 3, 1);
  if (x.size() != 3 || h.size() != 3) return {};
  const Value reset = ir::Sigmoid(x[0] + h[0]), update = ir::Sigmoid(x[1] + h[1]);
  const Value fresh = ir::Tanh(x[2] + reset * h[2]);
  return {(1.0 - update) * fresh + update * state[0]};
}

}  // namespace

RNN::RNN(int64_t input_size, int64_t hidden_size, const RecurrentOptions& options,
         const std::string& nonlinearity)
    : ModuleHolder(std::make_shared<RecurrentImpl>(
          nonlinearity == "relu" ? Cell::kRelu : Cell::kTanh, input_size, hidden_size, options)) {
  if (nonlinearity != "relu" && nonlinearity != "tanh") {
    FailThread(absl::InvalidArgumentError(absl::StrCat(
        "RNN: nonlinearity must be \"tanh\" or \"relu\", got \"", nonlinearity, "\"")));
  }
}

RecurrentImpl::RecurrentImpl(Cell cell, int64_t input_size, int64_t hidden_size,
                             const RecurrentOptions& options)
    : cell_(cell), input_size_(input_size), hidden_size_(hidden_size), options_(options) {
  if (input_size <= 0 || hidden_size <= 0 || options.num_layers <= 0) {
    FailThread(absl::InvalidArgumentError(
        absl::StrCat("a recurrent module expects sizes and a number of layers above 0, got ",
                     input_size, ", ", hidden_size, " and ", options.num_layers)));
    return;
  }
  const double bound = 1 / std::sqrt(static_cast<double>(hidden_size));
  const int64_t rows = GatesOf(cell) * hidden_size, directions = options.bidirectional ? 2 : 1;
  for (int64_t layer = 0; layer < options.num_layers; ++layer) {
    const int64_t in = layer == 0 ? input_size : hidden_size * directions;
    for (int64_t direction = 0; direction < directions; ++direction) {
      const std::string suffix = absl::StrCat("_l", layer, direction == 1 ? "_reverse" : "");
      const auto parameter = [&](const char* name, const Shape& shape) {
        return register_parameter(name + suffix,
                                  MakeParameter(internal::UniformValues(shape, -bound, bound)));
      };
      Weights w;
      w.ih = parameter("weight_ih", {rows, in});
      w.hh = parameter("weight_hh", {rows, hidden_size});
      if (options.bias) {
        w.bias_ih = parameter("bias_ih", {rows});
        w.bias_hh = parameter("bias_hh", {rows});
      }
      weights_.push_back(w);
    }
  }
}

// One direction of one layer: y [T, N, hidden] and the final states [N, hidden].
Tensors RecurrentImpl::RunLayer(const Weights& weights, const Tensor& x, const Tensors& states,
                                bool reverse, SourceLocation where) const {
  Tensors inputs{x, weights.ih, weights.hh};
  if (options_.bias) inputs.insert(inputs.end(), {weights.bias_ih, weights.bias_hh});
  inputs.insert(inputs.end(), states.begin(), states.end());
  for (Tensor& input : inputs) input = lazy::internal::Cast("recurrent", input);
  const Cell cell = cell_;
  return RecordAll("recurrent", inputs, where, [&](const Values& in) -> Values {
    const bool bias = options_.bias;
    Value from_x = TimesTransposed(in[0], in[1]);
    if (bias) from_x = from_x + in[3];
    Values constants{in[2]};
    if (bias) constants.push_back(in[4]);
    const Values init(in.end() - static_cast<int64_t>(states.size()), in.end());
    const ir::ScanOut done = ir::Scan(
        init, {from_x}, constants,
        [&](ir::Graph&, const ir::ScanIn& step) {
          Value from_h = TimesTransposed(step.state[0], step.constants[0]);
          if (bias) from_h = from_h + step.constants[1];
          const Values next = NextStates(cell, step.x[0], from_h, step.state);
          return ir::ScanOut{.state = next, .y = next.empty() ? Values() : Values{next[0]}};
        },
        {.reverse = reverse});
    if (done.y.empty()) return {};
    Values results{done.y[0]};
    results.insert(results.end(), done.state.begin(), done.state.end());
    return results;
  });
}

bool RecurrentImpl::CheckInputs(const Tensor& x, const Tensor& h0, const Tensor& c0,
                                SourceLocation where) const {
  if (!x.defined() || (x.dim() != 2 && x.dim() != 3) || x.size(-1) != input_size_) {
    FailOp("recurrent", {x},
           absl::StrCat("expects ", options_.batch_first ? "[N, T, " : "[T, N, ", input_size_,
                        "], or [T, ", input_size_, "] without a batch"),
           where);
    return false;
  }
  for (const Tensor& state : {h0, c0}) {
    if (!state.defined()) continue;
    if (state.dim() == x.dim() && state.size(0) == static_cast<int64_t>(weights_.size()) &&
        state.size(-1) == hidden_size_) {
      continue;
    }
    FailOp("recurrent", {x, state},
           absl::StrCat("expects initial states [", weights_.size(), ", N, ", hidden_size_, "]"),
           where);
    return false;
  }
  if (cell_ == Cell::kLstm && h0.defined() != c0.defined()) {
    FailOp("recurrent", {x}, "expects both initial states, h0 and c0, or none", where);
    return false;
  }
  return true;
}

RecurrentOutput RecurrentImpl::forward(const Tensor& given, const Tensor& h0, const Tensor& c0,
                                       SourceLocation where) {
  if (!CheckInputs(given, h0, c0, where)) return {};
  const bool batched = given.dim() == 3;
  Tensor x = batched ? given : unsqueeze(given, 1, where);
  if (batched && options_.batch_first) x = transpose(x, 0, 1, where);
  const size_t directions = options_.bidirectional ? 2 : 1;
  Tensors final_states[2];
  for (size_t at = 0; at < weights_.size(); at += directions) {
    Tensors outputs;
    for (size_t direction = 0; direction < directions; ++direction) {
      Tensors states;
      for (int64_t i = 0; i < num_states(); ++i) {
        const Tensor& all = i == 0 ? h0 : c0;
        Tensor state = all.defined() ? select(all, 0, static_cast<int64_t>(at + direction), where)
                                     : zeros({x.size(1), hidden_size_},
                                             {.dtype = x.dtype(), .device = x.device()}, where);
        if (all.defined() && !batched) state = unsqueeze(state, 0, where);
        states.push_back(state);
      }
      const Tensors done = RunLayer(weights_[at + direction], x, states, direction == 1, where);
      if (done.size() != 1 + states.size()) return {};
      outputs.push_back(done[0]);
      for (size_t i = 0; i < states.size(); ++i) final_states[i].push_back(done[1 + i]);
    }
    x = outputs.size() == 1 ? outputs[0] : cat(outputs, 2, where);
    if (options_.dropout > 0 && is_training() && at + directions < weights_.size()) {
      x = functional::dropout(x, options_.dropout, true, where);
    }
  }
  RecurrentOutput out;
  out.output = !batched               ? squeeze(x, 1, where)
               : options_.batch_first ? transpose(x, 0, 1, where)
                                      : x;
  const auto stacked = [&](const Tensors& states) {
    const Tensor all = stack(states, 0, where);
    return batched ? all : squeeze(all, 1, where);
  };
  out.h_n = stacked(final_states[0]);
  if (cell_ == Cell::kLstm) out.c_n = stacked(final_states[1]);
  return out;
}

// ---- Cells ----

RNNCell::RNNCell(int64_t input_size, int64_t hidden_size, const CellOptions& options,
                 const std::string& nonlinearity)
    : ModuleHolder(std::make_shared<RNNCellImpl>(nonlinearity == "relu" ? Cell::kRelu : Cell::kTanh,
                                                 input_size, hidden_size, options)) {
  if (nonlinearity != "relu" && nonlinearity != "tanh") {
    FailThread(absl::InvalidArgumentError(absl::StrCat(
        "RNNCell: nonlinearity must be \"tanh\" or \"relu\", got \"", nonlinearity, "\"")));
  }
}

RNNCellImpl::RNNCellImpl(Cell cell, int64_t input_size, int64_t hidden_size,
                         const CellOptions& options)
    : cell_(cell), input_size_(input_size), hidden_size_(hidden_size) {
  if (input_size <= 0 || hidden_size <= 0) {
    FailThread(absl::InvalidArgumentError(absl::StrCat(
        "a recurrent cell expects sizes above 0, got ", input_size, " and ", hidden_size)));
    return;
  }
  const double bound = 1 / std::sqrt(static_cast<double>(hidden_size));
  const int64_t rows = GatesOf(cell) * hidden_size;
  const auto parameter = [&](const char* name, const Shape& shape) {
    return register_parameter(name, MakeParameter(internal::UniformValues(shape, -bound, bound)));
  };
  weight_ih_ = parameter("weight_ih", {rows, input_size});
  weight_hh_ = parameter("weight_hh", {rows, hidden_size});
  if (!options.bias) return;
  bias_ih_ = parameter("bias_ih", {rows});
  bias_hh_ = parameter("bias_hh", {rows});
}

Tensors RNNCellImpl::Step(const Tensor& x, const Tensors& states, SourceLocation where) {
  const bool batched = x.dim() == 2;
  if (!x.defined() || x.dim() < 1 || x.dim() > 2 || x.size(-1) != input_size_) {
    FailOp("recurrent_cell", {x},
           absl::StrCat("expects [N, ", input_size_, "] or [", input_size_, "]"), where);
    return {};
  }
  Tensors inputs{x, weight_ih_, weight_hh_};
  if (bias_ih_.defined()) inputs.insert(inputs.end(), {bias_ih_, bias_hh_});
  const size_t first = inputs.size();
  const Sizes shape = batched ? Sizes{x.size(0), hidden_size_} : Sizes{hidden_size_};
  for (const Tensor& state : states) {
    if (state.defined() && state.sizes() != Shape(shape.values())) {
      FailOp("recurrent_cell", {x, state}, absl::StrCat("expects states ", shape.ToString()),
             where);
      return {};
    }
    inputs.push_back(
        state.defined() ? state : zeros(shape, {.dtype = x.dtype(), .device = x.device()}, where));
  }
  for (Tensor& input : inputs) input = lazy::internal::Cast("recurrent", input);
  return RecordAll("recurrent_cell", inputs, where, [&](const Values& in) -> Values {
    const auto rows = [&](Value v) { return batched ? v : ir::ExpandDims(v, 0); };
    Values now;
    for (size_t i = first; i < in.size(); ++i) now.push_back(rows(in[i]));
    Value from_x = TimesTransposed(rows(in[0]), in[1]), from_h = TimesTransposed(now[0], in[2]);
    if (first > 3) {
      from_x = from_x + in[3];
      from_h = from_h + in[4];
    }
    Values next = NextStates(cell_, from_x, from_h, now);
    for (Value& state : next) {
      if (!batched) state = ir::Squeeze(state, {0});
    }
    return next;
  });
}

Tensor RNNCellImpl::forward(const Tensor& x, const Tensor& h, SourceLocation where) {
  const Tensors next = Step(x, {h}, where);
  return next.empty() ? Tensor() : next[0];
}

std::pair<Tensor, Tensor> LSTMCellImpl::forward(const Tensor& x, const Tensor& h, const Tensor& c,
                                                SourceLocation where) {
  if (h.defined() != c.defined()) {
    FailOp("recurrent_cell", {x}, "expects both states, h and c, or none", where);
    return {};
  }
  const Tensors next = Step(x, {h, c}, where);
  if (next.size() != 2) return {};
  return {next[0], next[1]};
}

}  // namespace penstock::lazy::nn
