// The cells of rnn_cell.h, by the formulas of TensorFlow 1.15's rnn_cell_impl.py.
#include "absl/strings/str_cat.h"

#include "penstock/session/infer.h"
#include "penstock/session/ops/array_ops.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/ops/nn_ops.h"
#include "penstock/session/rnn/rnn_cell.h"

namespace penstock::session::nn::rnn_cell {
namespace {

// What the cells with variables of their own have.
class WithVariables : public CellDefinition {
 public:
  WithVariables(const char* default_scope, int64_t units, layers::Activation activation,
                Reuse reuse, const std::string& name)
      : units_(units),
        activation_(std::move(activation)),
        scope_(name.empty() ? default_scope : name),
        reuse_(reuse) {}

  int64_t output_size() const override { return units_; }
  StateSize state_size() const override { return units_; }
  std::string scope() const override { return scope_; }
  Reuse reuse() const override { return reuse_; }

  StepOutput Call(const Tensor& inputs, const State& state, SourceLocation where) final {
    const PartialShape& shape = inputs.shape();
    if (!base::IsFloat(inputs.dtype()) || !shape.has_rank() || shape.rank() != 2 ||
        shape.dim(1) < 0) {
      FailOp({inputs}, absl::StrCat("RNNCell '", scope_, "'"),
             absl::StrCat("its inputs must be floats [batch, depth] with a known depth, got ",
                          TypeString(inputs)),
             where);
      return {};
    }
    const In in{inputs, state, inputs.dtype(), shape.dim(1), where};
    return Step(in);
  }

 protected:
  struct In {
    const Tensor& inputs;
    const State& state;
    DType dtype;
    int64_t depth;
    SourceLocation where;

    Variable Get(absl::string_view name, const Shape& shape, const Initializer& initializer) const {
      return GetVariable(name, shape, dtype, initializer, {}, where);
    }
    // [x, y] kernel + bias, whose names begin with `prefix`.
    Tensor Linear(absl::string_view prefix, const Tensor& x, const Tensor& y, int64_t size,
                  int64_t out, const Initializer& kernel, const Initializer& bias) const {
      const Variable w = Get(absl::StrCat(prefix, "kernel"), {depth + size, out}, kernel);
      const Variable b = Get(absl::StrCat(prefix, "bias"), {out}, bias);
      if (!w.valid() || !b.valid()) return Tensor();
      const Tensor product = MatMul(Concat({x, y}, 1, "", where), w.Value(where), {}, where);
      return BiasAdd(product, b.Value(where), "", "", where);
    }
  };
  virtual StepOutput Step(const In& in) const = 0;

  const int64_t units_;
  const layers::Activation activation_;

 private:
  const std::string scope_;
  const Reuse reuse_;
};

class BasicRNN final : public WithVariables {
 public:
  BasicRNN(int64_t units, const BasicRNNCellOptions& o)
      : WithVariables("basic_rnn_cell", units, o.activation, o.reuse, o.name) {}

 private:
  StepOutput Step(const In& in) const override {
    const Tensor sum =
        in.Linear("", in.inputs, in.state.value(), units_, units_, nullptr, ZerosInitializer());
    const Tensor output = activation_(sum, in.where);
    return {output, output};
  }
};

// BasicLSTMCell is an LSTMCell without its options, of another name.
class LSTM final : public WithVariables {
 public:
  LSTM(const char* default_scope, int64_t units, const LSTMCellOptions& o)
      : WithVariables(default_scope, units, o.activation, o.reuse, o.name), options_(o) {}

  int64_t output_size() const override { return options_.num_proj.value_or(units_); }
  StateSize state_size() const override { return {StateSize(units_), StateSize(output_size())}; }

 private:
  // value * the variable `name`, a vector.
  Tensor Peep(const In& in, const char* name, const Tensor& value) const {
    const Variable w = in.Get(name, {units_}, options_.initializer);
    return w.valid() ? Multiply(w.Value(in.where), value, "", in.where) : Tensor();
  }

  Tensor Clipped(const Tensor& x, const std::optional<double>& limit, SourceLocation where) const {
    return limit.has_value() ? ClipByValue(x, -*limit, *limit, "", where) : x;
  }

  // The gate with a peephole to `c`.
  Tensor Gate(const In& in, const Tensor& sum, const char* peephole, const Tensor& c) const {
    const Tensor all = options_.use_peepholes ? Add(sum, Peep(in, peephole, c), "", in.where) : sum;
    return session::Sigmoid(all, "", in.where);
  }

  StepOutput Step(const In& in) const override {
    const SourceLocation where = in.where;
    const Tensor &c = in.state.c(), &h = in.state.h();
    const Tensor sums = in.Linear("", in.inputs, h, output_size(), 4 * units_, options_.initializer,
                                  ZerosInitializer());
    const Tensors gates = Split(sums, 4, 1, "", where);
    if (gates.size() != 4 || !gates[0].valid()) return {};
    const Tensor &i = gates[0], &j = gates[1], &f = gates[2], &o = gates[3];
    const Tensor forget = Gate(in, Add(f, options_.forget_bias, "", where), "w_f_diag", c);
    const Tensor input = Gate(in, i, "w_i_diag", c);
    const Tensor new_c = Clipped(Add(Multiply(forget, c, "", where),
                                     Multiply(input, activation_(j, where), "", where), "", where),
                                 options_.cell_clip, where);
    Tensor new_h = Multiply(Gate(in, o, "w_o_diag", new_c), activation_(new_c, where), "", where);
    if (options_.num_proj.has_value()) {
      const Variable w =
          in.Get("projection/kernel", {units_, *options_.num_proj}, options_.initializer);
      if (!w.valid()) return {};
      new_h = Clipped(MatMul(new_h, w.Value(where), {}, where), options_.proj_clip, where);
    }
    return {new_h, LSTMStateTuple(new_c, new_h)};
  }

  const LSTMCellOptions options_;
};

class GRU final : public WithVariables {
 public:
  GRU(int64_t units, const GRUCellOptions& o)
      : WithVariables("gru_cell", units, o.activation, o.reuse, o.name), options_(o) {}

 private:
  Initializer Bias(Initializer otherwise) const {
    return options_.bias_initializer == nullptr ? otherwise : options_.bias_initializer;
  }

  StepOutput Step(const In& in) const override {
    const SourceLocation where = in.where;
    const Tensor& state = in.state.value();
    const Tensor sums = in.Linear("gates/", in.inputs, state, units_, 2 * units_,
                                  options_.kernel_initializer, Bias(OnesInitializer()));
    const Tensors gates = Split(session::Sigmoid(sums, "", where), 2, 1, "", where);
    if (gates.size() != 2 || !gates[0].valid()) return {};
    const Tensor &r = gates[0], &u = gates[1];
    const Tensor candidate =
        activation_(in.Linear("candidate/", in.inputs, Multiply(r, state, "", where), units_,
                              units_, options_.kernel_initializer, Bias(ZerosInitializer())),
                    where);
    const Tensor output = Add(Multiply(u, state, "", where),
                              Multiply(Subtract(1, u, "", where), candidate, "", where), "", where);
    return {output, output};
  }

  const GRUCellOptions options_;
};

class Multi final : public CellDefinition {
 public:
  explicit Multi(std::vector<RNNCell> cells) : cells_(std::move(cells)) {}

  int64_t output_size() const override { return cells_.empty() ? 0 : cells_.back().output_size(); }
  StateSize state_size() const override {
    std::vector<StateSize> sizes;
    for (const RNNCell& cell : cells_) sizes.push_back(cell.state_size());
    return sizes;
  }
  std::string scope() const override { return "multi_rnn_cell"; }

  StepOutput Call(const Tensor& inputs, const State& state, SourceLocation where) override {
    if (cells_.empty()) {
      FailOp({inputs}, "MultiRNNCell", "it has no cells; give it at least one", where);
      return {};
    }
    Tensor output = inputs;
    std::vector<State> states;
    for (size_t i = 0; i < cells_.size(); ++i) {
      const VariableScope scope(absl::StrCat("cell_", i));
      StepOutput step = cells_[i](output, state[static_cast<int>(i)], where);
      if (!step.output.valid()) return {};
      output = step.output;
      states.push_back(std::move(step.state));
    }
    return {output, std::move(states)};
  }

 private:
  const std::vector<RNNCell> cells_;
};

}  // namespace

RNNCell BasicRNNCell(int64_t num_units, const BasicRNNCellOptions& options) {
  return RNNCell(std::make_shared<BasicRNN>(num_units, options));
}

RNNCell BasicLSTMCell(int64_t num_units, const BasicLSTMCellOptions& options) {
  return RNNCell(std::make_shared<LSTM>("basic_lstm_cell", num_units,
                                        LSTMCellOptions{.forget_bias = options.forget_bias,
                                                        .activation = options.activation,
                                                        .reuse = options.reuse,
                                                        .name = options.name}));
}

RNNCell LSTMCell(int64_t num_units, const LSTMCellOptions& options) {
  return RNNCell(std::make_shared<LSTM>("lstm_cell", num_units, options));
}

RNNCell GRUCell(int64_t num_units, const GRUCellOptions& options) {
  return RNNCell(std::make_shared<GRU>(num_units, options));
}

RNNCell MultiRNNCell(const std::vector<RNNCell>& cells) {
  return RNNCell(std::make_shared<Multi>(cells));
}

}  // namespace penstock::session::nn::rnn_cell
