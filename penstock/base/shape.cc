#include "penstock/base/shape.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"

namespace penstock::base {

Shape::Shape(absl::Span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  PENSTOCK_CHECK(dims.size() <= kMaxRank);
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

int64_t Shape::dim(int i) const {
  if (i < 0) i += rank();
  PENSTOCK_CHECK(i >= 0 && i < rank());
  return dims_[i];
}

void Shape::set_dim(int i, int64_t extent) {
  if (i < 0) i += rank();
  PENSTOCK_CHECK(i >= 0 && i < rank());
  dims_[i] = extent;
}

int64_t Shape::num_elements() const {
  int64_t n = 1;
  for (int64_t d : dims()) n *= d;
  return n;
}

Shape Shape::RowShape() const {
  PENSTOCK_CHECK(rank() > 0);
  return Shape(dims().subspan(1));
}

Shape Shape::Prepend(int64_t count) const {
  PENSTOCK_CHECK(rank_ < kMaxRank);
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
