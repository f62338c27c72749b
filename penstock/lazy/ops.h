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
Tensor t(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor movedim(const Tensor& x, int64_t source, int64_t destination,
               SourceLocation where = SourceLocation::Current());
Tensor expand(const Tensor& x, const Sizes& sizes,
              SourceLocation where = SourceLocation::Current());  // -1 keeps a size
Tensor expand_as(const Tensor& x, const Tensor& other,
                 SourceLocation where = SourceLocation::Current());
Tensor broadcast_to(const Tensor& x, const Sizes& shape,
                    SourceLocation where = SourceLocation::Current());
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
Tensor roll(const Tensor& x, const Sizes& shifts, const Sizes& dims = {},
            SourceLocation where = SourceLocation::Current());
Tensor tril(const Tensor& x, int64_t diagonal = 0,
            SourceLocation where = SourceLocation::Current());
Tensor triu(const Tensor& x, int64_t diagonal = 0,
            SourceLocation where = SourceLocation::Current());
Tensor diag(const Tensor& x,
            SourceLocation where =
                SourceLocation::Current());  // of a vector: the matrix; of a matrix: the diagonal

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
Tensor linspace(double start, double end, int64_t steps, const TensorOptions& options = {},
                SourceLocation where = SourceLocation::Current());
// Of x's type and device.
Tensor zeros_like(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor ones_like(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor empty_like(const Tensor& x, SourceLocation where = SourceLocation::Current());
Tensor full_like(const Tensor& x, Scalar value, SourceLocation where = SourceLocation::Current());

}  // namespace penstock::lazy
