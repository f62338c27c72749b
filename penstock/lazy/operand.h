// Arguments that may be tensors: Operand (a tensor or a number, with the line of the call) and
// Index (an entry of x[...]).
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "penstock/lazy/scalar.h"
#include "penstock/lazy/tensor.h"

namespace penstock::lazy {

// A tensor or a number, with the line of the program that passed it. Functions of two values take
// Operands, so that mul(x, y), mul(x, 2), 2 * x and where(c, x, 0.0) are one function each.
class Operand {
 public:
  Operand(Tensor tensor,  // NOLINT(google-explicit-constructor)
          SourceLocation where = SourceLocation::Current())
      : tensor_(std::move(tensor)), where_(where) {}
  Operand(Scalar scalar,  // NOLINT(google-explicit-constructor)
          SourceLocation where = SourceLocation::Current())
      : scalar_(scalar), where_(where) {}
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  Operand(T value,  // NOLINT(google-explicit-constructor)
          SourceLocation where = SourceLocation::Current())
      : scalar_(value), where_(where) {}

  bool is_scalar() const { return scalar_.has_value(); }
  const Scalar& scalar() const { return *scalar_; }
  const Tensor& tensor() const { return tensor_; }
  const SourceLocation& where() const { return where_; }

 private:
  Tensor tensor_;
  std::optional<Scalar> scalar_;
  SourceLocation where_;
};

struct EllipsisType {};
inline constexpr EllipsisType Ellipsis{};
inline constexpr std::nullopt_t None = std::nullopt;

// One entry of x[...]: a position, a slice, None (a new axis), an ellipsis, a tensor of integers.
//
//   x.index({Ellipsis, 0})                 // x[..., 0]
//   x.index({Slice{}, Slice{1, 3}})        // x[:, 1:3]
class Index {
 public:
  using Value = std::variant<int64_t, Slice, std::nullopt_t, EllipsisType, Tensor>;
  template <std::integral T>
  Index(T at) : value_(static_cast<int64_t>(at)) {}      // NOLINT(google-explicit-constructor)
  Index(Slice slice) : value_(slice) {}                  // NOLINT(google-explicit-constructor)
  Index(std::nullopt_t none) : value_(none) {}           // NOLINT(google-explicit-constructor)
  Index(EllipsisType all) : value_(all) {}               // NOLINT(google-explicit-constructor)
  Index(Tensor indices) : value_(std::move(indices)) {}  // NOLINT(google-explicit-constructor)
  const Value& value() const { return value_; }

 private:
  Value value_;
};
using Indices = std::vector<Index>;

}  // namespace penstock::lazy
