// Recurrent layers: a cell is a few lines; the loop and the options are shared.
#include "absl/strings/str_cat.h"

#include "penstock/nn/activations.h"
#include "penstock/nn/config.h"
#include "penstock/nn/initializers.h"
#include "penstock/nn/layers.h"
#include "penstock/nn/layers/layer_table.h"

namespace penstock::nn {
namespace {

using internal::LayerOf;

// Inputs of a cell in one step. Kernels hold the columns of the gates side by side.
struct Step {
  Value x;       // inputs kernel + bias: [batch, gates * units]
  Values state;  // [batch, units] each
  // The whole recurrent kernel; or one per gate, if gates have separate dropout masks or states.
  Values kernels;
  Values masks;  // recurrent dropout: none, or [batch, units] per gate
  Value bias;    // of the state, [gates * units]; may be invalid
};

Value Masked(Value x, const Values& masks, size_t i) {
  return masks.empty() ? x : x * masks[masks.size() == 1 ? 0 : i];
}

// x times the kernel; several kernels are applied separately, each with its own mask on x, and
// concatenated.
Value Project(Value x, const Values& kernels, const Values& masks) {
  Values parts;
  for (size_t i = 0; i < kernels.size(); ++i) {
    parts.push_back(ir::MatMul(Masked(x, masks, i), kernels[i]));
  }
  return parts.size() == 1 ? parts[0] : ir::Concatenate(parts, parts[0].rank() - 1);
}

struct SimpleRnnCell {
  using Options = SimpleRNNOptions;
  static constexpr char kClass[] = "SimpleRNN", kName[] = "simple_rnn_cell";
  static constexpr int kGates = 1, kStates = 1;
  static void Fields(Options&, Config&) {}
  static bool SplitsKernel(const Options&) { return false; }
  static bool HasRecurrentBias(const Options&) { return false; }
  static std::string BiasInitializer(const Options& o) { return o.bias_initializer; }
  static Values Next(const Options& o, const Step& s) {
    return {Activate(o.activation, s.x + Project(s.state[0], s.kernels, s.masks))};
  }
};

struct GruCell {
  using Options = GRUOptions;
  static constexpr char kClass[] = "GRU", kName[] = "gru_cell";
  static constexpr int kGates = 3, kStates = 1;
  static void Fields(Options& o, Config& config) {
    config("recurrent_activation", o.recurrent_activation)("reset_after", o.reset_after);
  }
  static bool SplitsKernel(const Options& o) { return !o.reset_after; }
  static bool HasRecurrentBias(const Options& o) { return o.reset_after; }
  static std::string BiasInitializer(const Options& o) { return o.bias_initializer; }
  static Values Next(const Options& o, const Step& s) {
    const Value& h = s.state[0];
    // Without reset_after, the candidate depends on the reset gate.
    const Values now = o.reset_after ? s.kernels : Values{s.kernels[0], s.kernels[1]};
    Value inner = Project(h, now, s.masks);
    if (s.bias.valid()) inner = inner + s.bias;
    const Values x = ir::Split(s.x, 3, 1), from_h = ir::Split(inner, o.reset_after ? 3 : 2, 1);
    const auto gate = [&](int i) { return Activate(o.recurrent_activation, x[i] + from_h[i]); };
    const Value update = gate(0), reset = gate(1);
    const Value from_state =
        o.reset_after ? reset * from_h[2] : ir::MatMul(reset * Masked(h, s.masks, 2), s.kernels[2]);
    const Value candidate = Activate(o.activation, x[2] + from_state);
    return {update * h + (1.0 - update) * candidate};
  }
};

struct LstmCell {
  using Options = LSTMOptions;
  static constexpr char kClass[] = "LSTM", kName[] = "lstm_cell";
  static constexpr int kGates = 4, kStates = 2;
  static void Fields(Options& o, Config& config) {
    config("recurrent_activation", o.recurrent_activation)("unit_forget_bias", o.unit_forget_bias);
  }
  static bool SplitsKernel(const Options&) { return false; }
  static bool HasRecurrentBias(const Options&) { return false; }
  static std::string BiasInitializer(const Options& o) {
    if (!o.unit_forget_bias) return o.bias_initializer;
    return WithUnitForgetGate(o.bias_initializer);
  }
  static Values Next(const Options& o, const Step& s) {
    const Value z = s.x + Project(s.state[0], s.kernels, s.masks);
    const Values parts = ir::Split(z, 4, 1);
    const auto gate = [&](int i) { return Activate(o.recurrent_activation, parts[i]); };
    const Value c = gate(1) * s.state[1] + gate(0) * Activate(o.activation, parts[2]);
    return {gate(3) * Activate(o.activation, c), c};
  }
};

template <typename Cell>
struct RecurrentLayer : LayerOf<typename Cell::Options> {
  using LayerOf<typename Cell::Options>::LayerOf;
  using LayerOf<typename Cell::Options>::options_;
  static constexpr int kGates = Cell::kGates;

  absl::string_view class_name() const override { return Cell::kClass; }
  void Fields(Config& config) override {
    auto& o = options_;
    config("units", o.units)("activation", o.activation)("use_bias", o.use_bias)(
        "kernel_initializer", o.kernel_initializer)(
        "recurrent_initializer", o.recurrent_initializer)("bias_initializer", o.bias_initializer)(
        "kernel_regularizer", o.kernel_regularizer)(
        "recurrent_regularizer", o.recurrent_regularizer)("bias_regularizer", o.bias_regularizer)(
        "activity_regularizer", o.activity_regularizer)("kernel_constraint", o.kernel_constraint)(
        "recurrent_constraint", o.recurrent_constraint)("bias_constraint", o.bias_constraint)(
        "dropout", o.dropout)("recurrent_dropout", o.recurrent_dropout)(
        "return_sequences", o.return_sequences)("return_state", o.return_state)(
        "go_backwards", o.go_backwards)("zero_output_for_mask", o.zero_output_for_mask)(
        "stateful", stateful_)("unroll", unroll_);
    Cell::Fields(o, config);
  }
  KerasForm keras_form() const override { return {.arguments = {"initial_state"}}; }
  std::string KerasPath(absl::string_view part) const override {
    return part.empty() ? "" : "cell";
  }

  Outputs Call(CallContext& ctx, const Values& inputs) const override {
    if (!Check(ctx, inputs)) return Value();
    const Value mask = ctx.input_mask();
    const Loop loop = Prepare(ctx, inputs);
    if (!loop.x.valid()) return Value();
    const ir::ScanOut done = Run(loop);
    Outputs outputs = Collect(done, mask);
    if (options_.return_sequences && mask.valid()) ctx.SetOutputMask(mask);
    for (const Value& y : outputs) ctx.RegularizeActivity(options_.activity_regularizer, y);
    return outputs;
  }

 private:
  // Inputs of the loop.
  struct Loop {
    Value x;     // [steps, batch, gates * units]
    Value mask;  // [steps, batch, 1]; may be invalid
    Values state;
    Step constants;  // kernels, masks, bias
  };

  bool Check(CallContext& ctx, const Values& inputs) const {
    const auto& o = options_;
    const auto rate = [](double r) { return r >= 0 && r < 1; };
    std::string wrong;
    if (inputs.size() != 1 && inputs.size() != 1 + Cell::kStates) {
      wrong = absl::StrCat("takes a sequence, or a sequence and the ", Cell::kStates,
                           " initial states; got ", inputs.size(), " inputs");
    } else if (inputs[0].rank() != 3) {
      wrong = absl::StrCat("expects [batch, steps, features], got ", inputs[0].type().ToString());
    } else if (o.units <= 0) {
      wrong = absl::StrCat("units must be above 0, got ", o.units);
    } else if (!rate(o.dropout) || !rate(o.recurrent_dropout)) {
      wrong = absl::StrCat("dropout must be a rate from 0 to below 1, got ", o.dropout, " and ",
                           o.recurrent_dropout);
    } else if (stateful_) {
      wrong =
          "stateful is not supported: give the last state (return_state) as an input of the next "
          "call";
    }
    for (size_t i = 1; wrong.empty() && i < inputs.size(); ++i) {
      if (inputs[i].shape() == Shape({inputs[0].shape().dim(0), o.units})) continue;
      wrong = absl::StrCat("a state is [batch, ", o.units, "], got ", inputs[i].type().ToString());
    }
    const Value mask = ctx.input_mask();
    if (wrong.empty() && mask.valid() && mask.rank() != 2) {
      wrong = absl::StrCat("a mask is [batch, steps], got ", mask.type().ToString());
    }
    if (!wrong.empty()) ctx.Fail(wrong);
    return wrong.empty();
  }

  // Dropout masks, the same for all steps: [batch, features].
  Values DropoutMasks(CallContext& ctx, double rate, int64_t features, int64_t batch,
                      int count) const {
    Values masks;
    if (!ctx.training() || rate == 0) return masks;
    const Value ones = ir::Splat(ctx.graph(), {ctx.compute_dtype(), {batch, features}}, 1);
    for (int i = 0; i < count; ++i) {
      masks.push_back(ctx.Call(Dropout({.rate = rate}), "dropout", {ones})[0]);
    }
    return masks;
  }

  static Values Parts(Value kernel, bool split) {
    if (!split) return {kernel};
    return ir::Split(kernel, kGates, 1);
  }

  Value CellVariable(CallContext& ctx, const char* name, const Shape& shape,
                     const std::string& initializer, const std::string& regularizer,
                     const std::string& constraint) const {
    return ctx.Variable(absl::StrCat(Cell::kName, "/", name), shape, initializer,
                        {.regularizer = regularizer, .constraint = constraint});
  }

  // Computes everything that does not depend on the state for all steps at once.
  Loop Prepare(CallContext& ctx, const Values& inputs) const {
    const auto& o = options_;
    const int64_t batch = inputs[0].shape().dim(0), features = inputs[0].shape().dim(2);
    const int64_t columns = kGates * o.units;
    const Value kernel = CellVariable(ctx, "kernel", {features, columns}, o.kernel_initializer,
                                      o.kernel_regularizer, o.kernel_constraint);
    const Value recurrent =
        CellVariable(ctx, "recurrent_kernel", {o.units, columns}, o.recurrent_initializer,
                     o.recurrent_regularizer, o.recurrent_constraint);
    Value bias, recurrent_bias;
    if (o.use_bias) {
      const bool two = Cell::HasRecurrentBias(o);
      bias = CellVariable(ctx, "bias", two ? Shape({2, columns}) : Shape({columns}),
                          Cell::BiasInitializer(o), o.bias_regularizer, o.bias_constraint);
      if (two) {
        recurrent_bias = ir::Squeeze(ir::SliceAxis(bias, 0, 1, 2), {0});
        bias = ir::Squeeze(ir::SliceAxis(bias, 0, 0, 1), {0});
      }
    }
    // As in Keras, with recurrent dropout each gate has separate masks, for inputs too.
    const int count = o.recurrent_dropout > 0 ? kGates : 1;
    const Values masks = DropoutMasks(ctx, o.dropout, features, batch, count);
    Loop loop;
    loop.constants.masks = DropoutMasks(ctx, o.recurrent_dropout, o.units, batch, kGates);
    loop.constants.bias = recurrent_bias;
    loop.constants.kernels =
        Parts(recurrent, Cell::SplitsKernel(o) || loop.constants.masks.size() > 1);
    loop.x = Project(ir::Transpose(inputs[0], {1, 0, 2}), Parts(kernel, masks.size() > 1), masks);
    if (bias.valid()) loop.x = loop.x + bias;
    if (const Value mask = ctx.input_mask(); mask.valid()) {
      loop.mask = ir::ExpandDims(ir::Transpose(ir::Convert(mask, DType::kBool), {1, 0}), 2);
    }
    loop.state.assign(inputs.begin() + 1, inputs.end());
    const TensorType state{ctx.compute_dtype(), {batch, o.units}};
    if (loop.state.empty()) loop.state.assign(Cell::kStates, ir::Splat(ctx.graph(), state, 0));
    return loop;
  }

  ir::ScanOut Run(const Loop& loop) const {
    Values xs{loop.x}, constants = loop.constants.kernels;
    if (loop.mask.valid()) xs.push_back(loop.mask);
    const size_t kernels = constants.size(), masks = loop.constants.masks.size();
    constants.insert(constants.end(), loop.constants.masks.begin(), loop.constants.masks.end());
    if (loop.constants.bias.valid()) constants.push_back(loop.constants.bias);
    const auto body = [&](ir::Graph&, const ir::ScanIn& in) {
      const auto given = in.constants.begin();
      const Step step{.x = in.x[0],
                      .state = in.state,
                      .kernels = Values(given, given + kernels),
                      .masks = Values(given + kernels, given + kernels + masks),
                      .bias = loop.constants.bias.valid() ? in.constants.back() : Value()};
      ir::ScanOut out{.state = Cell::Next(options_, step), .y = {}};
      Value y = out.state[0];
      if (in.x.size() > 1) {
        for (size_t i = 0; i < out.state.size(); ++i) {
          out.state[i] = ir::Select(in.x[1], out.state[i], in.state[i]);
        }
        y = options_.zero_output_for_mask ? ir::Select(in.x[1], y, ir::SplatLike(y, 0))
                                          : out.state[0];
      }
      if (options_.return_sequences) out.y = {y};
      return out;
    };
    return ir::Scan(loop.state, xs, constants, body, {.reverse = options_.go_backwards});
  }

  Outputs Collect(const ir::ScanOut& done, Value mask) const {
    Values outputs;
    if (!options_.return_sequences) {
      Value y = done.state[0];
      if (options_.zero_output_for_mask && mask.valid()) {
        const int64_t last = options_.go_backwards ? 0 : mask.shape().dim(1) - 1;
        y = ir::Select(ir::SliceAxis(mask, 1, last, last + 1), y, ir::SplatLike(y, 0));
      }
      outputs.push_back(y);
    } else if (!done.y.empty()) {
      // In the order in which they were computed.
      const Value y = options_.go_backwards ? ir::Reverse(done.y[0], {0}) : done.y[0];
      outputs.push_back(ir::Transpose(y, {1, 0, 2}));
    } else {
      outputs.emplace_back();
    }
    if (options_.return_state) outputs.insert(outputs.end(), done.state.begin(), done.state.end());
    return outputs;
  }

  // Keras's options, accepted in JSON: the first is rejected if true, the second has no effect.
  bool stateful_ = false, unroll_ = false;
};

}  // namespace

Layer SimpleRNN(const SimpleRNNOptions& options, SourceLocation location) {
  return internal::MakeLayer<RecurrentLayer<SimpleRnnCell>>(options, location);
}
Layer GRU(const GRUOptions& options, SourceLocation location) {
  return internal::MakeLayer<RecurrentLayer<GruCell>>(options, location);
}
Layer LSTM(const LSTMOptions& options, SourceLocation location) {
  return internal::MakeLayer<RecurrentLayer<LstmCell>>(options, location);
}

absl::Span<const internal::LayerRow> internal::RecurrentLayers() {
  static constexpr LayerRow kRows[] = {
      {"SimpleRNN", MakeDefault<RecurrentLayer<SimpleRnnCell>>},
      {"GRU", MakeDefault<RecurrentLayer<GruCell>>},
      {"LSTM", MakeDefault<RecurrentLayer<LstmCell>>},
  };
  return kRows;
}

}  // namespace penstock::nn
