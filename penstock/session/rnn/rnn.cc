#include "penstock/session/rnn/rnn.h"

#include "absl/strings/str_cat.h"

#include "penstock/session/infer.h"
#include "penstock/session/ops/array_ops.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/ops/internal.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/scan_loop.h"

namespace penstock::session::nn {
namespace {

using rnn_cell::RNNCell;
using rnn_cell::State;
using rnn_cell::StepOutput;

// [batch, steps, ...] to [steps, batch, ...] and back.
Tensor SwapBatchAndTime(const Tensor& x, SourceLocation where) {
  return AddOp("Transpose", {x}, "", where, [](internal::In in) {
    ir::Axes axes{1, 0};
    for (int i = 2; i < in[0].rank(); ++i) axes.push_back(i);
    return ir::Transpose(in[0], axes);
  });
}

// A sequence_length whose rank is unknown is a vector; an invalid tensor stays one.
Tensor AsVector(const Tensor& lengths, SourceLocation where) {
  if (!lengths.valid() || lengths.shape().has_rank()) return lengths;
  Tensor vector = Identity(lengths, "sequence_length", where);
  if (vector.valid()) vector.SetShape({-1}, where);
  return vector;
}

// sequence_length as int32 [batch] for inputs whose batch is on that axis; errors if it is none.
Tensor CheckedLengths(const Tensor& lengths, const Tensor& inputs, int64_t batch_axis,
                      SourceLocation where) {
  if (!base::IsInteger(lengths.dtype())) {
    return FailOp({lengths}, "CheckSeqLen",
                  absl::StrCat("sequence_length must be integers, got ", TypeString(lengths)),
                  where);
  }
  return AddOp("CheckSeqLen", {lengths, inputs}, "", where, [batch_axis](internal::In in) {
    const int64_t batch = in[1].shape().dim(static_cast<int>(batch_axis));
    if (in[0].rank() == 1 && in[0].shape().dim(0) == batch) {
      // More than any number of steps stays so.
      const ir::Value wide = ir::Convert(in[0], DType::kI64);
      return ir::Convert(ir::Minimum(wide, ir::SplatLike(wide, 2147483647)), DType::kI32);
    }
    return internal::Reject(in[0], "sequence_length must be [batch], here [", batch, "], got ",
                            in[0].type().ToString());
  });
}

// The lengths, and the number of steps of x in place of those above it.
Tensor Capped(const Tensor& lengths, const Tensor& x, int steps_axis, SourceLocation where) {
  return AddOp("Minimum", {lengths, x}, "", where, [steps_axis](internal::In in) {
    const auto steps = static_cast<double>(in[1].shape().dim(steps_axis));
    const ir::Value wide = ir::Convert(in[0], DType::kI64);
    return ir::Convert(ir::Minimum(wide, ir::SplatLike(wide, steps)), DType::kI32);
  });
}

// Zeros for a batch of the size of `inputs`.
State ZerosFor(const RNNCell& cell, const Tensor& inputs, int batch_axis, DType dtype,
               SourceLocation where) {
  return cell.state_size().Map([&](const int64_t size) {
    return AddOp("Fill", {inputs}, "zeros", where, [=](internal::In in) {
      const Shape shape{in[0].shape().dim(batch_axis), std::max<int64_t>(size, 0)};
      return ir::Splat(*in[0].graph(), {dtype, shape}, 0);
    });
  });
}

// `after`, or `before` for the examples that have ended.
Tensor Ended(const Tensor& ended, const Tensor& before, const Tensor& after, SourceLocation where) {
  if (after.shape().has_rank() && after.shape().rank() == 0) return after;  // a counter
  return AddOp("Select", {ended, before, after}, "", where, [](internal::In in) {
    return ir::Select(ir::BroadcastInDim(in[0], in[2].shape(), {0}), in[1], in[2]);
  });
}

// A step of examples of these lengths; invalid lengths: all steps count.
StepOutput Step(const RNNCell& cell, const Tensor& inputs, const State& state, const Tensor& ended,
                SourceLocation where) {
  StepOutput step = cell(inputs, state, where);
  if (!ended.valid() || !step.output.valid()) return step;
  step.output =
      Ended(ended, ZerosLike(step.output, DType::kInvalid, "", where), step.output, where);
  const Tensors before = state.Flatten();
  size_t next = 0;
  step.state = step.state.Map([&](const Tensor& after) {
    return next < before.size() ? Ended(ended, before[next++], after, where) : after;
  });
  return step;
}

State Packed(const State& structure, const Tensors& tensors) {
  size_t next = 0;
  return structure.Map([&](const Tensor&) { return tensors[next++]; });
}

// Why a network cannot run over these inputs; "" if it can.
std::string Unfit(const RNNCell& cell, const Tensor& inputs, int min_rank) {
  if (!cell.valid()) return "its cell is invalid; make it with a function of rnn_cell.h";
  if (!inputs.valid()) return "its inputs are an invalid tensor";
  const PartialShape& shape = inputs.shape();
  bool fits = shape.has_rank() && shape.rank() >= min_rank;
  for (int i = min_rank - 1; fits && i < shape.rank(); ++i) fits = shape.dim(i) >= 0;
  if (fits) return "";
  return absl::StrCat("its inputs must be ",
                      min_rank == 3 ? "[batch, steps, depth]" : "[batch, depth]",
                      " with a known depth, got ", TypeString(inputs));
}

DType StateType(DType given, const Tensor& inputs) {
  return given == DType::kInvalid ? inputs.dtype() : given;
}

bool IsGiven(const State& state) { return !state.is_tuple() || state.size() > 0; }

}  // namespace

RnnOutput DynamicRnn(const RNNCell& cell, const Tensor& inputs, const DynamicRnnOptions& options,
                     SourceLocation where) {
  if (const std::string unfit = Unfit(cell, inputs, 3); !unfit.empty()) {
    FailOp({inputs}, absl::StrCat("DynamicRnn '", options.scope, "'"), unfit, where);
    return {};
  }
  const Graph::DefaultScope default_graph = inputs.graph()->AsDefault();
  const VariableScope scope(options.scope);
  const Tensor x = options.time_major ? inputs : SwapBatchAndTime(inputs, where);
  Tensor lengths = AsVector(options.sequence_length, where);
  if (lengths.valid()) lengths = CheckedLengths(lengths, x, 1, where);
  const State initial = IsGiven(options.initial_state)
                            ? options.initial_state
                            : ZerosFor(cell, x, 1, StateType(options.dtype, inputs), where);
  if (!inputs.graph()->status().ok()) return {};
  const std::optional<ScanRow> done = AddScan(
      {.name = "while", .states = initial.Flatten(), .xs = {x}},
      [&](const Tensor& index, const ScanRow& in) -> ScanRow {
        const Tensor ended = lengths.valid() ? GreaterEqual(index, lengths, "", where) : Tensor();
        const StepOutput step = Step(cell, in.rows[0], Packed(initial, in.states), ended, where);
        return {.states = step.state.Flatten(), .rows = {step.output}};
      },
      where);
  if (!done.has_value()) return {};
  const Tensor& stack = done->rows[0];
  return {options.time_major ? stack : SwapBatchAndTime(stack, where),
          Packed(initial, done->states)};
}

StaticRnnOutput StaticRnn(const RNNCell& cell, const Tensors& inputs,
                          const StaticRnnOptions& options, SourceLocation where) {
  const auto fail = [&](absl::string_view message) {
    FailOp(inputs, absl::StrCat("StaticRnn '", options.scope, "'"), message, where);
    return StaticRnnOutput();
  };
  if (inputs.empty()) return fail("it has no inputs; give it a tensor for each step");
  for (const Tensor& x : inputs) {
    if (const std::string unfit = Unfit(cell, x, 2); !unfit.empty()) return fail(unfit);
  }
  Graph* const graph = inputs[0].graph();
  const Graph::DefaultScope default_graph = graph->AsDefault();
  const VariableScope scope(options.scope);
  Tensor lengths = AsVector(options.sequence_length, where);
  if (lengths.valid()) lengths = CheckedLengths(lengths, inputs[0], 0, where);
  StaticRnnOutput out;
  out.state = IsGiven(options.initial_state)
                  ? options.initial_state
                  : ZerosFor(cell, inputs[0], 0, StateType(options.dtype, inputs[0]), where);
  for (size_t i = 0; i < inputs.size() && graph->status().ok(); ++i) {
    const Tensor ended =
        lengths.valid() ? LessEqual(lengths, static_cast<int64_t>(i), "", where) : Tensor();
    StepOutput step = Step(cell, inputs[i], out.state, ended, where);
    out.outputs.push_back(step.output);
    out.state = std::move(step.state);
  }
  return graph->status().ok() ? out : StaticRnnOutput();
}

BidirectionalRnnOutput BidirectionalDynamicRnn(const RNNCell& cell_fw, const RNNCell& cell_bw,
                                               const Tensor& inputs,
                                               const BidirectionalRnnOptions& options,
                                               SourceLocation where) {
  if (!inputs.valid()) {
    FailOp({}, absl::StrCat("BidirectionalDynamicRnn '", options.scope, "'"),
           "its inputs are an invalid tensor", where);
    return {};
  }
  Graph* const graph = inputs.graph();
  const Graph::DefaultScope default_graph = graph->AsDefault();
  const VariableScope scope(options.scope);
  const Tensor lengths = AsVector(options.sequence_length, where);
  DynamicRnnOptions one{.sequence_length = lengths,
                        .initial_state = options.initial_state_fw,
                        .dtype = options.dtype,
                        .time_major = options.time_major,
                        .scope = "fw"};
  const RnnOutput fw = DynamicRnn(cell_fw, inputs, one, where);
  if (!fw.outputs.valid()) return {};
  const int64_t steps = options.time_major ? 0 : 1;
  const auto reverse = [&](const Tensor& x) {
    if (!lengths.valid()) return Reverse(x, steps, "", where);
    const Tensor capped = Capped(lengths, x, static_cast<int>(steps), where);
    Tensor reversed =
        ReverseSequence(x, capped, {.seq_axis = steps, .batch_axis = 1 - steps}, where);
    if (reversed.valid()) reversed.SetShape(x.shape(), where);  // more than inference finds out
    return reversed;
  };
  one.initial_state = options.initial_state_bw;
  one.scope = "bw";
  const RnnOutput bw = DynamicRnn(cell_bw, reverse(inputs), one, where);
  if (!bw.outputs.valid()) return {};
  return {{fw.outputs, reverse(bw.outputs)}, {fw.state, bw.state}};
}

}  // namespace penstock::session::nn
