// Numbers, lists of sizes and slices: arguments of operations that are no tensors.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "penstock/base/dtype.h"
#include "penstock/base/shape.h"

namespace penstock::lazy {

// torch.float32 and its kin.
inline constexpr base::DType kFloat = base::DType::kF32, kFloat32 = base::DType::kF32,
                             kDouble = base::DType::kF64, kFloat64 = base::DType::kF64,
                             kHalf = base::DType::kF16, kFloat16 = base::DType::kF16,
                             kBFloat16 = base::DType::kBF16, kLong = base::DType::kI64,
                             kInt64 = base::DType::kI64, kInt = base::DType::kI32,
                             kInt32 = base::DType::kI32, kUInt8 = base::DType::kU8,
                             kBool = base::DType::kBool;

// A Python number. Its kind (bool, int, float) decides the type of the result together with the
// tensor's: int tensor + 1 is an int tensor, int tensor + 1.5 is float32.
class Scalar {
 public:
  enum class Kind { kBool, kInt, kFloat };
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  Scalar(T value)  // NOLINT(google-explicit-constructor)
      : kind_(std::is_same_v<T, bool> ? Kind::kBool
              : std::is_integral_v<T> ? Kind::kInt
                                      : Kind::kFloat),
        value_(static_cast<double>(value)),
        integer_(std::is_integral_v<T> ? static_cast<int64_t>(value) : 0) {}

  Kind kind() const { return kind_; }
  double value() const { return value_; }
  // The number itself unless it is a float; value() has 53 bits of it.
  int64_t integer() const { return integer_; }

 private:
  Kind kind_;
  double value_;
  int64_t integer_;
};

// A number, or one number for each axis: `.stride = 2`, `.stride = {2, 1}`; dims of a reduction:
// sum(x, 1), sum(x, {0, 2}).
class Sizes {
 public:
  Sizes() = default;
  template <std::integral T>
  Sizes(T value) : values_{static_cast<int64_t>(value)} {}  // NOLINT(google-explicit-constructor)
  Sizes(std::initializer_list<int64_t> values)              // NOLINT(google-explicit-constructor)
      : values_(values) {}
  Sizes(std::vector<int64_t> values)  // NOLINT(google-explicit-constructor)
      : values_(std::move(values)) {}
  Sizes(const base::Shape& shape)  // NOLINT(google-explicit-constructor)
      : values_(shape.begin(), shape.end()) {}

  const std::vector<int64_t>& values() const { return values_; }
  bool empty() const { return values_.empty(); }
  size_t size() const { return values_.size(); }
  int64_t operator[](size_t i) const { return values_[i]; }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  // One number for each of `axes` axes; empty if the list has another length.
  std::vector<int64_t> Each(size_t axes) const {
    if (values_.size() == 1) return std::vector<int64_t>(axes, values_[0]);
    return values_.size() == axes ? values_ : std::vector<int64_t>();
  }
  std::string ToString() const;  // "(2, 1)"

 private:
  std::vector<int64_t> values_;
};

// Python's begin:end:step; step above 0. Negative ends count from the end.
struct Slice {
  std::optional<int64_t> begin = {}, end = {};
  int64_t step = 1;
};
}  // namespace penstock::lazy
