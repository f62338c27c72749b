// Cells around other cells: DropoutWrapper, ResidualWrapper.
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/random.h"
#include "penstock/session/body.h"
#include "penstock/session/infer.h"
#include "penstock/session/ops/array_ops.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/ops/nn_ops.h"
#include "penstock/session/ops/random_ops.h"
#include "penstock/session/rnn/rnn_cell.h"

namespace penstock::session::nn::rnn_cell {
namespace {

// Graph::Extension: the random numbers of variational dropout, by cell and place.
struct RecurrentNoise {
  absl::flat_hash_map<std::pair<const CellDefinition*, int>, Tensor> drawn;
};

class Dropped final : public CellDefinition {
 public:
  Dropped(RNNCell cell, const DropoutWrapperOptions& options)
      : cell_(std::move(cell)), options_(options) {}

  int64_t output_size() const override { return cell_.output_size(); }
  StateSize state_size() const override { return cell_.state_size(); }
  std::string scope() const override { return ""; }

  StepOutput Call(const Tensor& inputs, const State& state, SourceLocation where) override {
    for (const Operand* keep :
         {&options_.input_keep_prob, &options_.output_keep_prob, &options_.state_keep_prob}) {
      if (!keep->is_number() || (keep->number() > 0 && keep->number() <= 1)) continue;
      FailOp({inputs}, "DropoutWrapper",
             absl::StrCat("a keep_prob must be above 0 and at most 1, got ", keep->number()),
             where);
      return {};
    }
    const Tensor dropped = Drop(inputs, options_.input_keep_prob, kInput, where);
    StepOutput step = cell_(dropped, state, where);
    if (!step.output.valid()) return {};
    int place = kFirstState;
    step.state = DropState(step.state, place, where);
    step.output = Drop(step.output, options_.output_keep_prob, kOutput, where);
    return step;
  }

 private:
  // Where it drops: as in TensorFlow, each place has other numbers for the same seed.
  static constexpr int kInput = 0, kOutput = 1, kFirstState = 2;

  // All but the c of an LSTMStateTuple.
  State DropState(const State& state, int& place, SourceLocation where) const {
    if (!state.is_tuple()) return Drop(state.value(), options_.state_keep_prob, place++, where);
    std::vector<State> parts;
    for (int i = 0; i < static_cast<int>(state.size()); ++i) {
      const bool is_c = state.is_lstm() && i == 0;
      parts.push_back(is_c ? state[i] : DropState(state[i], place, where));
    }
    return state.is_lstm() ? State(std::move(parts)).AsLstm() : State(std::move(parts));
  }

  Tensor Drop(const Tensor& x, const Operand& keep, int place, SourceLocation where) const {
    if (keep.is_number() && keep.number() == 1) return x;
    std::optional<uint64_t> seed = options_.seed;
    if (seed.has_value()) seed = base::MixSeeds(*seed, static_cast<uint64_t>(place));
    if (!options_.variational_recurrent) return Dropout(x, keep, {.seed = seed}, where);
    const Tensor noise = Noise(x, place, seed, where);
    if (!noise.valid()) return Tensor();
    return Multiply(Divide(x, keep, "", where), Floor(Add(noise, keep, "", where), "", where), "",
                    where);
  }

  // Uniform numbers [1, size], drawn once in a Run.
  Tensor Noise(const Tensor& x, int place, std::optional<uint64_t> seed,
               SourceLocation where) const {
    if (!x.valid() || x.shape().rank() != 2 || x.shape().dim(1) < 0) {
      return FailOp({x}, "DropoutWrapper",
                    absl::StrCat("variational_recurrent needs tensors [batch, size] with a known "
                                 "size, got ",
                                 TypeString(x)),
                    where);
    }
    Tensor& noise = x.graph()->Extension<RecurrentNoise>().drawn[{this, place}];
    if (!noise.valid()) {
      const BodyScope top_level(x.graph(), nullptr);
      noise = RandomUniform(Shape{1, x.shape().dim(1)}, 0, 1, {.dtype = x.dtype(), .seed = seed},
                            where);
    }
    return noise;
  }

  const RNNCell cell_;
  const DropoutWrapperOptions options_;
};

class Residual final : public CellDefinition {
 public:
  explicit Residual(RNNCell cell) : cell_(std::move(cell)) {}

  int64_t output_size() const override { return cell_.output_size(); }
  StateSize state_size() const override { return cell_.state_size(); }
  std::string scope() const override { return ""; }

  StepOutput Call(const Tensor& inputs, const State& state, SourceLocation where) override {
    StepOutput step = cell_(inputs, state, where);
    if (!step.output.valid()) return {};
    if (!inputs.shape().IsCompatibleWith(step.output.shape())) {
      FailOp({inputs}, "ResidualWrapper",
             absl::StrCat("its inputs are ", TypeString(inputs), ", the output of its cell ",
                          TypeString(step.output), "; both must have the same shape"),
             where);
      return {};
    }
    step.output = Add(inputs, step.output, "", where);
    return step;
  }

 private:
  const RNNCell cell_;
};

}  // namespace

RNNCell DropoutWrapper(const RNNCell& cell, const DropoutWrapperOptions& options) {
  return RNNCell(std::make_shared<Dropped>(cell, options));
}

RNNCell ResidualWrapper(const RNNCell& cell) { return RNNCell(std::make_shared<Residual>(cell)); }

}  // namespace penstock::session::nn::rnn_cell
