// Shape: the extents (sizes of the dimensions) of an array, outermost first. Rank 0 is a scalar;
// the maximum rank is kMaxRank (a parser that reads a rank from a file checks it before it makes a
// Shape).
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

#include "absl/types/span.h"

namespace penstock::base {

inline constexpr int kMaxRank = 8;

// A value without allocation: copying one costs as much as copying 9 integers. Misuse (more than
// kMaxRank extents, an index out of range) throws ContractError (contract_error.h).
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims)
      : Shape(absl::MakeConstSpan(dims.begin(), dims.size())) {}
  explicit Shape(absl::Span<const int64_t> dims);

  int rank() const { return rank_; }
  // Extent of axis `i`; a negative `i` counts from the end, as in NumPy.
  int64_t dim(int i) const;
  void set_dim(int i, int64_t extent);
  absl::Span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  // Product of the extents; 1 for a scalar. Requires known (nonnegative) extents whose product fits
  // int64.
  int64_t num_elements() const;

  // Shape of one row: all extents but the outermost. ContractError for rank 0.
  Shape RowShape() const;
  // The shape with `count` as a new outermost extent: the shape of `count` stacked rows.
  Shape Prepend(int64_t count) const;

  // "[128,32,32,3]", "[]" for a scalar; an unknown extent (-1) prints as "?".
  std::string ToString() const;

  friend bool operator==(const Shape& a, const Shape& b) { return a.dims() == b.dims(); }
  template <typename H>
  friend H AbslHashValue(H h, const Shape& s) {
    return H::combine(std::move(h), s.dims());
  }

  auto begin() const { return dims().begin(); }
  auto end() const { return dims().end(); }

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

}  // namespace penstock::base
