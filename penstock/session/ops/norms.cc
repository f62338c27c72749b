// Norms and clipping by norms.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"

#include "penstock/session/ops/internal.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/ops/nn_ops.h"

namespace penstock::session {

using internal::In;
using internal::Reject;
using ir::Value;

namespace {

Value MatrixNorm(Value x, const std::string& ord, const ir::Axes& axes, bool keepdims) {
  if (ord == "1" || ord == "inf") {
    const size_t summed = ord == "1" ? 0 : 1;
    const Value sums = ir::ReduceSum(ir::Abs(x), {axes[summed]}, true);
    const Value largest = ir::ReduceMax(sums, {axes[1 - summed]}, true);
    return keepdims || !largest.valid() ? largest : ir::Squeeze(largest, axes);
  }
  return Reject(x, "the norm \"", ord,
                "\" of matrices is not implemented; there are euclidean, fro, 1 and inf");
}

Value VectorNorm(Value x, const std::string& ord, const ir::Axes& axes, bool keepdims) {
  if (ord == "inf") return ir::ReduceMax(ir::Abs(x), axes, keepdims);
  if (ord == "1") return ir::ReduceSum(ir::Abs(x), axes, keepdims);
  double p = 0;
  if (!absl::SimpleAtod(ord, &p) || !(p > 0)) {
    return Reject(x, "unknown norm \"", ord,
                  "\"; there are euclidean, fro, inf and positive numbers");
  }
  const Value sum = ir::ReduceSum(ir::Power(ir::Abs(x), ir::SplatLike(x, p)), axes, keepdims);
  return sum.valid() ? ir::Power(sum, ir::SplatLike(sum, 1 / p)) : sum;
}

Value NormOf(Value x, const std::string& ord, const Axes& axes, bool keepdims) {
  const std::optional<ir::Axes> list = internal::AxesIn(x, axes);
  if (!list.has_value()) return Value();
  const bool matrix = !axes.all() && list->size() == 2;
  if (ord == "euclidean" || (ord == "fro" && matrix) || (ord == "2" && !matrix)) {
    return ir::Sqrt(ir::ReduceSum(ir::Square(x), *list, keepdims));
  }
  if (ord == "fro") return Reject(x, "the norm \"fro\" needs two axes; use euclidean");
  return matrix ? MatrixNorm(x, ord, *list, keepdims) : VectorNorm(x, ord, *list, keepdims);
}

// Inputs of an operation on x with an operand.
Tensors WithOperand(const Tensor& x, const Operand& operand) {
  return operand.is_number() ? Tensors{x} : Tensors{x, operand.tensor()};
}

Value HalfSquares(Value x) { return ir::ReduceSum(ir::Square(x)) / 2.0; }

}  // namespace

Tensor Norm(const Tensor& tensor, absl::string_view ord, const Axes& axis,
            const NormOptions& options, SourceLocation where) {
  return AddOp("Norm", {tensor}, options.name, where,
               [ord = std::string(ord), axis, keepdims = options.keepdims](In in) {
                 return NormOf(in[0], ord, axis, keepdims);
               });
}

Tensor ClipByNorm(const Tensor& t, const Operand& clip_norm, const Axes& axes,
                  absl::string_view name, SourceLocation where) {
  return AddOp("ClipByNorm", WithOperand(t, clip_norm), name, where,
               [clip_norm, axes](In in) -> Value {
                 const std::optional<ir::Axes> list = internal::AxesIn(in[0], axes);
                 if (!list.has_value()) return Value();
                 const Value limit = internal::OperandValues(in, 1).Next(clip_norm, in[0]);
                 const Value sum = ir::ReduceSum(ir::Square(in[0]), *list, true);
                 if (!sum.valid()) return sum;
                 // sqrt has no gradient at 0.
                 const Value positive = ir::Greater(sum, ir::SplatLike(sum, 0));
                 const Value safe = ir::Select(positive, sum, ir::SplatLike(sum, 1));
                 const Value norm = ir::Select(positive, ir::Sqrt(safe), sum);
                 return in[0] * limit / ir::Maximum(norm, limit);
               });
}

Tensor ClipByAverageNorm(const Tensor& t, const Operand& clip_norm, absl::string_view name,
                         SourceLocation where) {
  return AddOp("ClipByAverageNorm", WithOperand(t, clip_norm), name, where,
               [clip_norm](In in) -> Value {
                 const Value limit = internal::OperandValues(in, 1).Next(clip_norm, in[0]);
                 const double count = static_cast<double>(in[0].shape().num_elements());
                 const Value norm = ir::Sqrt(ir::ReduceSum(ir::Square(in[0])));
                 const Value scale = ir::Minimum(count / norm, 1.0 / limit);
                 return in[0] * limit * scale;
               });
}

Tensor GlobalNorm(const Tensors& t_list, absl::string_view name, SourceLocation where) {
  Tensors valid;
  for (const Tensor& t : t_list) {
    if (t.valid()) valid.push_back(t);
  }
  if (valid.empty()) return FailOp({}, "GlobalNorm", "expects at least one tensor", where);
  return AddOp("GlobalNorm", valid, name, where, [](In in) -> Value {
    Value sum = HalfSquares(in[0]);
    for (size_t i = 1; i < in.size(); ++i) sum = sum + HalfSquares(in[i]);
    return ir::Sqrt(sum * 2.0);
  });
}

std::pair<Tensors, Tensor> ClipByGlobalNorm(const Tensors& t_list, const Operand& clip_norm,
                                            const Tensor& use_norm, absl::string_view name,
                                            SourceLocation where) {
  const Tensor norm = use_norm.valid() ? use_norm : GlobalNorm(t_list, "global_norm", where);
  const Tensor scale = AddOp(
      "ClipByGlobalNorm", WithOperand(norm, clip_norm), name, where, [clip_norm](In in) -> Value {
        const Value limit = internal::OperandValues(in, 1).Next(clip_norm, in[0]);
        const Value scale = limit * ir::Minimum(1.0 / in[0], 1.0 / limit);
        // A norm that is not finite makes the result NaN, so that the failure is seen.
        return scale + (in[0] - in[0]);
      });
  Tensors clipped;
  for (const Tensor& t : t_list) {
    clipped.push_back(t.valid() ? Multiply(t, scale, "", where) : Tensor());
  }
  return {clipped, norm};
}

Tensor nn::L2Normalize(const Tensor& x, const Axes& axis, double epsilon, absl::string_view name,
                       SourceLocation where) {
  return AddOp("L2Normalize", {x}, name, where, [axis, epsilon](In in) -> Value {
    const std::optional<ir::Axes> list = internal::AxesIn(in[0], axis);
    if (!list.has_value()) return Value();
    const Value sum = ir::ReduceSum(ir::Square(in[0]), *list, true);
    return in[0] * ir::Rsqrt(ir::Maximum(sum, internal::ScalarLike(sum, epsilon)));
  });
}

Tensor nn::L2Loss(const Tensor& t, absl::string_view name, SourceLocation where) {
  return AddOp("L2Loss", {t}, name, where, [](In in) { return HalfSquares(in[0]); });
}

}  // namespace penstock::session
