#include "penstock/lazy/ops.h"
#include "penstock/lazy/tensor_methods.h"

namespace penstock::lazy {

const Tensor& TensorMethods::Self() const { return static_cast<const Tensor&>(*this); }
Tensor& TensorMethods::Mutable() { return static_cast<Tensor&>(*this); }

Tensor TensorMethods::abs(SourceLocation where) const { return lazy::abs(Self(), where); }
Tensor TensorMethods::neg(SourceLocation where) const { return lazy::neg(Self(), where); }
Tensor TensorMethods::sign(SourceLocation where) const { return lazy::sign(Self(), where); }
Tensor TensorMethods::square(SourceLocation where) const { return lazy::square(Self(), where); }
Tensor TensorMethods::exp(SourceLocation where) const { return lazy::exp(Self(), where); }
Tensor TensorMethods::expm1(SourceLocation where) const { return lazy::expm1(Self(), where); }
Tensor TensorMethods::log(SourceLocation where) const { return lazy::log(Self(), where); }
Tensor TensorMethods::log1p(SourceLocation where) const { return lazy::log1p(Self(), where); }
Tensor TensorMethods::log2(SourceLocation where) const { return lazy::log2(Self(), where); }
Tensor TensorMethods::log10(SourceLocation where) const { return lazy::log10(Self(), where); }
Tensor TensorMethods::sqrt(SourceLocation where) const { return lazy::sqrt(Self(), where); }
Tensor TensorMethods::rsqrt(SourceLocation where) const { return lazy::rsqrt(Self(), where); }
Tensor TensorMethods::reciprocal(SourceLocation where) const {
  return lazy::reciprocal(Self(), where);
}
Tensor TensorMethods::sin(SourceLocation where) const { return lazy::sin(Self(), where); }
Tensor TensorMethods::cos(SourceLocation where) const { return lazy::cos(Self(), where); }
Tensor TensorMethods::tan(SourceLocation where) const { return lazy::tan(Self(), where); }
Tensor TensorMethods::asin(SourceLocation where) const { return lazy::asin(Self(), where); }
Tensor TensorMethods::acos(SourceLocation where) const { return lazy::acos(Self(), where); }
Tensor TensorMethods::atan(SourceLocation where) const { return lazy::atan(Self(), where); }
Tensor TensorMethods::sinh(SourceLocation where) const { return lazy::sinh(Self(), where); }
Tensor TensorMethods::cosh(SourceLocation where) const { return lazy::cosh(Self(), where); }
Tensor TensorMethods::tanh(SourceLocation where) const { return lazy::tanh(Self(), where); }
Tensor TensorMethods::sigmoid(SourceLocation where) const { return lazy::sigmoid(Self(), where); }
Tensor TensorMethods::erf(SourceLocation where) const { return lazy::erf(Self(), where); }
Tensor TensorMethods::erfc(SourceLocation where) const { return lazy::erfc(Self(), where); }
Tensor TensorMethods::floor(SourceLocation where) const { return lazy::floor(Self(), where); }
Tensor TensorMethods::ceil(SourceLocation where) const { return lazy::ceil(Self(), where); }
Tensor TensorMethods::round(SourceLocation where) const { return lazy::round(Self(), where); }
Tensor TensorMethods::trunc(SourceLocation where) const { return lazy::trunc(Self(), where); }
Tensor TensorMethods::relu(SourceLocation where) const { return lazy::relu(Self(), where); }
Tensor TensorMethods::isnan(SourceLocation where) const { return lazy::isnan(Self(), where); }
Tensor TensorMethods::isinf(SourceLocation where) const { return lazy::isinf(Self(), where); }
Tensor TensorMethods::isfinite(SourceLocation where) const { return lazy::isfinite(Self(), where); }
Tensor TensorMethods::logical_not(SourceLocation where) const {
  return lazy::logical_not(Self(), where);
}
Tensor TensorMethods::bitwise_not(SourceLocation where) const {
  return lazy::bitwise_not(Self(), where);
}
Tensor TensorMethods::nan_to_num(double nan, std::optional<double> posinf,
                                 std::optional<double> neginf, SourceLocation where) const {
  return lazy::nan_to_num(Self(), nan, posinf, neginf, where);
}
Tensor TensorMethods::clone(SourceLocation where) const { return lazy::clone(Self(), where); }
Tensor TensorMethods::contiguous(SourceLocation where) const {
  return lazy::contiguous(Self(), where);
}
Tensor TensorMethods::add(const Operand& b, Scalar alpha) const {
  return lazy::add(Operand(Self(), b.where()), b, alpha);
}
Tensor TensorMethods::sub(const Operand& b, Scalar alpha) const {
  return lazy::sub(Operand(Self(), b.where()), b, alpha);
}
Tensor TensorMethods::mul(const Operand& b) const {
  return lazy::mul(Operand(Self(), b.where()), b);
}
Tensor TensorMethods::div(const Operand& b) const {
  return lazy::div(Operand(Self(), b.where()), b);
}
Tensor TensorMethods::div(const Operand& b, absl::string_view rounding_mode) const {
  return lazy::div(Operand(Self(), b.where()), b, rounding_mode);
}
Tensor TensorMethods::floor_divide(const Operand& b) const {
  return lazy::floor_divide(Operand(Self(), b.where()), b);
}
Tensor TensorMethods::remainder(const Operand& b) const {
  return lazy::remainder(Operand(Self(), b.where()), b);
}
Tensor TensorMethods::fmod(const Operand& b) const {
  return lazy::fmod(Operand(Self(), b.where()), b);
}
Tensor TensorMethods::pow(const Operand& b) const {
  return lazy::pow(Operand(Self(), b.where()), b);
}
Tensor TensorMethods::atan2(const Operand& b) const {
  return lazy::atan2(Operand(Self(), b.where()), b);
}
Tensor TensorMethods::maximum(const Operand& b) const {
  return lazy::maximum(Operand(Self(), b.where()), b);
}
Tensor TensorMethods::minimum(const Operand& b) const {
  return lazy::minimum(Operand(Self(), b.where()), b);
}
Tensor TensorMethods::logaddexp(const Operand& b) const {
  return lazy::logaddexp(Operand(Self(), b.where()), b);
}
Tensor TensorMethods::logical_and(const Operand& b) const {
  return lazy::logical_and(Operand(Self(), b.where()), b);
}
Tensor TensorMethods::logical_or(const Operand& b) const {
  return lazy::logical_or(Operand(Self(), b.where()), b);
}
Tensor TensorMethods::logical_xor(const Operand& b) const {
  return lazy::logical_xor(Operand(Self(), b.where()), b);
}
Tensor TensorMethods::bitwise_and(const Operand& b) const {
  return lazy::bitwise_and(Operand(Self(), b.where()), b);
}
Tensor TensorMethods::bitwise_or(const Operand& b) const {
  return lazy::bitwise_or(Operand(Self(), b.where()), b);
}
Tensor TensorMethods::bitwise_xor(const Operand& b) const {
  return lazy::bitwise_xor(Operand(Self(), b.where()), b);
}
Tensor TensorMethods::eq(const Operand& b) const { return lazy::eq(Operand(Self(), b.where()), b); }
Tensor TensorMethods::ne(const Operand& b) const { return lazy::ne(Operand(Self(), b.where()), b); }
Tensor TensorMethods::lt(const Operand& b) const { return lazy::lt(Operand(Self(), b.where()), b); }
Tensor TensorMethods::le(const Operand& b) const { return lazy::le(Operand(Self(), b.where()), b); }
Tensor TensorMethods::gt(const Operand& b) const { return lazy::gt(Operand(Self(), b.where()), b); }
Tensor TensorMethods::ge(const Operand& b) const { return lazy::ge(Operand(Self(), b.where()), b); }
Tensor TensorMethods::masked_fill(const Tensor& mask, Scalar value, SourceLocation where) const {
  return lazy::masked_fill(Self(), mask, value, where);
}
Tensor TensorMethods::clamp(std::optional<Scalar> min, std::optional<Scalar> max,
                            SourceLocation where) const {
  return lazy::clamp(Self(), min, max, where);
}
Tensor TensorMethods::clip(std::optional<Scalar> min, std::optional<Scalar> max,
                           SourceLocation where) const {
  return lazy::clip(Self(), min, max, where);
}
Tensor TensorMethods::clamp_min(Scalar min, SourceLocation where) const {
  return lazy::clamp_min(Self(), min, where);
}
Tensor TensorMethods::clamp_max(Scalar max, SourceLocation where) const {
  return lazy::clamp_max(Self(), max, where);
}
Tensor TensorMethods::lerp(const Tensor& end, const Operand& weight) const {
  return lazy::lerp(Self(), end, weight);
}
Tensor TensorMethods::addcmul(const Tensor& a, const Tensor& b, Scalar value,
                              SourceLocation where) const {
  return lazy::addcmul(Self(), a, b, value, where);
}
Tensor TensorMethods::addcdiv(const Tensor& a, const Tensor& b, Scalar value,
                              SourceLocation where) const {
  return lazy::addcdiv(Self(), a, b, value, where);
}
Tensor TensorMethods::matmul(const Tensor& b, SourceLocation where) const {
  return lazy::matmul(Self(), b, where);
}
Tensor TensorMethods::mm(const Tensor& b, SourceLocation where) const {
  return lazy::mm(Self(), b, where);
}
Tensor TensorMethods::bmm(const Tensor& b, SourceLocation where) const {
  return lazy::bmm(Self(), b, where);
}
Tensor TensorMethods::mv(const Tensor& b, SourceLocation where) const {
  return lazy::mv(Self(), b, where);
}
Tensor TensorMethods::dot(const Tensor& b, SourceLocation where) const {
  return lazy::dot(Self(), b, where);
}
Tensor TensorMethods::outer(const Tensor& b, SourceLocation where) const {
  return lazy::outer(Self(), b, where);
}
Tensor TensorMethods::addmm(const Tensor& a, const Tensor& b, double beta, double alpha,
                            SourceLocation where) const {
  return lazy::addmm(Self(), a, b, beta, alpha, where);
}
Tensor TensorMethods::baddbmm(const Tensor& a, const Tensor& b, double beta, double alpha,
                              SourceLocation where) const {
  return lazy::baddbmm(Self(), a, b, beta, alpha, where);
}
Tensor TensorMethods::sum(const Sizes& dim, bool keepdim, SourceLocation where) const {
  return lazy::sum(Self(), dim, keepdim, where);
}
Tensor TensorMethods::mean(const Sizes& dim, bool keepdim, SourceLocation where) const {
  return lazy::mean(Self(), dim, keepdim, where);
}
Tensor TensorMethods::prod(std::optional<int64_t> dim, bool keepdim, SourceLocation where) const {
  return lazy::prod(Self(), dim, keepdim, where);
}
Tensor TensorMethods::amax(const Sizes& dim, bool keepdim, SourceLocation where) const {
  return lazy::amax(Self(), dim, keepdim, where);
}
Tensor TensorMethods::amin(const Sizes& dim, bool keepdim, SourceLocation where) const {
  return lazy::amin(Self(), dim, keepdim, where);
}
Tensor TensorMethods::var(const Sizes& dim, bool unbiased, bool keepdim,
                          SourceLocation where) const {
  return lazy::var(Self(), dim, unbiased, keepdim, where);
}
Tensor TensorMethods::std(const Sizes& dim, bool unbiased, bool keepdim,
                          SourceLocation where) const {
  return lazy::std(Self(), dim, unbiased, keepdim, where);
}
Tensor TensorMethods::norm(double p, const Sizes& dim, bool keepdim, SourceLocation where) const {
  return lazy::norm(Self(), p, dim, keepdim, where);
}
Tensor TensorMethods::logsumexp(const Sizes& dim, bool keepdim, SourceLocation where) const {
  return lazy::logsumexp(Self(), dim, keepdim, where);
}
Tensor TensorMethods::any(std::optional<int64_t> dim, bool keepdim, SourceLocation where) const {
  return lazy::any(Self(), dim, keepdim, where);
}
Tensor TensorMethods::all(std::optional<int64_t> dim, bool keepdim, SourceLocation where) const {
  return lazy::all(Self(), dim, keepdim, where);
}
Tensor TensorMethods::count_nonzero(std::optional<int64_t> dim, SourceLocation where) const {
  return lazy::count_nonzero(Self(), dim, where);
}
Tensor TensorMethods::argmax(std::optional<int64_t> dim, bool keepdim, SourceLocation where) const {
  return lazy::argmax(Self(), dim, keepdim, where);
}
Tensor TensorMethods::argmin(std::optional<int64_t> dim, bool keepdim, SourceLocation where) const {
  return lazy::argmin(Self(), dim, keepdim, where);
}
Tensor TensorMethods::max(SourceLocation where) const { return lazy::max(Self(), where); }
Tensor TensorMethods::min(SourceLocation where) const { return lazy::min(Self(), where); }
ValuesAndIndices TensorMethods::max(int64_t dim, bool keepdim, SourceLocation where) const {
  return lazy::max(Self(), dim, keepdim, where);
}
ValuesAndIndices TensorMethods::min(int64_t dim, bool keepdim, SourceLocation where) const {
  return lazy::min(Self(), dim, keepdim, where);
}
Tensor TensorMethods::median(SourceLocation where) const { return lazy::median(Self(), where); }
ValuesAndIndices TensorMethods::median(int64_t dim, bool keepdim, SourceLocation where) const {
  return lazy::median(Self(), dim, keepdim, where);
}
Tensor TensorMethods::cumsum(int64_t dim, SourceLocation where) const {
  return lazy::cumsum(Self(), dim, where);
}
Tensor TensorMethods::cumprod(int64_t dim, SourceLocation where) const {
  return lazy::cumprod(Self(), dim, where);
}
ValuesAndIndices TensorMethods::topk(int64_t k, int64_t dim, bool largest, bool sorted,
                                     SourceLocation where) const {
  return lazy::topk(Self(), k, dim, largest, sorted, where);
}
ValuesAndIndices TensorMethods::sort(int64_t dim, bool descending, SourceLocation where) const {
  return lazy::sort(Self(), dim, descending, where);
}
Tensor TensorMethods::argsort(int64_t dim, bool descending, SourceLocation where) const {
  return lazy::argsort(Self(), dim, descending, where);
}
Tensor TensorMethods::softmax(int64_t dim, std::optional<DType> dtype, SourceLocation where) const {
  return lazy::softmax(Self(), dim, dtype, where);
}
Tensor TensorMethods::log_softmax(int64_t dim, std::optional<DType> dtype,
                                  SourceLocation where) const {
  return lazy::log_softmax(Self(), dim, dtype, where);
}
Tensors TensorMethods::split(int64_t split_size, int64_t dim, SourceLocation where) const {
  return lazy::split(Self(), split_size, dim, where);
}
Tensors TensorMethods::split(const std::vector<int64_t>& sizes, int64_t dim,
                             SourceLocation where) const {
  return lazy::split(Self(), sizes, dim, where);
}
Tensors TensorMethods::chunk(int64_t chunks, int64_t dim, SourceLocation where) const {
  return lazy::chunk(Self(), chunks, dim, where);
}
Tensors TensorMethods::unbind(int64_t dim, SourceLocation where) const {
  return lazy::unbind(Self(), dim, where);
}
Tensor TensorMethods::reshape(const Sizes& shape, SourceLocation where) const {
  return lazy::reshape(Self(), shape, where);
}
Tensor TensorMethods::view(const Sizes& shape, SourceLocation where) const {
  return lazy::view(Self(), shape, where);
}
Tensor TensorMethods::flatten(int64_t start_dim, int64_t end_dim, SourceLocation where) const {
  return lazy::flatten(Self(), start_dim, end_dim, where);
}
Tensor TensorMethods::unflatten(int64_t dim, const Sizes& sizes, SourceLocation where) const {
  return lazy::unflatten(Self(), dim, sizes, where);
}
Tensor TensorMethods::unsqueeze(int64_t dim, SourceLocation where) const {
  return lazy::unsqueeze(Self(), dim, where);
}
Tensor TensorMethods::squeeze(SourceLocation where) const { return lazy::squeeze(Self(), where); }
Tensor TensorMethods::squeeze(int64_t dim, SourceLocation where) const {
  return lazy::squeeze(Self(), dim, where);
}
Tensor TensorMethods::permute(const Sizes& dims, SourceLocation where) const {
  return lazy::permute(Self(), dims, where);
}
Tensor TensorMethods::transpose(int64_t dim0, int64_t dim1, SourceLocation where) const {
  return lazy::transpose(Self(), dim0, dim1, where);
}
Tensor TensorMethods::t(SourceLocation where) const { return lazy::t(Self(), where); }
Tensor TensorMethods::movedim(int64_t source, int64_t destination, SourceLocation where) const {
  return lazy::movedim(Self(), source, destination, where);
}
Tensor TensorMethods::expand(const Sizes& sizes, SourceLocation where) const {
  return lazy::expand(Self(), sizes, where);
}
Tensor TensorMethods::expand_as(const Tensor& other, SourceLocation where) const {
  return lazy::expand_as(Self(), other, where);
}
Tensor TensorMethods::narrow(int64_t dim, int64_t start, int64_t length,
                             SourceLocation where) const {
  return lazy::narrow(Self(), dim, start, length, where);
}
Tensor TensorMethods::select(int64_t dim, int64_t index, SourceLocation where) const {
  return lazy::select(Self(), dim, index, where);
}
Tensor TensorMethods::slice(int64_t dim, std::optional<int64_t> start, std::optional<int64_t> end,
                            int64_t step, SourceLocation where) const {
  return lazy::slice(Self(), dim, start, end, step, where);
}
Tensor TensorMethods::diagonal(SourceLocation where) const { return lazy::diagonal(Self(), where); }
Tensor TensorMethods::repeat(const Sizes& repeats, SourceLocation where) const {
  return lazy::repeat(Self(), repeats, where);
}
Tensor TensorMethods::tile(const Sizes& dims, SourceLocation where) const {
  return lazy::tile(Self(), dims, where);
}
Tensor TensorMethods::repeat_interleave(int64_t repeats, std::optional<int64_t> dim,
                                        SourceLocation where) const {
  return lazy::repeat_interleave(Self(), repeats, dim, where);
}
Tensor TensorMethods::flip(const Sizes& dims, SourceLocation where) const {
  return lazy::flip(Self(), dims, where);
}
Tensor TensorMethods::roll(const Sizes& shifts, const Sizes& dims, SourceLocation where) const {
  return lazy::roll(Self(), shifts, dims, where);
}
Tensor TensorMethods::tril(int64_t diagonal, SourceLocation where) const {
  return lazy::tril(Self(), diagonal, where);
}
Tensor TensorMethods::triu(int64_t diagonal, SourceLocation where) const {
  return lazy::triu(Self(), diagonal, where);
}
Tensor TensorMethods::diag(SourceLocation where) const { return lazy::diag(Self(), where); }
Tensor TensorMethods::index(const Indices& indices, SourceLocation where) const {
  return lazy::index(Self(), indices, where);
}
Tensor TensorMethods::index_select(int64_t dim, const Tensor& index, SourceLocation where) const {
  return lazy::index_select(Self(), dim, index, where);
}
Tensor TensorMethods::gather(int64_t dim, const Tensor& index, SourceLocation where) const {
  return lazy::gather(Self(), dim, index, where);
}
Tensor TensorMethods::take_along_dim(const Tensor& indices, int64_t dim,
                                     SourceLocation where) const {
  return lazy::take_along_dim(Self(), indices, dim, where);
}
Tensor TensorMethods::scatter(int64_t dim, const Tensor& index, const Operand& src) const {
  return lazy::scatter(Self(), dim, index, src);
}
Tensor TensorMethods::scatter_add(int64_t dim, const Tensor& index, const Tensor& src,
                                  SourceLocation where) const {
  return lazy::scatter_add(Self(), dim, index, src, where);
}
Tensor TensorMethods::index_add(int64_t dim, const Tensor& index, const Tensor& source,
                                Scalar alpha, SourceLocation where) const {
  return lazy::index_add(Self(), dim, index, source, alpha, where);
}
Tensor TensorMethods::nonzero(SourceLocation where) const { return lazy::nonzero(Self(), where); }
Tensor TensorMethods::masked_select(const Tensor& mask, SourceLocation where) const {
  return lazy::masked_select(Self(), mask, where);
}
Tensor TensorMethods::unique(SourceLocation where) const { return lazy::unique(Self(), where); }

Tensor TensorMethods::type_as(const Tensor& other, SourceLocation where) const {
  return lazy::to(Self(), other.dtype(), where);
}

}  // namespace penstock::lazy
