#include "penstock/base/shape.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "penstock/base/contract_error.h"

namespace penstock::base {
namespace {

[[noreturn]] void ThrowTooManyAxes(size_t axes) {
  throw ContractError(
      absl::StrCat("a shape has at most ", kMaxRank, " axes, but ", axes, " were given"));
}

[[noreturn]] void ThrowNoAxis(int i, const Shape& shape) {
  throw ContractError(absl::StrCat("axis ", i, " of the shape ", shape.ToString(), " of rank ",
                                   shape.rank(), " does not exist"));
}

}  // namespace

Shape::Shape(absl::Span<const int64_t> dims) {
  if (dims.size() > kMaxRank) ThrowTooManyAxes(dims.size());
  rank_ = static_cast<int>(dims.size());
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

int64_t Shape::dim(int i) const {
  const int axis = i < 0 ? i + rank() : i;
  if (axis < 0 || axis >= rank()) ThrowNoAxis(i, *this);
  return dims_[axis];
}

void Shape::set_dim(int i, int64_t extent) {
  const int axis = i < 0 ? i + rank() : i;
  if (axis < 0 || axis >= rank()) ThrowNoAxis(i, *this);
  dims_[axis] = extent;
}

int64_t Shape::num_elements() const {
  uint64_t n = 1;  // [2^40,2^40,0] has no elements, though the product of the first two overflows
  for (int64_t d : dims()) n *= static_cast<uint64_t>(d);
  return static_cast<int64_t>(n);
}

Shape Shape::RowShape() const {
  if (rank() == 0) throw ContractError("a scalar has no rows");
  return Shape(dims().subspan(1));
}

Shape Shape::Prepend(int64_t count) const {
  if (rank_ == kMaxRank) ThrowTooManyAxes(kMaxRank + 1);
  Shape out;
  out.rank_ = rank_ + 1;
  out.dims_[0] = count;
  std::copy(begin(), end(), out.dims_.begin() + 1);
  return out;
}

std::string Shape::ToString() const {
  std::string out = "[";
  for (int i = 0; i < rank(); ++i) {
    if (i > 0) out += ",";
    dims_[i] < 0 ? out += "?" : out += absl::StrCat(dims_[i]);
  }
  return out + "]";
}

}  // namespace penstock::base
