// Activations and cross entropies: the formulas of ::penstock::nn.
#include "penstock/nn/activations.h"

#include <cmath>
#include <string>

#include "penstock/session/ops/internal.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/ops/nn_ops.h"

namespace penstock::session::nn {

using internal::In;
using internal::Reject;
using ir::Value;

namespace {

Tensor AddActivation(absl::string_view type, const std::string& activation, const Tensor& x,
                     absl::string_view name, SourceLocation where) {
  return AddOp(type, {x}, name, where,
               [activation](In in) { return ::penstock::nn::Activate(activation, in[0]); });
}

Tensor AddOverAxis(absl::string_view type, const Tensor& logits, int64_t axis,
                   absl::string_view name, SourceLocation where,
                   Value (*function)(Value x, int64_t axis)) {
  return AddOp(type, {logits}, name, where, [axis, function](In in) -> Value {
    const auto at = internal::AxisIn(in[0], axis);
    return at.has_value() ? function(in[0], *at) : Value();
  });
}

Tensor AddSoftmaxCrossEntropy(const Tensor& labels, const Tensor& logits, int64_t axis,
                              absl::string_view name, SourceLocation where, bool stop) {
  return AddOp("SoftmaxCrossEntropyWithLogits", {labels, logits},
               name.empty() ? "softmax_cross_entropy_with_logits" : name, where,
               [axis, stop](In in) -> Value {
                 const auto at = internal::AxisIn(in[1], axis);
                 if (!at.has_value()) return Value();
                 if (!base::IsFloat(in[1].dtype())) {
                   return Reject(in[1], "expects float logits, got ", in[1].type().ToString());
                 }
                 const Value probabilities = ir::Convert(in[0], in[1].dtype());
                 const Value weights = stop ? ir::StopGradient(probabilities) : probabilities;
                 if (!weights.valid() || weights.rank() != in[1].rank()) {
                   return Reject(in[1], "expects labels of the logits' shape, got labels ",
                                 in[0].type().ToString(), " and logits ", in[1].type().ToString());
                 }
                 return -ir::ReduceSum(weights * ir::LogSoftmax(in[1], *at), {*at});
               });
}

Value SameShapes(In in, const std::function<Value(Value labels, Value logits)>& function) {
  if (in[0].type() == in[1].type()) return function(in[0], in[1]);
  return Reject(in[0], "expects labels and logits of one type and shape, got labels ",
                in[0].type().ToString(), " and logits ", in[1].type().ToString());
}

}  // namespace

#define PENSTOCK_ACTIVATION_(name_, activation_)                                       \
  Tensor name_(const Tensor& features, absl::string_view name, SourceLocation where) { \
    return AddActivation(#name_, activation_, features, name, where);                  \
  }
PENSTOCK_ACTIVATION_(Relu, "relu")
PENSTOCK_ACTIVATION_(Relu6, "relu6")
PENSTOCK_ACTIVATION_(Elu, "elu")
PENSTOCK_ACTIVATION_(Softplus, "softplus")
PENSTOCK_ACTIVATION_(Softsign, "softsign")
PENSTOCK_ACTIVATION_(Swish, "silu")
#undef PENSTOCK_ACTIVATION_

// That of room nn, whose gradient at 0 is that of the negative side, as in JAX; TensorFlow's is the
// positive side's.
Tensor Selu(const Tensor& features, absl::string_view name, SourceLocation where) {
  return AddOp("Selu", {features}, name, where, [](In in) -> Value {
    const Value negative = ::penstock::nn::Activate("selu", in[0]);
    if (!negative.valid()) return negative;
    constexpr double kScale = 1.0507009873554804935;
    return ir::Select(ir::Less(in[0], ir::SplatLike(in[0], 0)), negative, in[0] * kScale);
  });
}

Tensor Crelu(const Tensor& features, absl::string_view name, int64_t axis, SourceLocation where) {
  return AddOp("CRelu", {features}, name, where, [axis](In in) -> Value {
    const auto at = internal::AxisIn(in[0], axis);
    if (!at.has_value()) return Value();
    return ir::Concatenate({ir::Relu(in[0]), ir::Relu(-in[0])}, *at);
  });
}

Tensor LeakyRelu(const Tensor& features, double alpha, absl::string_view name,
                 SourceLocation where) {
  return AddOp("LeakyRelu", {features}, name, where, [alpha](In in) -> Value {
    // TensorFlow converts integers, too.
    const bool is_integer = base::IsInteger(in[0].dtype());
    const Value x = is_integer ? ir::Convert(in[0], DType::kF32) : in[0];
    if (!base::IsFloat(x.dtype())) return Reject(x, "expects numbers, got ", x.type().ToString());
    return ir::Select(ir::Greater(x, ir::SplatLike(x, 0)), x, x * alpha);
  });
}

Tensor Gelu(const Tensor& features, bool approximate, absl::string_view name,
            SourceLocation where) {
  return AddOp("Gelu", {features}, name, where,
               [approximate](In in) { return ir::Gelu(in[0], approximate); });
}

Tensor Sigmoid(const Tensor& x, absl::string_view name, SourceLocation where) {
  return session::Sigmoid(x, name, where);
}

Tensor Tanh(const Tensor& x, absl::string_view name, SourceLocation where) {
  return session::Tanh(x, name, where);
}

Tensor Softmax(const Tensor& logits, int64_t axis, absl::string_view name, SourceLocation where) {
  return AddOverAxis("Softmax", logits, axis, name, where, ir::Softmax);
}

Tensor LogSoftmax(const Tensor& logits, int64_t axis, absl::string_view name,
                  SourceLocation where) {
  return AddOverAxis("LogSoftmax", logits, axis, name, where, ir::LogSoftmax);
}

Tensor SoftmaxCrossEntropyWithLogits(const Tensor& labels, const Tensor& logits, int64_t axis,
                                     absl::string_view name, SourceLocation where) {
  return AddSoftmaxCrossEntropy(labels, logits, axis, name, where, /*stop=*/true);
}

Tensor SoftmaxCrossEntropyWithLogitsV2(const Tensor& labels, const Tensor& logits, int64_t axis,
                                       absl::string_view name, SourceLocation where) {
  return AddSoftmaxCrossEntropy(labels, logits, axis, name, where, /*stop=*/false);
}

Tensor SparseSoftmaxCrossEntropyWithLogits(const Tensor& labels, const Tensor& logits,
                                           absl::string_view name, SourceLocation where) {
  return AddOp(
      "SparseSoftmaxCrossEntropyWithLogits", {labels, logits}, name, where, [](In in) -> Value {
        const Value y = internal::Widened(in[0]), x = in[1];
        const bool fits = x.rank() >= 1 && y.rank() == x.rank() - 1;
        if (!fits || !std::equal(y.shape().begin(), y.shape().end(), x.shape().begin()) ||
            !base::IsInteger(y.dtype())) {
          return Reject(x,
                        "expects integer labels of the logits' shape without the last "
                        "axis, got labels ",
                        in[0].type().ToString(), " and logits ", x.type().ToString());
        }
        // As ::penstock::nn does: a masked sum instead of a gather.
        const Value hot = ir::OneHot(y, x.shape().dim(-1), DType::kBool);
        const Value loss =
            -ir::ReduceSum(ir::Select(hot, ir::LogSoftmax(x), internal::ScalarLike(x, 0)), {-1});
        const Value known =
            ir::And(ir::GreaterEqual(y, internal::ScalarLike(y, 0)),
                    ir::Less(y, internal::ScalarLike(y, static_cast<double>(x.shape().dim(-1)))));
        return ir::Select(known, loss, internal::ScalarLike(x, std::nan("")));
      });
}

Tensor SigmoidCrossEntropyWithLogits(const Tensor& labels, const Tensor& logits,
                                     absl::string_view name, SourceLocation where) {
  return AddOp("SigmoidCrossEntropyWithLogits", {labels, logits},
               name.empty() ? "logistic_loss" : name, where, [](In in) {
                 // max(x, 0) - x z + log(1 + exp(-|x|)).
                 return SameShapes(in, [](Value z, Value x) { return ir::Softplus(x) - x * z; });
               });
}

Tensor WeightedCrossEntropyWithLogits(const Tensor& labels, const Tensor& logits,
                                      const Operand& pos_weight, absl::string_view name,
                                      SourceLocation where) {
  Tensors inputs{labels, logits};
  if (!pos_weight.is_number()) inputs.push_back(pos_weight.tensor());
  return AddOp("WeightedCrossEntropyWithLogits", inputs, name.empty() ? "logistic_loss" : name,
               where, [pos_weight](In in) {
                 return SameShapes(in, [&](Value z, Value x) {
                   const Value q = internal::OperandValues(in, 2).Next(pos_weight, x);
                   return (1.0 - z) * x + ((q - 1.0) * z + 1.0) * ir::Softplus(-x);
                 });
               });
}

Tensor LogPoissonLoss(const Tensor& targets, const Tensor& log_input,
                      const LogPoissonLossOptions& options, SourceLocation where) {
  return AddOp("LogPoissonLoss", {targets, log_input},
               options.name.empty() ? "log_poisson_loss" : options.name, where,
               [full = options.compute_full_loss](In in) {
                 return SameShapes(in, [&](Value z, Value x) -> Value {
                   const Value loss = ir::Exp(x) - x * z;
                   if (!full || !loss.valid()) return loss;
                   const Value zero = ir::SplatLike(z, 0), one = ir::SplatLike(z, 1);
                   const Value small = ir::And(ir::GreaterEqual(z, zero), ir::LessEqual(z, one));
                   const Value safe = ir::Select(small, one, z);
                   const Value stirling =
                       safe * ir::Log(safe) - safe + ir::Log(safe * (2 * M_PI)) * 0.5;
                   return loss + ir::Select(small, zero, stirling);
                 });
               });
}

}  // namespace penstock::session::nn
