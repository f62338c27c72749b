// Products beyond those of contractions.cc, and distances.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "penstock/lazy/ops/build.h"

namespace penstock::lazy {
namespace {

using ir::Value;
using ir::Values;

Operand At(const Tensor& x, SourceLocation where) { return Operand(x, where); }

// The dims of one side, counted from the front and each once; false after an error.
bool Contracted(const Tensor& x, const std::vector<int64_t>& given, ir::Axes& dims,
                SourceLocation where) {
  for (int64_t dim : given) {
    if (!internal::ResolveDim("tensordot", x, dim, where)) return false;
    if (std::find(dims.begin(), dims.end(), dim) != dims.end() || x.dim() == 0) {
      FailOp("tensordot", {x}, absl::StrCat("dim ", dim, " is there twice, or x is a scalar"),
             where);
      return false;
    }
    dims.push_back(dim);
  }
  return true;
}

// x times a factor of addmv, in x's type: as a float it would make floats of integers.
Tensor Scaled(const Tensor& x, absl::string_view argument, double factor, SourceLocation where) {
  if (!x.defined() || factor == 1) return x;
  const bool is_integer =
      !base::IsFloat(x.dtype()) && std::trunc(factor) == factor && std::abs(factor) <= 0x1p53;
  const Scalar number = is_integer ? Scalar(static_cast<int64_t>(factor)) : Scalar(factor);
  const std::string wrong = internal::WhyNoFactor(argument, number, x.dtype());
  if (!wrong.empty()) return FailOp("addmv", {x}, wrong, where);
  return mul(At(x, where), Operand(number, where));
}

}  // namespace

Tensor addmv(const Tensor& x, const Tensor& matrix, const Tensor& vector, double beta, double alpha,
             SourceLocation where) {
  const Tensor product = Scaled(mv(matrix, vector, where), "alpha", alpha, where);
  if (beta == 0) return product;  // x may be NaN then
  const Tensor offset = Scaled(internal::Cast("mv", x), "beta", beta, where);
  return add(At(offset, where), At(product, where));
}

Tensor tensordot(const Tensor& a, const Tensor& b,
                 const std::pair<std::vector<int64_t>, std::vector<int64_t>>& dims,
                 SourceLocation where) {
  Tensor x = a, y = b;
  Tensor* const both[] = {&x, &y};
  internal::CastAll("tensordot", both);
  if (!x.defined() || !y.defined()) return FailOp("tensordot", {x, y}, "undefined", where);
  ir::DotDimensions on;
  if (!Contracted(x, dims.first, on.lhs_contracting, where) ||
      !Contracted(y, dims.second, on.rhs_contracting, where)) {
    return Tensor();
  }
  bool fits = x.dtype() == y.dtype() && on.lhs_contracting.size() == on.rhs_contracting.size();
  for (size_t i = 0; fits && i < on.lhs_contracting.size(); ++i) {
    fits = x.size(on.lhs_contracting[i]) == y.size(on.rhs_contracting[i]);
  }
  if (!fits) {
    return FailOp("tensordot", {x, y}, "expects one dtype, and two lists of dims of the same sizes",
                  where);
  }
  return Record("tensordot", {x, y}, where,
                [&](const Values& in) { return ir::DotGeneral(in[0], in[1], on); });
}

Tensor tensordot(const Tensor& a, const Tensor& b, int64_t dims, SourceLocation where) {
  if (dims < 0 || dims > std::min(a.dim(), b.dim())) {
    return FailOp("tensordot", {a, b},
                  absl::StrCat("dims is ", dims, "; the tensors have ", a.dim(), " and ", b.dim()),
                  where);
  }
  std::pair<std::vector<int64_t>, std::vector<int64_t>> lists;
  for (int64_t i = 0; i < dims; ++i) {
    lists.first.push_back(a.dim() - dims + i);
    lists.second.push_back(i);
  }
  return tensordot(a, b, lists, where);
}

Tensor kron(const Tensor& a, const Tensor& b, SourceLocation where) {
  if (!a.defined() || !b.defined()) return FailOp("kron", {a, b}, "an input is undefined", where);
  const int64_t rank = std::max(a.dim(), b.dim());
  if (2 * rank > base::kMaxRank) {
    return FailOp("kron", {a, b}, absl::StrCat("expects at most ", base::kMaxRank / 2, " dims"),
                  where);
  }
  std::vector<int64_t> of_a, of_b, result;
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t m = i < rank - a.dim() ? 1 : a.size(i - (rank - a.dim())),
                  n = i < rank - b.dim() ? 1 : b.size(i - (rank - b.dim()));
    of_a.insert(of_a.end(), {m, 1});
    of_b.insert(of_b.end(), {1, n});
    result.push_back(m * n);
  }
  return reshape(mul(At(reshape(a, of_a, where), where), At(reshape(b, of_b, where), where)),
                 result, where);
}

Tensor cross(const Tensor& a, const Tensor& b, std::optional<int64_t> dim, SourceLocation where) {
  if (!a.defined() || !b.defined()) return FailOp("cross", {a, b}, "an input is undefined", where);
  Tensor x = a, y = b;
  Tensor* const both[] = {&x, &y};
  internal::CastAll("cross", both);
  int64_t axis = dim.value_or(0);
  if (dim) {
    if (!internal::ResolveDim("cross", a, axis, where)) return Tensor();
  } else {
    while (axis < a.dim() && a.size(axis) != 3) ++axis;
  }
  if (a.dim() != b.dim() || axis >= a.dim() || a.size(axis) != 3 || b.size(axis) != 3) {
    return FailOp("cross", {a, b}, "expects two tensors of the same dims, one of them of size 3",
                  where);
  }
  // a[i + 1] b[i + 2] - a[i + 2] b[i + 1].
  const auto rolled = [&](const Tensor& v, int64_t by) {
    return At(roll(v, -by, axis, where), where);
  };
  const Tensor first = mul(rolled(x, 1), rolled(y, 2)), second = mul(rolled(x, 2), rolled(y, 1));
  return sub(At(first, where), At(second, where));
}

Tensor cdist(const Tensor& a, const Tensor& b, double p, SourceLocation where) {
  const Tensor x = internal::Cast("cdist", a), y = internal::Cast("cdist", b);
  if (!internal::IsFloatTensor(x) || !internal::IsFloatTensor(y) || x.dim() < 2 || y.dim() < 2 ||
      x.size(-1) != y.size(-1) || p < 0) {
    return FailOp("cdist", {x, y},
                  "expects floats [..., P, M] and [..., R, M], and a p that is not negative",
                  where);
  }
  const Tensor difference =
      sub(At(unsqueeze(x, -2, where), where), At(unsqueeze(y, -3, where), where));
  return norm(difference, p, -1, false, where);
}

}  // namespace penstock::lazy
