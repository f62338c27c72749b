// In-place methods.
#include "penstock/lazy/ops.h"
#include "penstock/lazy/ops/build.h"
#include "penstock/lazy/random.h"
#include "penstock/lazy/tensor_methods.h"

namespace penstock::lazy {

using internal::PutResult;

Tensor& TensorMethods::clamp_(std::optional<Scalar> min, std::optional<Scalar> max,
                              SourceLocation where) {
  return PutResult("clamp_", Mutable(), lazy::clamp(Self(), min, max, where), where);
}
Tensor& TensorMethods::clamp_min_(Scalar min, SourceLocation where) {
  return PutResult("clamp_min_", Mutable(), lazy::clamp_min(Self(), min, where), where);
}
Tensor& TensorMethods::clamp_max_(Scalar max, SourceLocation where) {
  return PutResult("clamp_max_", Mutable(), lazy::clamp_max(Self(), max, where), where);
}
Tensor& TensorMethods::addcmul_(const Tensor& a, const Tensor& b, Scalar value,
                                SourceLocation where) {
  return PutResult("addcmul_", Mutable(), lazy::addcmul(Self(), a, b, value, where), where);
}
Tensor& TensorMethods::addcdiv_(const Tensor& a, const Tensor& b, Scalar value,
                                SourceLocation where) {
  return PutResult("addcdiv_", Mutable(), lazy::addcdiv(Self(), a, b, value, where), where);
}
Tensor& TensorMethods::masked_fill_(const Tensor& mask, Scalar value, SourceLocation where) {
  return PutResult("masked_fill_", Mutable(), lazy::masked_fill(Self(), mask, value, where), where);
}
Tensor& TensorMethods::scatter_add_(int64_t dim, const Tensor& index, const Tensor& src,
                                    SourceLocation where) {
  return PutResult("scatter_add_", Mutable(), lazy::scatter_add(Self(), dim, index, src, where),
                   where);
}
Tensor& TensorMethods::index_add_(int64_t dim, const Tensor& index, const Tensor& source,
                                  Scalar alpha, SourceLocation where) {
  return PutResult("index_add_", Mutable(),
                   lazy::index_add(Self(), dim, index, source, alpha, where), where);
}
Tensor& TensorMethods::abs_(SourceLocation where) {
  return PutResult("abs_", Mutable(), lazy::abs(Self(), where), where);
}
Tensor& TensorMethods::neg_(SourceLocation where) {
  return PutResult("neg_", Mutable(), lazy::neg(Self(), where), where);
}
Tensor& TensorMethods::exp_(SourceLocation where) {
  return PutResult("exp_", Mutable(), lazy::exp(Self(), where), where);
}
Tensor& TensorMethods::log_(SourceLocation where) {
  return PutResult("log_", Mutable(), lazy::log(Self(), where), where);
}
Tensor& TensorMethods::sqrt_(SourceLocation where) {
  return PutResult("sqrt_", Mutable(), lazy::sqrt(Self(), where), where);
}
Tensor& TensorMethods::rsqrt_(SourceLocation where) {
  return PutResult("rsqrt_", Mutable(), lazy::rsqrt(Self(), where), where);
}
Tensor& TensorMethods::reciprocal_(SourceLocation where) {
  return PutResult("reciprocal_", Mutable(), lazy::reciprocal(Self(), where), where);
}
Tensor& TensorMethods::sigmoid_(SourceLocation where) {
  return PutResult("sigmoid_", Mutable(), lazy::sigmoid(Self(), where), where);
}
Tensor& TensorMethods::tanh_(SourceLocation where) {
  return PutResult("tanh_", Mutable(), lazy::tanh(Self(), where), where);
}
Tensor& TensorMethods::relu_(SourceLocation where) {
  return PutResult("relu_", Mutable(), lazy::relu(Self(), where), where);
}
Tensor& TensorMethods::floor_(SourceLocation where) {
  return PutResult("floor_", Mutable(), lazy::floor(Self(), where), where);
}
Tensor& TensorMethods::ceil_(SourceLocation where) {
  return PutResult("ceil_", Mutable(), lazy::ceil(Self(), where), where);
}
Tensor& TensorMethods::round_(SourceLocation where) {
  return PutResult("round_", Mutable(), lazy::round(Self(), where), where);
}
Tensor& TensorMethods::trunc_(SourceLocation where) {
  return PutResult("trunc_", Mutable(), lazy::trunc(Self(), where), where);
}
Tensor& TensorMethods::lerp_(const Tensor& end, const Operand& weight) {
  return PutResult("lerp_", Mutable(), lazy::lerp(Self(), end, weight), weight.where());
}
Tensor& TensorMethods::pow_(const Operand& exponent) {
  return PutResult("pow_", Mutable(), lazy::pow(Operand(Self(), exponent.where()), exponent),
                   exponent.where());
}
Tensor& TensorMethods::scatter_(int64_t dim, const Tensor& index, const Operand& src) {
  return PutResult("scatter_", Mutable(), lazy::scatter(Self(), dim, index, src), src.where());
}

Tensor& TensorMethods::index_put_(const std::vector<Index>& indices, const Operand& value) {
  Tensor part = lazy::index(Self(), indices, value.where());
  for (const Index& index : indices) {
    if (!std::holds_alternative<Tensor>(index.value())) continue;
    FailOp("index_put_", {Self()},
           "indices are positions and slices; for tensors of indices use scatter or index_add",
           value.where());
    return Mutable();
  }
  if (value.is_scalar()) {
    part.fill_(value.scalar());
  } else {
    // PyTorch drops leading dims of the value if they have one element.
    Tensor given = value.tensor();
    while (given.defined() && part.defined() && given.dim() > part.dim() && given.size(0) == 1) {
      given = lazy::squeeze(given, 0, value.where());
    }
    part.copy_(given, value.where());
  }
  return Mutable();
}

Tensor& TensorMethods::normal_(double mean, double std, SourceLocation where) {
  const Shape shape = Self().sizes();
  const DType dtype = Self().dtype();
  return Mutable().copy_(
      internal::RandomOp("normal_", Self().device(), {}, where,
                         [=](ir::Value key, const ir::Values&) {
                           return ir::RandomNormal(key, {dtype, shape}, mean, std);
                         }),
      where);
}

Tensor& TensorMethods::uniform_(double from, double to, SourceLocation where) {
  const Shape shape = Self().sizes();
  const DType dtype = Self().dtype();
  return Mutable().copy_(
      internal::RandomOp("uniform_", Self().device(), {}, where,
                         [=](ir::Value key, const ir::Values&) {
                           return ir::RandomUniform(key, {dtype, shape}, from, to);
                         }),
      where);
}

Tensor& TensorMethods::bernoulli_(double p, SourceLocation where) {
  const Shape shape = Self().sizes();
  return Mutable().copy_(internal::RandomOp("bernoulli_", Self().device(), {}, where,
                                            [=](ir::Value key, const ir::Values&) {
                                              return ir::RandomBernoulli(key, shape, p);
                                            }),
                         where);
}

}  // namespace penstock::lazy
