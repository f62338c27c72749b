// Activations. Formulas and derivatives at the ends of their pieces are PyTorch's.
#include "absl/strings/str_cat.h"

#include "penstock/lazy/functional.h"
#include "penstock/lazy/ops/build.h"

namespace penstock::lazy::nn::functional {
namespace {

using ir::SplatLike;
using ir::Value;
using ir::Values;

Tensor Unary(absl::string_view name, const Tensor& x, SourceLocation where,
             const std::function<Value(Value)>& build) {
  if (!lazy::internal::RequireFloat(name, x, where)) return Tensor();
  return Record(name, {x}, where, [&](const Values& in) { return build(in[0]); });
}

Value Above(Value x, double limit, Value yes, Value no) {
  return ir::Select(ir::Greater(x, SplatLike(x, limit)), yes, no);
}

// x between the limits, the limits elsewhere; the derivative at them is 0.
Value Between(Value x, double low, double high) {
  const Value l = SplatLike(x, low), h = SplatLike(x, high);
  return ir::Select(ir::LessEqual(x, l), l, ir::Select(ir::GreaterEqual(x, h), h, x));
}

// exp is not evaluated above 0, where it could overflow.
Value EluValue(Value x, double alpha, double inverse_scale = 1) {
  const Value below = Above(x, 0, SplatLike(x, 0), inverse_scale == 1 ? x : x * inverse_scale);
  return Above(x, 0, x, ir::Expm1(below) * alpha);
}

}  // namespace

Tensor relu6(const Tensor& x, SourceLocation where) {
  return Unary("relu6", x, where, [](Value v) { return Between(v, 0, 6); });
}
Tensor leaky_relu(const Tensor& x, double negative_slope, SourceLocation where) {
  return Unary("leaky_relu", x, where, [=](Value v) { return Above(v, 0, v, v * negative_slope); });
}

Tensor prelu(const Tensor& input, const Tensor& slopes, SourceLocation where) {
  Tensor x = input, weight = slopes;
  Tensor* const both[] = {&x, &weight};
  lazy::internal::CastAll("prelu", both);
  const int64_t channels = x.dim() >= 2 ? x.size(1) : 1;
  if (weight.defined() &&
      (weight.dim() > 1 || (weight.numel() != 1 && weight.numel() != channels))) {
    return FailOp("prelu", {x, weight},
                  absl::StrCat("expects a weight of 1 or ", channels, " elements"), where);
  }
  return Record("prelu", {x, weight}, where, [](const Values& in) {
    std::vector<int64_t> shape(in[0].rank(), 1);
    if (in[0].rank() >= 2) shape[1] = -1;
    return Above(in[0], 0, in[0], in[0] * ir::Reshape(in[1], Shape(shape)));
  });
}

Tensor elu(const Tensor& x, double alpha, SourceLocation where) {
  return Unary("elu", x, where, [=](Value v) { return EluValue(v, alpha); });
}
// Klambauer et al.: Self-normalizing neural networks, 2017.
Tensor selu(const Tensor& x, SourceLocation where) {
  return Unary("selu", x, where,
               [](Value v) { return EluValue(v, 1.6732632423543772848) * 1.0507009873554804935; });
}
Tensor celu(const Tensor& x, double alpha, SourceLocation where) {
  if (alpha == 0) return FailOp("celu", {x}, "alpha must not be 0", where);
  return Unary("celu", x, where, [=](Value v) { return EluValue(v, alpha, 1 / alpha); });
}

Tensor gelu(const Tensor& x, absl::string_view approximate, SourceLocation where) {
  if (approximate != "none" && approximate != "tanh") {
    return FailOp(
        "gelu", {x},
        absl::StrCat("approximate must be \"none\" or \"tanh\", got \"", approximate, "\""), where);
  }
  const bool tanh = approximate == "tanh";
  return Unary("gelu", x, where, [=](Value v) { return ir::Gelu(v, tanh); });
}
Tensor silu(const Tensor& x, SourceLocation where) {
  return Unary("silu", x, where, [](Value v) { return v * ir::Sigmoid(v); });
}
Tensor mish(const Tensor& x, SourceLocation where) {
  return Unary("mish", x, where, [](Value v) { return v * ir::Tanh(ir::Softplus(v)); });
}
Tensor hardswish(const Tensor& x, SourceLocation where) {
  return Unary("hardswish", x, where, [](Value v) { return v * (Between(v + 3.0, 0, 6) / 6.0); });
}
Tensor hardsigmoid(const Tensor& x, SourceLocation where) {
  return Unary("hardsigmoid", x, where, [](Value v) { return Between(v + 3.0, 0, 6) / 6.0; });
}
Tensor hardtanh(const Tensor& x, double min_val, double max_val, SourceLocation where) {
  if (min_val >= max_val) return FailOp("hardtanh", {x}, "min_val must be below max_val", where);
  return Unary("hardtanh", x, where, [=](Value v) { return Between(v, min_val, max_val); });
}
Tensor softplus(const Tensor& x, double beta, double threshold, SourceLocation where) {
  if (beta == 0) return FailOp("softplus", {x}, "beta must not be 0", where);
  return Unary("softplus", lazy::internal::Cast("softplus", x), where, [=](Value v) {
    const Value scaled = beta == 1 ? v : v * beta;
    const Value smooth = ir::Softplus(scaled);
    return Above(scaled, threshold, v, beta == 1 ? smooth : smooth / beta);
  });
}
Tensor softsign(const Tensor& x, SourceLocation where) {
  return Unary("softsign", x, where, [](Value v) { return v / (ir::Abs(v) + 1.0); });
}
Tensor logsigmoid(const Tensor& x, SourceLocation where) {
  return Unary("logsigmoid", x, where, [](Value v) { return ir::LogSigmoid(v); });
}
Tensor tanhshrink(const Tensor& x, SourceLocation where) {
  return Unary("tanhshrink", x, where, [](Value v) { return v - ir::Tanh(v); });
}
Tensor softshrink(const Tensor& x, double lambda, SourceLocation where) {
  if (lambda < 0) return FailOp("softshrink", {x}, "lambda must not be negative", where);
  return Unary("softshrink", x, where, [=](Value v) {
    const Value below = ir::Select(ir::Less(v, SplatLike(v, -lambda)), v + lambda, SplatLike(v, 0));
    return Above(v, lambda, v - lambda, below);
  });
}
Tensor hardshrink(const Tensor& x, double lambda, SourceLocation where) {
  return Unary("hardshrink", x, where, [=](Value v) {
    const Value inside = ir::LessEqual(ir::Abs(v), SplatLike(v, lambda));
    return ir::Select(inside, SplatLike(v, 0), v);
  });
}
Tensor threshold(const Tensor& x, double threshold, double value, SourceLocation where) {
  return Unary("threshold", x, where, [=](Value v) {  // NaN stays, as in PyTorch
    return ir::Select(ir::LessEqual(v, SplatLike(v, threshold)), SplatLike(v, value), v);
  });
}

Tensor glu(const Tensor& x, int64_t dim, SourceLocation where) {
  if (!lazy::internal::ResolveDim("glu", x, dim, where)) return Tensor();
  if (x.dim() == 0 || x.size(dim) % 2 != 0) {
    return FailOp("glu", {x}, absl::StrCat("the size of dim ", dim, " must be even"), where);
  }
  return Unary("glu", x, where, [=](Value v) {
    const Values halves = ir::Split(v, 2, dim);
    return halves.size() == 2 ? halves[0] * ir::Sigmoid(halves[1]) : Value();
  });
}

Tensor softmin(const Tensor& x, int64_t dim, SourceLocation where) {
  return softmax(neg(x, where), dim, {}, where);
}

}  // namespace penstock::lazy::nn::functional
