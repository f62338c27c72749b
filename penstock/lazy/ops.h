// Functions of tensors, under PyTorch's names (torch.*), in PyTorch's order of arguments with its
// defaults; https://pytorch.org/docs specifies the function of that name. Most are methods of
// Tensor, too (tensor_methods.h). Random numbers: random.h. torch.nn.functional: functional.h.
//
// Types follow PyTorch's promotion: a float beside integers gives the float's type, float32 beside
// a 16-bit float float32, a number beside a tensor keeps the tensor's type unless it is of a higher
// kind (int tensor + 1.5: float32); integers divided or passed to exp, sqrt, ... give float32.
// Indices and sums of integers are int64. Shapes broadcast as in PyTorch; negative dims count from
// the end.
//
// Views (reshape, transpose, narrow, select, index with slices, ...) share memory with x: an
// in-place operation on one is seen by the other. reshape always returns a view here.
//
// Functions whose result's shape depends on values (nonzero, masked_select, unique) cannot be
// compiled ahead of the values; they are errors that name an alternative.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "penstock/lazy/operand.h"
#include "penstock/lazy/tensor.h"

namespace penstock::lazy {

// ---- Elementwise, one operand ----
Tensor abs(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor neg(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor sign(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor square(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor exp(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor expm1(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor log(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor log1p(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor log2(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor log10(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor sqrt(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor rsqrt(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor reciprocal(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor sin(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor cos(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor tan(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor asin(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor acos(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor atan(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor sinh(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor cosh(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor tanh(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor sigmoid(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor erf(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor erfc(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor erfinv(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor exp2(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor asinh(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor acosh(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor atanh(const Tensor& x, SourceLocation where = SourceLocation::Current());
// log(x / (1 - x)); `eps`: of x clamped to [eps, 1 - eps].
Tensor logit(const Tensor& x, std::optional<double> eps = {},
             SourceLocation where = SourceLocation::Current());
Tensor frac(const Tensor& x, SourceLocation where = SourceLocation::Current());  // x - trunc(x)
Tensor floor(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor ceil(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor round(const Tensor& x, SourceLocation where = SourceLocation::Current());  // half to even
Tensor trunc(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor relu(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor isnan(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor isinf(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor isfinite(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor logical_not(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor bitwise_not(const Tensor& x, SourceLocation where = SourceLocation::Current());
// Elements that are NaN, infinity, -infinity, replaced; default: 0, the type's limits.
Tensor nan_to_num(const Tensor& x, double nan = 0, std::optional<double> posinf = {},
                  std::optional<double> neginf = {},
                  SourceLocation where = SourceLocation::Current());
Tensor to(
    const Tensor& x, DType dtype,
    SourceLocation where = SourceLocation::Current());  // conversion; x itself if it has the type
Tensor clone(const Tensor& x,
             SourceLocation where = SourceLocation::Current());  // a copy with history
Tensor detach(const Tensor& x);
Tensor contiguous(
    const Tensor& x,
    SourceLocation where = SourceLocation::Current());  // x: the compiler decides about layouts

// ---- Elementwise, two operands: tensors or numbers, at least one tensor ----
Tensor add(const Operand& a, const Operand& b, Scalar alpha = 1);  // a + alpha * b
Tensor sub(const Operand& a, const Operand& b, Scalar alpha = 1);
Tensor mul(const Operand& a, const Operand& b);
Tensor div(const Operand& a, const Operand& b);
// rounding_mode: "trunc" (toward zero) or "floor".
Tensor div(const Operand& a, const Operand& b, absl::string_view rounding_mode);
Tensor floor_divide(const Operand& a, const Operand& b);
Tensor remainder(const Operand& a, const Operand& b);  // the sign of b, as Python's %
Tensor fmod(const Operand& a, const Operand& b);       // the sign of a, as C's
Tensor pow(const Operand& a, const Operand& b);
Tensor atan2(const Operand& a, const Operand& b);
Tensor maximum(const Operand& a, const Operand& b);
Tensor minimum(const Operand& a, const Operand& b);
Tensor fmax(const Operand& a, const Operand& b);  // the other one where one is NaN
Tensor fmin(const Operand& a, const Operand& b);
Tensor hypot(const Operand& a, const Operand& b);
Tensor logaddexp(const Operand& a, const Operand& b);
Tensor logical_and(const Operand& a, const Operand& b);
Tensor logical_or(const Operand& a, const Operand& b);
Tensor logical_xor(const Operand& a, const Operand& b);
Tensor bitwise_and(const Operand& a, const Operand& b);
Tensor bitwise_or(const Operand& a, const Operand& b);
Tensor bitwise_xor(const Operand& a, const Operand& b);
Tensor eq(const Operand& a, const Operand& b);
Tensor ne(const Operand& a, const Operand& b);
Tensor lt(const Operand& a, const Operand& b);
Tensor le(const Operand& a, const Operand& b);
Tensor gt(const Operand& a, const Operand& b);
Tensor ge(const Operand& a, const Operand& b);
// Bool scalar tensor: whether all elements are within atol + rtol * |b| of each other.
Tensor allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8,
                SourceLocation where = SourceLocation::Current());

Tensor isclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8,
               bool equal_nan = false, SourceLocation where = SourceLocation::Current());
// Bool: whether each element is one of test_elements.
Tensor isin(const Tensor& elements, const Tensor& test_elements,
            SourceLocation where = SourceLocation::Current());

Tensor operator+(const Operand& a, const Operand& b);
Tensor operator-(const Operand& a, const Operand& b);
Tensor operator*(const Operand& a, const Operand& b);
Tensor operator/(const Operand& a, const Operand& b);
Tensor operator%(const Operand& a, const Operand& b);
Tensor operator<(const Operand& a, const Operand& b);
Tensor operator<=(const Operand& a, const Operand& b);
Tensor operator>(const Operand& a, const Operand& b);
Tensor operator>=(const Operand& a, const Operand& b);
Tensor operator&(const Operand& a, const Operand& b);
Tensor operator|(const Operand& a, const Operand& b);
Tensor operator-(const Tensor& x);
Tensor operator~(const Tensor& x);

// ---- Elementwise, several operands ----
Tensor where(const Tensor& condition, const Operand& a, const Operand& b);
Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value,
                   SourceLocation where = SourceLocation::Current());
Tensor clamp(const Tensor& x, std::optional<Scalar> min = {}, std::optional<Scalar> max = {},
             SourceLocation where = SourceLocation::Current());
Tensor clip(const Tensor& x, std::optional<Scalar> min = {}, std::optional<Scalar> max = {},
            SourceLocation where = SourceLocation::Current());
Tensor clamp_min(const Tensor& x, Scalar min, SourceLocation where = SourceLocation::Current());
Tensor clamp_max(const Tensor& x, Scalar max, SourceLocation where = SourceLocation::Current());
// start + weight * (end - start).
Tensor lerp(const Tensor& start, const Tensor& end, const Operand& weight);
Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value = 1,
               SourceLocation where = SourceLocation::Current());
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value = 1,
               SourceLocation where = SourceLocation::Current());

// ---- Products ----
Tensor matmul(
    const Tensor& a, const Tensor& b,
    SourceLocation where = SourceLocation::Current());  // vectors, matrices, batches that broadcast
Tensor mm(const Tensor& a, const Tensor& b, SourceLocation where = SourceLocation::Current());
Tensor bmm(const Tensor& a, const Tensor& b, SourceLocation where = SourceLocation::Current());
Tensor mv(const Tensor& a, const Tensor& b, SourceLocation where = SourceLocation::Current());
Tensor dot(const Tensor& a, const Tensor& b, SourceLocation where = SourceLocation::Current());
Tensor outer(const Tensor& a, const Tensor& b, SourceLocation where = SourceLocation::Current());
Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1,
             SourceLocation where = SourceLocation::Current());
Tensor baddbmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1,
               SourceLocation where = SourceLocation::Current());
// x * beta + alpha * matrix times vector.
Tensor addmv(const Tensor& x, const Tensor& matrix, const Tensor& vector, double beta = 1,
             double alpha = 1, SourceLocation where = SourceLocation::Current());
// Contraction of a's last `dims` dims with b's first ones, or of the dims of two lists.
Tensor tensordot(const Tensor& a, const Tensor& b, int64_t dims = 2,
                 SourceLocation where = SourceLocation::Current());
Tensor tensordot(const Tensor& a, const Tensor& b,
                 const std::pair<std::vector<int64_t>, std::vector<int64_t>>& dims,
                 SourceLocation where = SourceLocation::Current());
Tensor kron(const Tensor& a, const Tensor& b, SourceLocation where = SourceLocation::Current());
// Of vectors of three elements along `dim`; default: the first dim of size 3.
Tensor cross(const Tensor& a, const Tensor& b, std::optional<int64_t> dim = {},
             SourceLocation where = SourceLocation::Current());
// p-norm distances of the rows of a [..., P, M] and b [..., R, M]: [..., P, R].
Tensor cdist(const Tensor& a, const Tensor& b, double p = 2,
             SourceLocation where = SourceLocation::Current());
// "bij,bjk->bik", "i,j", "...ij->...ji". An index may not be repeated within one operand.
Tensor einsum(absl::string_view equation, const Tensors& operands,
              SourceLocation where = SourceLocation::Current());

// ---- Reductions; an empty list of dims means all ----
Tensor sum(const Tensor& x, const Sizes& dim = {}, bool keepdim = false,
           SourceLocation where = SourceLocation::Current());
Tensor mean(const Tensor& x, const Sizes& dim = {}, bool keepdim = false,
            SourceLocation where = SourceLocation::Current());
Tensor prod(const Tensor& x, std::optional<int64_t> dim = {}, bool keepdim = false,
            SourceLocation where = SourceLocation::Current());
Tensor amax(const Tensor& x, const Sizes& dim = {}, bool keepdim = false,
            SourceLocation where = SourceLocation::Current());
Tensor amin(const Tensor& x, const Sizes& dim = {}, bool keepdim = false,
            SourceLocation where = SourceLocation::Current());
Tensor var(const Tensor& x, const Sizes& dim = {}, bool unbiased = true, bool keepdim = false,
           SourceLocation where = SourceLocation::Current());
Tensor std(const Tensor& x, const Sizes& dim = {}, bool unbiased = true, bool keepdim = false,
           SourceLocation where = SourceLocation::Current());
std::pair<Tensor, Tensor> var_mean(const Tensor& x, const Sizes& dim = {}, bool unbiased = true,
                                   bool keepdim = false,
                                   SourceLocation where = SourceLocation::Current());
std::pair<Tensor, Tensor> std_mean(const Tensor& x, const Sizes& dim = {}, bool unbiased = true,
                                   bool keepdim = false,
                                   SourceLocation where = SourceLocation::Current());
// The p-norm; p may be 0, 1, 2, infinity or another number.
Tensor norm(const Tensor& x, double p = 2, const Sizes& dim = {}, bool keepdim = false,
            SourceLocation where = SourceLocation::Current());
Tensor logsumexp(const Tensor& x, const Sizes& dim, bool keepdim = false,
                 SourceLocation where = SourceLocation::Current());
Tensor nansum(const Tensor& x, const Sizes& dim = {}, bool keepdim = false,
              SourceLocation where = SourceLocation::Current());  // NaN is 0
Tensor nanmean(const Tensor& x, const Sizes& dim = {}, bool keepdim = false,
               SourceLocation where = SourceLocation::Current());  // without NaNs
std::pair<Tensor, Tensor> aminmax(const Tensor& x, std::optional<int64_t> dim = {},
                                  bool keepdim = false,
                                  SourceLocation where = SourceLocation::Current());
Tensor trace(const Tensor& x, SourceLocation where = SourceLocation::Current());  // of a matrix
// The q-quantiles (0 <= q <= 1), a list of them along a new first dim; NaN where there is one.
// interpolation: "linear", "lower", "higher", "midpoint", "nearest".
Tensor quantile(const Tensor& x, double q, std::optional<int64_t> dim = {}, bool keepdim = false,
                absl::string_view interpolation = "linear",
                SourceLocation where = SourceLocation::Current());
Tensor quantile(const Tensor& x, const std::vector<double>& q, std::optional<int64_t> dim = {},
                bool keepdim = false, absl::string_view interpolation = "linear",
                SourceLocation where = SourceLocation::Current());
Tensor any(const Tensor& x, std::optional<int64_t> dim = {}, bool keepdim = false,
           SourceLocation where = SourceLocation::Current());
Tensor all(const Tensor& x, std::optional<int64_t> dim = {}, bool keepdim = false,
           SourceLocation where = SourceLocation::Current());
Tensor count_nonzero(const Tensor& x, std::optional<int64_t> dim = {},
                     SourceLocation where = SourceLocation::Current());
Tensor argmax(const Tensor& x, std::optional<int64_t> dim = {}, bool keepdim = false,
              SourceLocation where = SourceLocation::Current());
Tensor argmin(const Tensor& x, std::optional<int64_t> dim = {}, bool keepdim = false,
              SourceLocation where = SourceLocation::Current());
Tensor max(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor min(const Tensor& x, SourceLocation where = SourceLocation::Current());
// Values and indices (int64), which PyTorch's named tuples hold.
struct ValuesAndIndices {
  Tensor values, indices;
};
ValuesAndIndices max(const Tensor& x, int64_t dim, bool keepdim = false,
                     SourceLocation where = SourceLocation::Current());
ValuesAndIndices min(const Tensor& x, int64_t dim, bool keepdim = false,
                     SourceLocation where = SourceLocation::Current());
// The lower of the two middle elements, as in PyTorch.
Tensor median(const Tensor& x, SourceLocation where = SourceLocation::Current());
ValuesAndIndices median(const Tensor& x, int64_t dim, bool keepdim = false,
                        SourceLocation where = SourceLocation::Current());
Tensor cumsum(const Tensor& x, int64_t dim, SourceLocation where = SourceLocation::Current());
Tensor cumprod(const Tensor& x, int64_t dim, SourceLocation where = SourceLocation::Current());
// Indices: of equal elements, the last.
ValuesAndIndices cummax(const Tensor& x, int64_t dim,
                        SourceLocation where = SourceLocation::Current());
ValuesAndIndices cummin(const Tensor& x, int64_t dim,
                        SourceLocation where = SourceLocation::Current());
Tensor logcumsumexp(const Tensor& x, int64_t dim, SourceLocation where = SourceLocation::Current());
// The k-th smallest element, k from 1.
ValuesAndIndices kthvalue(const Tensor& x, int64_t k, int64_t dim = -1, bool keepdim = false,
                          SourceLocation where = SourceLocation::Current());
ValuesAndIndices topk(const Tensor& x, int64_t k, int64_t dim = -1, bool largest = true,
                      bool sorted = true, SourceLocation where = SourceLocation::Current());
ValuesAndIndices sort(const Tensor& x, int64_t dim = -1, bool descending = false,
                      SourceLocation where = SourceLocation::Current());
Tensor argsort(const Tensor& x, int64_t dim = -1, bool descending = false,
               SourceLocation where = SourceLocation::Current());
Tensor softmax(const Tensor& x, int64_t dim, std::optional<DType> dtype = {},
               SourceLocation where = SourceLocation::Current());
Tensor log_softmax(const Tensor& x, int64_t dim, std::optional<DType> dtype = {},
                   SourceLocation where = SourceLocation::Current());

// ---- Joining and splitting ----
Tensor cat(const Tensors& tensors, int64_t dim = 0,
           SourceLocation where = SourceLocation::Current());
Tensor stack(const Tensors& tensors, int64_t dim = 0,
             SourceLocation where = SourceLocation::Current());
// Side by side: along dim 1 (vectors: dim 0), along dim 0 as rows, along dim 2.
Tensor hstack(const Tensors& tensors, SourceLocation where = SourceLocation::Current());
Tensor vstack(const Tensors& tensors, SourceLocation where = SourceLocation::Current());
Tensor dstack(const Tensors& tensors, SourceLocation where = SourceLocation::Current());
Tensors split(const Tensor& x, int64_t split_size, int64_t dim = 0,
              SourceLocation where = SourceLocation::Current());  // the last may be smaller
Tensors split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t dim = 0,
              SourceLocation where = SourceLocation::Current());
Tensors chunk(const Tensor& x, int64_t chunks, int64_t dim = 0,
              SourceLocation where = SourceLocation::Current());
Tensors unbind(const Tensor& x, int64_t dim = 0, SourceLocation where = SourceLocation::Current());
Tensors meshgrid(const Tensors& tensors, absl::string_view indexing = "ij",
                 SourceLocation where = SourceLocation::Current());

// ---- Shapes (views) ----
Tensor reshape(const Tensor& x, const Sizes& shape,
               SourceLocation where = SourceLocation::Current());  // one size may be -1
Tensor view(const Tensor& x, const Sizes& shape,
            SourceLocation where = SourceLocation::Current());  // as reshape
Tensor flatten(const Tensor& x, int64_t start_dim = 0, int64_t end_dim = -1,
               SourceLocation where = SourceLocation::Current());
Tensor unflatten(const Tensor& x, int64_t dim, const Sizes& sizes,
                 SourceLocation where = SourceLocation::Current());
Tensor unsqueeze(const Tensor& x, int64_t dim, SourceLocation where = SourceLocation::Current());
Tensor squeeze(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor squeeze(const Tensor& x, int64_t dim, SourceLocation where = SourceLocation::Current());
Tensor permute(const Tensor& x, const Sizes& dims,
               SourceLocation where = SourceLocation::Current());
Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1,
                 SourceLocation where = SourceLocation::Current());
Tensor swapaxes(const Tensor& x, int64_t axis0, int64_t axis1,
                SourceLocation where = SourceLocation::Current());  // transpose
Tensor swapdims(const Tensor& x, int64_t dim0, int64_t dim1,
                SourceLocation where = SourceLocation::Current());
Tensor t(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor movedim(const Tensor& x, int64_t source, int64_t destination,
               SourceLocation where = SourceLocation::Current());
Tensor expand(const Tensor& x, const Sizes& sizes,
              SourceLocation where = SourceLocation::Current());  // -1 keeps a size
Tensor expand_as(const Tensor& x, const Tensor& other,
                 SourceLocation where = SourceLocation::Current());
Tensor broadcast_to(const Tensor& x, const Sizes& shape,
                    SourceLocation where = SourceLocation::Current());
Tensors broadcast_tensors(const Tensors& tensors, SourceLocation where = SourceLocation::Current());
Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length,
              SourceLocation where = SourceLocation::Current());
Tensor select(const Tensor& x, int64_t dim, int64_t index,
              SourceLocation where = SourceLocation::Current());
// x[..., start:end:step, ...] along `dim`.
Tensor slice(const Tensor& x, int64_t dim, std::optional<int64_t> start = {},
             std::optional<int64_t> end = {}, int64_t step = 1,
             SourceLocation where = SourceLocation::Current());
Tensor diagonal(const Tensor& x, SourceLocation where = SourceLocation::Current());  // of a matrix

// ---- Copies in another arrangement ----
Tensor repeat(const Tensor& x, const Sizes& repeats,
              SourceLocation where = SourceLocation::Current());
Tensor tile(const Tensor& x, const Sizes& dims, SourceLocation where = SourceLocation::Current());
Tensor repeat_interleave(const Tensor& x, int64_t repeats, std::optional<int64_t> dim = {},
                         SourceLocation where = SourceLocation::Current());
Tensor flip(const Tensor& x, const Sizes& dims, SourceLocation where = SourceLocation::Current());
Tensor fliplr(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor flipud(const Tensor& x, SourceLocation where = SourceLocation::Current());
// Rotated k times by 90 degrees, from the first of two dims to the second.
Tensor rot90(const Tensor& x, int64_t k = 1, const Sizes& dims = {0, 1},
             SourceLocation where = SourceLocation::Current());
Tensor roll(const Tensor& x, const Sizes& shifts, const Sizes& dims = {},
            SourceLocation where = SourceLocation::Current());
Tensor tril(const Tensor& x, int64_t diagonal = 0,
            SourceLocation where = SourceLocation::Current());
Tensor triu(const Tensor& x, int64_t diagonal = 0,
            SourceLocation where = SourceLocation::Current());
Tensor diag(const Tensor& x,
            SourceLocation where =
                SourceLocation::Current());  // of a vector: the matrix; of a matrix: the diagonal

// Matrices on dims dim1 and dim2 of the result, with x's last dim on a diagonal.
Tensor diag_embed(const Tensor& x, int64_t offset = 0, int64_t dim1 = -2, int64_t dim2 = -1,
                  SourceLocation where = SourceLocation::Current());

// ---- Indexing; in a tensor of indices, a position out of range is clamped by functions that read
// there, and skipped by those that write there ----
// x[indices]: a view unless a tensor is among the indices.
Tensor index(const Tensor& x, const Indices& indices,
             SourceLocation where = SourceLocation::Current());
Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index,
                    SourceLocation where = SourceLocation::Current());
Tensor gather(const Tensor& x, int64_t dim, const Tensor& index,
              SourceLocation where = SourceLocation::Current());
Tensor take_along_dim(const Tensor& x, const Tensor& indices, int64_t dim,
                      SourceLocation where = SourceLocation::Current());
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Operand& src);
Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src,
                   SourceLocation where = SourceLocation::Current());
Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                 Scalar alpha = 1, SourceLocation where = SourceLocation::Current());
Tensor index_fill(const Tensor& x, int64_t dim, const Tensor& index, Scalar value,
                  SourceLocation where = SourceLocation::Current());
Tensor index_copy(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                  SourceLocation where = SourceLocation::Current());
// Elements of x where the mask (bool, broadcast) is true replaced by those of source, one after the
// other; it must have enough.
Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source,
                      SourceLocation where = SourceLocation::Current());
// Number of elements of the sorted sequence (along the last dim) below each value; `right`: not
// above it. int64.
Tensor searchsorted(const Tensor& sorted_sequence, const Operand& values, bool right = false);
Tensor bucketize(const Operand& values, const Tensor& boundaries, bool right = false);
// Number of times, or sum of weights, of each of 0 .. minlength - 1 in a vector of integers. Other
// integers are not counted: PyTorch's result is as long as the largest needs, which depends on
// values, so minlength is required.
Tensor bincount(const Tensor& x, const Tensor& weights, int64_t minlength,
                SourceLocation where = SourceLocation::Current());
// Number of elements in each of equal intervals of [min, max]; if both are equal, x's extremes.
Tensor histc(const Tensor& x, int64_t bins = 100, double min = 0, double max = 0,
             SourceLocation where = SourceLocation::Current());
Tensor one_hot(const Tensor& x, int64_t num_classes,
               SourceLocation where = SourceLocation::Current());  // int64, as F.one_hot
// Errors: their shapes depend on values.
Tensor nonzero(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor masked_select(const Tensor& x, const Tensor& mask,
                     SourceLocation where = SourceLocation::Current());
Tensor unique(const Tensor& x, SourceLocation where = SourceLocation::Current());

// ---- New tensors ----
struct TensorOptions {
  DType dtype = DType::kInvalid;  // kInvalid: float32 (arange of ints, full of an int: int64)
  Device device = {};             // invalid: xm::xla_device()
  bool requires_grad = false;
};
Tensor zeros(const Sizes& size, const TensorOptions& options = {},
             SourceLocation where = SourceLocation::Current());
Tensor ones(const Sizes& size, const TensorOptions& options = {},
            SourceLocation where = SourceLocation::Current());
Tensor empty(const Sizes& size, const TensorOptions& options = {},
             SourceLocation where = SourceLocation::Current());  // zeros
Tensor full(const Sizes& size, Scalar value, const TensorOptions& options = {},
            SourceLocation where = SourceLocation::Current());
Tensor eye(int64_t n, const TensorOptions& options = {},
           SourceLocation where = SourceLocation::Current());
Tensor eye(int64_t n, int64_t m, const TensorOptions& options = {},
           SourceLocation where = SourceLocation::Current());
Tensor arange(Scalar end, const TensorOptions& options = {},
              SourceLocation where = SourceLocation::Current());
Tensor arange(Scalar start, Scalar end, const TensorOptions& options = {},
              SourceLocation where = SourceLocation::Current());
Tensor arange(Scalar start, Scalar end, Scalar step, const TensorOptions& options = {},
              SourceLocation where = SourceLocation::Current());
// Positions (rows, columns) of the lower or upper triangle of a matrix: int64 [2, n].
Tensor tril_indices(int64_t row, int64_t col, int64_t offset = 0, const TensorOptions& options = {},
                    SourceLocation where = SourceLocation::Current());
Tensor triu_indices(int64_t row, int64_t col, int64_t offset = 0, const TensorOptions& options = {},
                    SourceLocation where = SourceLocation::Current());
Tensor linspace(double start, double end, int64_t steps, const TensorOptions& options = {},
                SourceLocation where = SourceLocation::Current());
// Of x's type and device.
Tensor zeros_like(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor ones_like(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor empty_like(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor full_like(const Tensor& x, Scalar value, SourceLocation where = SourceLocation::Current());

}  // namespace penstock::lazy
