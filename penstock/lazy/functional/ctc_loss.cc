// Connectionist temporal classification (Graves et al.: Connectionist temporal classification:
// labelling unsegmented sequence data with recurrent neural networks, 2006).
#include <limits>

#include "absl/strings/str_cat.h"

#include "penstock/lazy/functional.h"
#include "penstock/lazy/functional/reduction.h"
#include "penstock/lazy/ops/build.h"

namespace penstock::lazy::nn::functional {
namespace {

using ir::SplatLike;
using ir::Value;
using ir::Values;

// The logarithm of 0, so small that sums of it stay finite and differentiable.
constexpr double kImpossible = -1e30;

Value Impossible(Value like) { return SplatLike(like, kImpossible); }

// x shifted by `count` along the last axis, with impossible ones in front.
Value Shifted(Value x, int64_t count) {
  std::vector<ir::PadAxis> padding(static_cast<size_t>(x.rank()));
  padding.back() = {count, -count, 0};
  return ir::Pad(x, kImpossible, padding);
}

// The targets [N, S] with a blank before, between and after them: [N, 2 S + 1].
Value WithBlanks(Value targets, int64_t blank) {
  const auto number = static_cast<double>(blank);
  return ir::Pad(targets, number, {{}, {1, 1, 1}});
}

// Logarithms of the probabilities of all prefixes after the last input: [N, 2 S + 1].
Value Prefixes(Value log_probs, Value labels, Value input_lengths) {
  const int64_t steps = log_probs.shape().dim(0), count = labels.shape().dim(1);
  // Those of the labels, [T, N, 2 S + 1].
  const Value chosen = ir::TakeAlongAxis(log_probs, ir::ExpandDims(labels, 0), 2);
  const Value place = ir::Iota(*labels.graph(), {DType::kI64, labels.shape()}, 1);
  // A label may follow the one two before it, without the blank between, if they differ.
  const Value before = ir::Pad(labels, -1, {{}, {2, -2, 0}});
  const Value may_skip = ir::And(ir::Compare(labels, before, ir::Comparison::kNe),
                                 ir::GreaterEqual(place, SplatLike(place, 2)));
  const Value first = ir::Squeeze(ir::SliceAxis(chosen, 0, 0, 1), {0});
  const Value init = ir::Select(ir::Less(place, SplatLike(place, 2)), first, Impossible(first));
  if (steps == 1 || count == 0) return init;
  const ir::ScanOut done = ir::Scan(
      {init}, {ir::SliceAxis(chosen, 0, 1, steps)},
      {ir::Convert(may_skip, init.dtype()), ir::Convert(input_lengths, DType::kI32)},
      [](ir::Graph&, const ir::ScanIn& in) {
        const Value alpha = in.state[0];
        const Value skip = ir::Select(ir::Greater(in.constants[0], SplatLike(in.constants[0], 0.5)),
                                      Shifted(alpha, 2), Impossible(alpha));
        const Value next = ir::LogAddExp(ir::LogAddExp(alpha, Shifted(alpha, 1)), skip) + in.x[0];
        // The first step's input is at index 1 of the sequence.
        const Value goes_on =
            ir::Less(ir::BroadcastTo(in.index + 1.0, in.constants[1].shape()), in.constants[1]);
        return ir::ScanOut{.state = {ir::Select(ir::ExpandDims(goes_on, 1), next, alpha)}, .y = {}};
      });
  return done.state.empty() ? Value() : done.state[0];
}

// -log of the probability of each target, [N]; infinite where it does not fit.
Value Losses(const Values& in, const CtcLossOptions& options) {
  const Value targets = ir::Convert(in[1], DType::kI64), lengths = ir::Convert(in[3], DType::kI64);
  const Value labels = WithBlanks(targets, options.blank);
  const Value alpha = Prefixes(lazy::internal::Widened(in[0]), labels, in[2]);
  if (!alpha.valid()) return alpha;
  // The target's last label, or the blank after it.
  const Value end = ir::ExpandDims(lengths * 2.0, 1);
  const auto at = [&](Value index) { return ir::Squeeze(ir::TakeAlongAxis(alpha, index, 1), {1}); };
  const Value last = at(ir::Maximum(end - 1.0, SplatLike(end, 0)));
  const Value is_empty = ir::Equal(lengths, SplatLike(lengths, 0));
  const Value total = ir::LogAddExp(at(end), ir::Select(is_empty, Impossible(last), last));
  const Value possible = ir::Greater(total, SplatLike(total, kImpossible / 2));
  const double otherwise = options.zero_infinity ? 0 : std::numeric_limits<double>::infinity();
  return ir::Select(possible, -total, SplatLike(total, otherwise));
}

// Empty: the arguments are valid.
std::string WrongArguments(const Tensor& log_probs, const Tensor& targets, const Tensor& of_inputs,
                           const Tensor& of_targets, const CtcLossOptions& options) {
  for (const Tensor& x : {log_probs, targets, of_inputs, of_targets}) {
    if (!x.defined()) return "an input is undefined";
  }
  if (!base::IsFloat(log_probs.dtype()) || log_probs.dim() != 3 || log_probs.size(0) == 0) {
    return "expects log_probs [T, N, C] of a float type, with T above 0";
  }
  const int64_t batch = log_probs.size(1);
  if (!base::IsInteger(targets.dtype()) || targets.dim() != 2 || targets.size(0) != batch) {
    return absl::StrCat("expects targets [", batch, ", S] of integers, padded to one length");
  }
  for (const Tensor& x : {of_inputs, of_targets}) {
    if (!base::IsInteger(x.dtype()) || x.dim() != 1 || x.size(0) != batch) {
      return absl::StrCat("expects input_lengths and target_lengths of ", batch, " integers");
    }
  }
  if (options.blank < 0 || options.blank >= log_probs.size(2)) {
    return absl::StrCat("blank (", options.blank, ") must be one of ", log_probs.size(2),
                        " classes");
  }
  return WrongReduction(options.reduction);
}

}  // namespace

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CtcLossOptions& options, SourceLocation where) {
  const Tensors inputs{log_probs, targets, input_lengths, target_lengths};
  const std::string wrong =
      WrongArguments(log_probs, targets, input_lengths, target_lengths, options);
  if (!wrong.empty()) return FailOp("ctc_loss", inputs, wrong, where);
  return Record("ctc_loss", inputs, where, [&](const Values& in) {
    const Value losses = Losses(in, options);
    if (!losses.valid() || options.reduction == "none") {
      return ir::Convert(losses, in[0].dtype());
    }
    if (options.reduction == "sum") return ir::Convert(ir::ReduceSum(losses), in[0].dtype());
    const Value length = ir::Convert(in[3], losses.dtype());
    const Value mean = ir::ReduceMean(losses / ir::Maximum(length, SplatLike(length, 1)));
    return ir::Convert(mean, in[0].dtype());
  });
}

}  // namespace penstock::lazy::nn::functional
