// Method forms of functions, beside those of methods.cc.
#include "penstock/lazy/ops.h"
#include "penstock/lazy/ops/build.h"
#include "penstock/lazy/tensor_methods.h"

namespace penstock::lazy {

namespace {

TensorOptions Like(const Tensor& x) { return {.dtype = x.dtype(), .device = x.device()}; }

}  // namespace

Tensor TensorMethods::erfinv(SourceLocation where) const { return lazy::erfinv(Self(), where); }
Tensor TensorMethods::exp2(SourceLocation where) const { return lazy::exp2(Self(), where); }
Tensor TensorMethods::asinh(SourceLocation where) const { return lazy::asinh(Self(), where); }
Tensor TensorMethods::acosh(SourceLocation where) const { return lazy::acosh(Self(), where); }
Tensor TensorMethods::atanh(SourceLocation where) const { return lazy::atanh(Self(), where); }
Tensor TensorMethods::logit(std::optional<double> eps, SourceLocation where) const {
  return lazy::logit(Self(), eps, where);
}
Tensor TensorMethods::frac(SourceLocation where) const { return lazy::frac(Self(), where); }
Tensor TensorMethods::fmax(const Operand& b) const { return lazy::fmax(Self(), b); }
Tensor TensorMethods::fmin(const Operand& b) const { return lazy::fmin(Self(), b); }
Tensor TensorMethods::hypot(const Operand& b) const { return lazy::hypot(Self(), b); }
Tensor TensorMethods::isclose(const Tensor& b, double rtol, double atol, bool equal_nan,
                              SourceLocation where) const {
  return lazy::isclose(Self(), b, rtol, atol, equal_nan, where);
}
Tensor TensorMethods::cross(const Tensor& b, std::optional<int64_t> dim,
                            SourceLocation where) const {
  return lazy::cross(Self(), b, dim, where);
}
Tensor TensorMethods::kron(const Tensor& b, SourceLocation where) const {
  return lazy::kron(Self(), b, where);
}
Tensor TensorMethods::nansum(const Sizes& dim, bool keepdim, SourceLocation where) const {
  return lazy::nansum(Self(), dim, keepdim, where);
}
Tensor TensorMethods::nanmean(const Sizes& dim, bool keepdim, SourceLocation where) const {
  return lazy::nanmean(Self(), dim, keepdim, where);
}
std::pair<Tensor, Tensor> TensorMethods::aminmax(std::optional<int64_t> dim, bool keepdim,
                                                 SourceLocation where) const {
  return lazy::aminmax(Self(), dim, keepdim, where);
}
Tensor TensorMethods::trace(SourceLocation where) const { return lazy::trace(Self(), where); }
Tensor TensorMethods::quantile(double q, std::optional<int64_t> dim, bool keepdim,
                               SourceLocation where) const {
  return lazy::quantile(Self(), q, dim, keepdim, "linear", where);
}
ValuesAndIndices TensorMethods::cummax(int64_t dim, SourceLocation where) const {
  return lazy::cummax(Self(), dim, where);
}
ValuesAndIndices TensorMethods::cummin(int64_t dim, SourceLocation where) const {
  return lazy::cummin(Self(), dim, where);
}
Tensor TensorMethods::logcumsumexp(int64_t dim, SourceLocation where) const {
  return lazy::logcumsumexp(Self(), dim, where);
}
ValuesAndIndices TensorMethods::kthvalue(int64_t k, int64_t dim, bool keepdim,
                                         SourceLocation where) const {
  return lazy::kthvalue(Self(), k, dim, keepdim, where);
}
Tensor TensorMethods::swapaxes(int64_t axis0, int64_t axis1, SourceLocation where) const {
  return lazy::swapaxes(Self(), axis0, axis1, where);
}
Tensor TensorMethods::swapdims(int64_t dim0, int64_t dim1, SourceLocation where) const {
  return lazy::swapdims(Self(), dim0, dim1, where);
}
Tensor TensorMethods::view_as(const Tensor& other, SourceLocation where) const {
  return lazy::view(Self(), other.sizes(), where);
}
Tensor TensorMethods::reshape_as(const Tensor& other, SourceLocation where) const {
  return lazy::reshape(Self(), other.sizes(), where);
}
Tensor TensorMethods::fliplr(SourceLocation where) const { return lazy::fliplr(Self(), where); }
Tensor TensorMethods::flipud(SourceLocation where) const { return lazy::flipud(Self(), where); }
Tensor TensorMethods::rot90(int64_t k, const Sizes& dims, SourceLocation where) const {
  return lazy::rot90(Self(), k, dims, where);
}
Tensor TensorMethods::diag_embed(int64_t offset, int64_t dim1, int64_t dim2,
                                 SourceLocation where) const {
  return lazy::diag_embed(Self(), offset, dim1, dim2, where);
}
Tensor TensorMethods::index_fill(int64_t dim, const Tensor& index, Scalar value,
                                 SourceLocation where) const {
  return lazy::index_fill(Self(), dim, index, value, where);
}
Tensor TensorMethods::index_copy(int64_t dim, const Tensor& index, const Tensor& source,
                                 SourceLocation where) const {
  return lazy::index_copy(Self(), dim, index, source, where);
}
Tensor TensorMethods::masked_scatter(const Tensor& mask, const Tensor& source,
                                     SourceLocation where) const {
  return lazy::masked_scatter(Self(), mask, source, where);
}
Tensor TensorMethods::bincount(const Tensor& weights, int64_t minlength,
                               SourceLocation where) const {
  return lazy::bincount(Self(), weights, minlength, where);
}
Tensor TensorMethods::histc(int64_t bins, double min, double max, SourceLocation where) const {
  return lazy::histc(Self(), bins, min, max, where);
}
Tensor TensorMethods::new_zeros(const Sizes& size, SourceLocation where) const {
  return lazy::zeros(size, Like(Self()), where);
}
Tensor TensorMethods::new_ones(const Sizes& size, SourceLocation where) const {
  return lazy::ones(size, Like(Self()), where);
}
Tensor TensorMethods::new_full(const Sizes& size, Scalar value, SourceLocation where) const {
  return lazy::full(size, value, Like(Self()), where);
}
Tensor TensorMethods::new_empty(const Sizes& size, SourceLocation where) const {
  return lazy::empty(size, Like(Self()), where);
}
Tensor& TensorMethods::index_fill_(int64_t dim, const Tensor& index, Scalar value,
                                   SourceLocation where) {
  return internal::PutResult("index_fill_", Mutable(),
                             lazy::index_fill(Self(), dim, index, value, where), where);
}
Tensor& TensorMethods::index_copy_(int64_t dim, const Tensor& index, const Tensor& source,
                                   SourceLocation where) {
  return internal::PutResult("index_copy_", Mutable(),
                             lazy::index_copy(Self(), dim, index, source, where), where);
}
Tensor& TensorMethods::masked_scatter_(const Tensor& mask, const Tensor& source,
                                       SourceLocation where) {
  return internal::PutResult("masked_scatter_", Mutable(),
                             lazy::masked_scatter(Self(), mask, source, where), where);
}

}  // namespace penstock::lazy
