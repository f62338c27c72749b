// Overflow-checked sizes of arrays that untrusted data describes (a file, an option). Every product
// of such extents is computed here.
#pragma once

#include <cstdint>
#include <optional>

#include "penstock/base/dtype.h"
#include "penstock/base/shape.h"

namespace penstock::base {

// Number of elements; no value if it overflows int64 or an extent is negative.
inline std::optional<int64_t> CheckedElements(absl::Span<const int64_t> dims) {
  int64_t product = 1;
  bool zero = false;
  for (const int64_t dim : dims) {
    if (dim < 0) return std::nullopt;
    zero = zero || dim == 0;
  }
  if (zero) return 0;
  for (const int64_t dim : dims) {
    if (__builtin_mul_overflow(product, dim, &product)) return std::nullopt;
  }
  return product;
}
inline std::optional<int64_t> CheckedElements(const Shape& shape) {
  return CheckedElements(shape.dims());
}

// Size of an array in bytes; no value if that number, or the number of bits, overflows int64.
inline std::optional<int64_t> CheckedBytes(DType dtype, const Shape& shape) {
  const std::optional<int64_t> elements = CheckedElements(shape);
  int64_t bits = 0;
  if (!elements.has_value() || __builtin_mul_overflow(*elements, BitWidth(dtype), &bits) ||
      bits > INT64_MAX - 7) {
    return std::nullopt;
  }
  return (bits + 7) / 8;
}

}  // namespace penstock::base
