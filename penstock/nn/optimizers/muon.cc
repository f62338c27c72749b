// Muon, and Adam for variables that are not matrices.
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

#include "penstock/nn/optimizers.h"
#include "penstock/nn/optimizers/optimizer_body.h"

namespace penstock::nn {
namespace {

using ir::Value;

struct MuonBody : BodyWith<MuonOptions> {
  using BodyWith::BodyWith;
  absl::string_view class_name() const override { return "Muon"; }

  bool ByAdam(absl::string_view name, const ir::TensorType& variable) const {
    if (variable.shape.rank() != 2) return true;
    if (options.exclude_embeddings && absl::StrContains(absl::AsciiStrToLower(name), "embedding")) {
      return true;
    }
    for (const std::string& part : options.exclude_layers) {
      if (absl::StrContains(name, part)) return true;
    }
    return false;
  }
  std::vector<SlotSpec> Slots(absl::string_view name,
                              const ir::TensorType& variable) const override {
    if (ByAdam(name, variable)) return SlotsLike(variable, {"momentum", "velocity"});
    return SlotsLike(variable, {"momentum"});
  }
  std::optional<double> WeightDecay(absl::string_view name, const ir::TensorType& variable,
                                    std::optional<double> weight_decay) const override {
    return ByAdam(name, variable) ? options.adam_weight_decay : weight_decay;
  }

  // x with its singular values moved close to 1 by Newton-Schulz iterations.
  Value Orthogonalized(Value x) const {
    const bool tall = x.shape().dim(0) > x.shape().dim(1);
    if (tall) x = ir::Transpose(x, {1, 0});
    x = x / (ir::Sqrt(ir::ReduceSum(ir::Square(x))) + 1e-7);
    for (int64_t i = 0; i < options.ns_steps; ++i) {
      const Value square = ir::MatMul(x, ir::Transpose(x, {1, 0}));
      const Value mixed = square * options.muon_b + ir::MatMul(square * options.muon_c, square);
      x = x * options.muon_a + ir::MatMul(mixed, x);
    }
    return tall ? ir::Transpose(x, {1, 0}) : x;
  }
  UpdatedVariable ApplyToMatrix(const VariableUpdate& in) const {
    const Value m = in.slots[0] * options.momentum + in.gradient;
    const Value direction = options.nesterov ? in.gradient + m * options.momentum : m;
    Value move = in.learning_rate * Orthogonalized(direction);
    if (options.rms_rate.has_value()) {
      const auto& shape = in.variable.shape();
      const double longest = static_cast<double>(std::max(shape.dim(0), shape.dim(1)));
      move = move * (std::sqrt(longest) * *options.rms_rate);
    }
    return {in.variable - move, {m}};
  }
  UpdatedVariable ApplyAdam(const VariableUpdate& in) const {
    const auto seen = [&](double beta) { return 1.0 - PowerOf(beta, in.step); };
    const Value rate = in.learning_rate * options.adam_lr_ratio *
                       ir::Sqrt(seen(options.adam_beta_2)) / seen(options.adam_beta_1);
    const Value m = Averaged(in.slots[0], in.gradient, options.adam_beta_1);
    const Value v = Averaged(in.slots[1], ir::Square(in.gradient), options.adam_beta_2);
    return {in.variable - rate * m / (ir::Sqrt(v) + options.epsilon), {m, v}};
  }
  UpdatedVariable Apply(const VariableUpdate& in) const override {
    return ByAdam(in.name, in.variable.type()) ? ApplyAdam(in) : ApplyToMatrix(in);
  }

  void Fields(Config& config) override {
    config("adam_beta_1", options.adam_beta_1)("adam_beta_2", options.adam_beta_2)(
        "epsilon", options.epsilon)("exclude_layers", options.exclude_layers)(
        "muon_a", options.muon_a)("muon_b", options.muon_b)("muon_c", options.muon_c)(
        "adam_lr_ratio", options.adam_lr_ratio)("momentum", options.momentum)(
        "ns_steps", options.ns_steps)("nesterov", options.nesterov)("exclude_embeddings",
                                                                    options.exclude_embeddings)(
        "adam_weight_decay", options.adam_weight_decay)("rms_rate", options.rms_rate);
  }
  absl::Status Check() const override {
    PENSTOCK_RETURN_IF_ERROR(CheckBelow(*this, "adam_beta_1", options.adam_beta_1, 0, 1));
    PENSTOCK_RETURN_IF_ERROR(CheckBelow(*this, "adam_beta_2", options.adam_beta_2, 0, 1));
    return CheckWithin(*this, "momentum", options.momentum, 0, 1);
  }
};

}  // namespace

Optimizer Muon(const MuonOptions& options) { return MakeOptimizer<MuonBody>(options); }

}  // namespace penstock::nn
