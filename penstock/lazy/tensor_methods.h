// Method forms of ops.h: x.sum(1) is sum(x, 1). A base class of Tensor, so that tensor.h stays
// short. Programs that call them include ops.h (or functional.h, which does).
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

#include "penstock/base/source_location.h"
#include "penstock/lazy/scalar.h"

namespace penstock::lazy {

class Tensor;
class Operand;
class Index;
struct ValuesAndIndices;

class TensorMethods {
 public:
  Tensor abs(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor neg(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor sign(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor square(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor exp(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor expm1(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor log(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor log1p(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor log2(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor log10(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor sqrt(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor rsqrt(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor reciprocal(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor sin(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor cos(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor tan(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor asin(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor acos(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor atan(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor sinh(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor cosh(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor tanh(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor sigmoid(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor erf(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor erfc(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor floor(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor ceil(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor round(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor trunc(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor relu(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor isnan(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor isinf(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor isfinite(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor logical_not(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor bitwise_not(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor nan_to_num(double nan = 0, ::std::optional<double> posinf = {},
                    ::std::optional<double> neginf = {},
                    base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor clone(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor contiguous(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor add(const Operand& b, Scalar alpha = 1) const;
  Tensor sub(const Operand& b, Scalar alpha = 1) const;
  Tensor mul(const Operand& b) const;
  Tensor div(const Operand& b) const;
  Tensor div(const Operand& b, absl::string_view rounding_mode) const;
  Tensor floor_divide(const Operand& b) const;
  Tensor remainder(const Operand& b) const;
  Tensor fmod(const Operand& b) const;
  Tensor pow(const Operand& b) const;
  Tensor atan2(const Operand& b) const;
  Tensor maximum(const Operand& b) const;
  Tensor minimum(const Operand& b) const;
  Tensor logaddexp(const Operand& b) const;
  Tensor logical_and(const Operand& b) const;
  Tensor logical_or(const Operand& b) const;
  Tensor logical_xor(const Operand& b) const;
  Tensor bitwise_and(const Operand& b) const;
  Tensor bitwise_or(const Operand& b) const;
  Tensor bitwise_xor(const Operand& b) const;
  Tensor eq(const Operand& b) const;
  Tensor ne(const Operand& b) const;
  Tensor lt(const Operand& b) const;
  Tensor le(const Operand& b) const;
  Tensor gt(const Operand& b) const;
  Tensor ge(const Operand& b) const;
  Tensor masked_fill(const Tensor& mask, Scalar value,
                     base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor clamp(::std::optional<Scalar> min = {}, ::std::optional<Scalar> max = {},
               base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor clip(::std::optional<Scalar> min = {}, ::std::optional<Scalar> max = {},
              base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor clamp_min(Scalar min, base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor clamp_max(Scalar max, base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor lerp(const Tensor& end, const Operand& weight) const;
  Tensor addcmul(const Tensor& a, const Tensor& b, Scalar value = 1,
                 base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor addcdiv(const Tensor& a, const Tensor& b, Scalar value = 1,
                 base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor matmul(const Tensor& b,
                base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor mm(const Tensor& b, base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor bmm(const Tensor& b, base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor mv(const Tensor& b, base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor dot(const Tensor& b, base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor outer(const Tensor& b, base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor addmm(const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1,
               base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor baddbmm(const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1,
                 base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor sum(const Sizes& dim = {}, bool keepdim = false,
             base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor mean(const Sizes& dim = {}, bool keepdim = false,
              base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor prod(::std::optional<int64_t> dim = {}, bool keepdim = false,
              base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor amax(const Sizes& dim = {}, bool keepdim = false,
              base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor amin(const Sizes& dim = {}, bool keepdim = false,
              base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor var(const Sizes& dim = {}, bool unbiased = true, bool keepdim = false,
             base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor std(const Sizes& dim = {}, bool unbiased = true, bool keepdim = false,
             base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor norm(double p = 2, const Sizes& dim = {}, bool keepdim = false,
              base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor logsumexp(const Sizes& dim, bool keepdim = false,
                   base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor any(::std::optional<int64_t> dim = {}, bool keepdim = false,
             base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor all(::std::optional<int64_t> dim = {}, bool keepdim = false,
             base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor count_nonzero(::std::optional<int64_t> dim = {},
                       base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor argmax(::std::optional<int64_t> dim = {}, bool keepdim = false,
                base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor argmin(::std::optional<int64_t> dim = {}, bool keepdim = false,
                base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor max(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor min(base::SourceLocation where = base::SourceLocation::Current()) const;
  ValuesAndIndices max(int64_t dim, bool keepdim = false,
                       base::SourceLocation where = base::SourceLocation::Current()) const;
  ValuesAndIndices min(int64_t dim, bool keepdim = false,
                       base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor median(base::SourceLocation where = base::SourceLocation::Current()) const;
  ValuesAndIndices median(int64_t dim, bool keepdim = false,
                          base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor cumsum(int64_t dim, base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor cumprod(int64_t dim, base::SourceLocation where = base::SourceLocation::Current()) const;
  ValuesAndIndices topk(int64_t k, int64_t dim = -1, bool largest = true, bool sorted = true,
                        base::SourceLocation where = base::SourceLocation::Current()) const;
  ValuesAndIndices sort(int64_t dim = -1, bool descending = false,
                        base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor argsort(int64_t dim = -1, bool descending = false,
                 base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor softmax(int64_t dim, ::std::optional<base::DType> dtype = {},
                 base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor log_softmax(int64_t dim, ::std::optional<base::DType> dtype = {},
                     base::SourceLocation where = base::SourceLocation::Current()) const;
  ::std::vector<Tensor> split(int64_t split_size, int64_t dim = 0,
                              base::SourceLocation where = base::SourceLocation::Current()) const;
  ::std::vector<Tensor> split(const ::std::vector<int64_t>& sizes, int64_t dim = 0,
                              base::SourceLocation where = base::SourceLocation::Current()) const;
  ::std::vector<Tensor> chunk(int64_t chunks, int64_t dim = 0,
                              base::SourceLocation where = base::SourceLocation::Current()) const;
  ::std::vector<Tensor> unbind(int64_t dim = 0,
                               base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor reshape(const Sizes& shape,
                 base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor view(const Sizes& shape,
              base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor flatten(int64_t start_dim = 0, int64_t end_dim = -1,
                 base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor unflatten(int64_t dim, const Sizes& sizes,
                   base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor unsqueeze(int64_t dim, base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor squeeze(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor squeeze(int64_t dim, base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor permute(const Sizes& dims,
                 base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor transpose(int64_t dim0, int64_t dim1,
                   base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor t(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor movedim(int64_t source, int64_t destination,
                 base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor expand(const Sizes& sizes,
                base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor expand_as(const Tensor& other,
                   base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor narrow(int64_t dim, int64_t start, int64_t length,
                base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor select(int64_t dim, int64_t index,
                base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor slice(int64_t dim, ::std::optional<int64_t> start = {}, ::std::optional<int64_t> end = {},
               int64_t step = 1,
               base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor diagonal(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor repeat(const Sizes& repeats,
                base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor tile(const Sizes& dims,
              base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor repeat_interleave(int64_t repeats, ::std::optional<int64_t> dim = {},
                           base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor flip(const Sizes& dims,
              base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor roll(const Sizes& shifts, const Sizes& dims = {},
              base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor tril(int64_t diagonal = 0,
              base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor triu(int64_t diagonal = 0,
              base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor diag(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor index(const ::std::vector<Index>& indices,
               base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor index_select(int64_t dim, const Tensor& index,
                      base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor gather(int64_t dim, const Tensor& index,
                base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor take_along_dim(const Tensor& indices, int64_t dim,
                        base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor scatter(int64_t dim, const Tensor& index, const Operand& src) const;
  Tensor scatter_add(int64_t dim, const Tensor& index, const Tensor& src,
                     base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor index_add(int64_t dim, const Tensor& index, const Tensor& source, Scalar alpha = 1,
                   base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor nonzero(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor masked_select(const Tensor& mask,
                       base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor unique(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor type_as(const Tensor& other,
                 base::SourceLocation where = base::SourceLocation::Current()) const;

  Tensor erfinv(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor exp2(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor asinh(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor acosh(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor atanh(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor logit(::std::optional<double> eps = {},
               base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor frac(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor fmax(const Operand& b) const;
  Tensor fmin(const Operand& b) const;
  Tensor hypot(const Operand& b) const;
  Tensor isclose(const Tensor& b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false,
                 base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor cross(const Tensor& b, ::std::optional<int64_t> dim = {},
               base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor kron(const Tensor& b, base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor nansum(const Sizes& dim = {}, bool keepdim = false,
                base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor nanmean(const Sizes& dim = {}, bool keepdim = false,
                 base::SourceLocation where = base::SourceLocation::Current()) const;
  ::std::pair<Tensor, Tensor> aminmax(
      ::std::optional<int64_t> dim = {}, bool keepdim = false,
      base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor trace(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor quantile(double q, ::std::optional<int64_t> dim = {}, bool keepdim = false,
                  base::SourceLocation where = base::SourceLocation::Current()) const;
  ValuesAndIndices cummax(int64_t dim,
                          base::SourceLocation where = base::SourceLocation::Current()) const;
  ValuesAndIndices cummin(int64_t dim,
                          base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor logcumsumexp(int64_t dim,
                      base::SourceLocation where = base::SourceLocation::Current()) const;
  ValuesAndIndices kthvalue(int64_t k, int64_t dim = -1, bool keepdim = false,
                            base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor swapaxes(int64_t axis0, int64_t axis1,
                  base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor swapdims(int64_t dim0, int64_t dim1,
                  base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor view_as(const Tensor& other,
                 base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor reshape_as(const Tensor& other,
                    base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor fliplr(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor flipud(base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor rot90(int64_t k, const Sizes& dims,
               base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor diag_embed(int64_t offset = 0, int64_t dim1 = -2, int64_t dim2 = -1,
                    base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor index_fill(int64_t dim, const Tensor& index, Scalar value,
                    base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor index_copy(int64_t dim, const Tensor& index, const Tensor& source,
                    base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor masked_scatter(const Tensor& mask, const Tensor& source,
                        base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor bincount(const Tensor& weights, int64_t minlength,
                  base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor histc(int64_t bins = 100, double min = 0, double max = 0,
               base::SourceLocation where = base::SourceLocation::Current()) const;
  // Of this tensor's type and device.
  Tensor new_zeros(const Sizes& size,
                   base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor new_ones(const Sizes& size,
                  base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor new_full(const Sizes& size, Scalar value,
                  base::SourceLocation where = base::SourceLocation::Current()) const;
  Tensor new_empty(const Sizes& size,
                   base::SourceLocation where = base::SourceLocation::Current()) const;  // zeros

  // ---- In place ----
  Tensor& clamp_(::std::optional<Scalar> min = {}, ::std::optional<Scalar> max = {},
                 base::SourceLocation where = base::SourceLocation::Current());
  Tensor& clamp_min_(Scalar min, base::SourceLocation where = base::SourceLocation::Current());
  Tensor& clamp_max_(Scalar max, base::SourceLocation where = base::SourceLocation::Current());
  Tensor& addcmul_(const Tensor& a, const Tensor& b, Scalar value = 1,
                   base::SourceLocation where = base::SourceLocation::Current());
  Tensor& addcdiv_(const Tensor& a, const Tensor& b, Scalar value = 1,
                   base::SourceLocation where = base::SourceLocation::Current());
  Tensor& masked_fill_(const Tensor& mask, Scalar value,
                       base::SourceLocation where = base::SourceLocation::Current());
  Tensor& scatter_add_(int64_t dim, const Tensor& index, const Tensor& src,
                       base::SourceLocation where = base::SourceLocation::Current());
  Tensor& index_add_(int64_t dim, const Tensor& index, const Tensor& source, Scalar alpha = 1,
                     base::SourceLocation where = base::SourceLocation::Current());
  Tensor& abs_(base::SourceLocation where = base::SourceLocation::Current());
  Tensor& neg_(base::SourceLocation where = base::SourceLocation::Current());
  Tensor& exp_(base::SourceLocation where = base::SourceLocation::Current());
  Tensor& log_(base::SourceLocation where = base::SourceLocation::Current());
  Tensor& sqrt_(base::SourceLocation where = base::SourceLocation::Current());
  Tensor& rsqrt_(base::SourceLocation where = base::SourceLocation::Current());
  Tensor& reciprocal_(base::SourceLocation where = base::SourceLocation::Current());
  Tensor& sigmoid_(base::SourceLocation where = base::SourceLocation::Current());
  Tensor& tanh_(base::SourceLocation where = base::SourceLocation::Current());
  Tensor& relu_(base::SourceLocation where = base::SourceLocation::Current());
  Tensor& floor_(base::SourceLocation where = base::SourceLocation::Current());
  Tensor& ceil_(base::SourceLocation where = base::SourceLocation::Current());
  Tensor& round_(base::SourceLocation where = base::SourceLocation::Current());
  Tensor& trunc_(base::SourceLocation where = base::SourceLocation::Current());
  Tensor& index_fill_(int64_t dim, const Tensor& index, Scalar value,
                      base::SourceLocation where = base::SourceLocation::Current());
  Tensor& index_copy_(int64_t dim, const Tensor& index, const Tensor& source,
                      base::SourceLocation where = base::SourceLocation::Current());
  Tensor& masked_scatter_(const Tensor& mask, const Tensor& source,
                          base::SourceLocation where = base::SourceLocation::Current());
  Tensor& lerp_(const Tensor& end, const Operand& weight);
  Tensor& pow_(const Operand& exponent);
  Tensor& scatter_(int64_t dim, const Tensor& index, const Operand& src);
  // x[indices] = value; the indices are positions and slices.
  Tensor& index_put_(const ::std::vector<Index>& indices, const Operand& value);
  Tensor& normal_(double mean = 0, double std = 1,
                  base::SourceLocation where = base::SourceLocation::Current());
  Tensor& uniform_(double from = 0, double to = 1,
                   base::SourceLocation where = base::SourceLocation::Current());
  Tensor& bernoulli_(double p = 0.5, base::SourceLocation where = base::SourceLocation::Current());

 private:
  const Tensor& Self() const;
  Tensor& Mutable();
};

}  // namespace penstock::lazy
