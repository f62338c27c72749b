// Types of arguments that the operations of ops/ share: what Python writes as a tensor or a number,
// a shape or a tensor, one axis or several.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/numeric/int128.h"

#include "penstock/session/graph.h"
#include "penstock/session/variable.h"

namespace penstock::session {

// A tensor, or a number, which becomes a constant of the other operand's type: Maximum(x, 0.0),
// 1 - x. As in TensorFlow, a number with a fraction is an error beside integers. It keeps the line
// on which it was written, so that operators can report it.
class Operand {
 public:
  Operand(const Tensor& tensor, SourceLocation where = SourceLocation::Current())  // NOLINT
      : tensor_(tensor), where_(where) {}
  Operand(const Variable& variable, SourceLocation where = SourceLocation::Current())  // NOLINT
      : tensor_(variable.Value(where)), where_(where) {}
  template <typename T>
  requires std::is_arithmetic_v<T> Operand(T number,
                                           SourceLocation where = SourceLocation::Current())
      : number_(static_cast<double>(number)),
        integer_(IntegerOf(number)),
        where_(where) {}  // NOLINT

  bool is_number() const { return number_.has_value(); }
  double number() const { return number_.value_or(0); }
  // The number, if it was written as an integer: number() rounds those beyond 2^53.
  const std::optional<absl::int128>& integer() const { return integer_; }
  const Tensor& tensor() const { return tensor_; }
  SourceLocation where() const { return where_; }

 private:
  template <typename T>
  static std::optional<absl::int128> IntegerOf(T number) {
    if constexpr (std::is_integral_v<T>) {
      return absl::int128(number);
    } else {
      return std::nullopt;
    }
  }

  Tensor tensor_;
  std::optional<double> number_;
  std::optional<absl::int128> integer_;
  SourceLocation where_;
};

// Axes of a reduction: {} (TensorFlow's None) means all, 1 or {0, -1} these. No axes at all, which
// changes nothing, are a std::vector<int64_t>() that is empty.
class Axes {
 public:
  Axes() = default;
  Axes(std::nullopt_t) {}                                                  // NOLINT
  Axes(int64_t axis) : axes_(std::vector<int64_t>{axis}) {}                // NOLINT
  Axes(std::initializer_list<int64_t> axes) : axes_(std::vector(axes)) {}  // NOLINT
  Axes(std::vector<int64_t> axes) : axes_(std::move(axes)) {}              // NOLINT

  bool all() const { return !axes_.has_value(); }
  // Requires !all().
  const std::vector<int64_t>& list() const { return *axes_; }

 private:
  std::optional<std::vector<int64_t>> axes_;
};

// One number or a list: strides, window sizes, dilations.
class Ints {
 public:
  Ints() = default;                                                  // the default of the operation
  Ints(int64_t one) : values_{one} {}                                // NOLINT
  Ints(std::initializer_list<int64_t> values) : values_(values) {}   // NOLINT
  Ints(std::vector<int64_t> values) : values_(std::move(values)) {}  // NOLINT
  const std::vector<int64_t>& values() const { return values_; }

 private:
  std::vector<int64_t> values_;
};

// A shape: {-1, 4}, or an integer vector that is computed from constants and shapes (ShapeOf): it
// has to be known when the program is compiled, after the shapes of feeds are known.
class ShapeArgument {
 public:
  ShapeArgument(const Shape& shape) : shape_(shape) {}                         // NOLINT
  ShapeArgument(std::initializer_list<int64_t> dims) : shape_(Shape(dims)) {}  // NOLINT
  ShapeArgument(const Tensor& tensor) : tensor_(tensor) {}                     // NOLINT

  bool is_static() const { return shape_.has_value(); }
  const Shape& shape() const { return *shape_; }
  const Tensor& tensor() const { return tensor_; }

 private:
  std::optional<Shape> shape_;
  Tensor tensor_;
};

// Padding of convolutions and pooling: "SAME", "VALID", or explicit amounts for each axis of the
// input, batch and channels included: {{0, 0}, {1, 1}, {2, 2}, {0, 0}}.
class Padding {
 public:
  using Pairs = std::vector<std::pair<int64_t, int64_t>>;
  Padding(const char* name) : name_(name) {}                         // NOLINT
  Padding(std::string name) : name_(std::move(name)) {}              // NOLINT
  Padding(std::initializer_list<std::pair<int64_t, int64_t>> pairs)  // NOLINT
      : name_("EXPLICIT"), pairs_(pairs) {}
  Padding(Pairs pairs) : name_("EXPLICIT"), pairs_(std::move(pairs)) {}  // NOLINT

  const std::string& name() const { return name_; }
  const Pairs& pairs() const { return pairs_; }

 private:
  std::string name_;
  Pairs pairs_;
};

}  // namespace penstock::session
