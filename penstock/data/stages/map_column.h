// Functions of one column's numbers, by their C++ type, as functions of arrays: for Dataset::Map.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/base/array.h"

namespace penstock::data {

// A function of one column of an element, which makes another one.
struct ColumnFunction {
  base::DType reads, makes;
  bool keeps_shape;  // false: makes one number
  std::function<absl::Status(const base::Array& in, base::Array* out)> run;
};

namespace internal {

template <typename U>
struct ColumnResult {
  using Type = U;
  static absl::Status Take(U value, U& out) {
    out = std::move(value);
    return absl::OkStatus();
  }
};
template <typename U>
struct ColumnResult<absl::StatusOr<U>> {
  using Type = U;
  static absl::Status Take(absl::StatusOr<U> value, U& out) {
    if (!value.ok()) return value.status();
    out = *std::move(value);
    return absl::OkStatus();
  }
};

template <typename U>
constexpr base::DType ColumnType() {
  if constexpr (std::is_same_v<U, std::string>) {
    return base::DType::kString;
  } else {
    return base::DTypeOf<U>();
  }
}

// Writes results one by one into an array.
template <typename U>
class ColumnOutput {
 public:
  explicit ColumnOutput(base::Shape shape)
      : array_(base::Array::Uninitialized(base::DTypeOf<U>(), std::move(shape))),
        next_(array_.mutable_data<U>()) {}
  void Add(U value) { *next_++ = value; }
  base::Array Finish() { return std::move(array_); }

 private:
  base::Array array_;
  U* next_;
};
template <>
class ColumnOutput<std::string> {
 public:
  explicit ColumnOutput(base::Shape shape) : shape_(std::move(shape)) {}
  void Add(std::string value) { values_.push_back(std::move(value)); }
  base::Array Finish() {
    return base::Array::Strings(std::move(shape_), absl::MakeConstSpan(values_));
  }

 private:
  base::Shape shape_;
  std::vector<std::string> values_;
};

// One result for each of `count` calls.
template <typename U, typename Call>
absl::Status FillColumn(base::Shape shape, int64_t count, Call call, base::Array* out) {
  using Result = ColumnResult<U>;
  ColumnOutput<typename Result::Type> output(std::move(shape));
  for (int64_t i = 0; i < count; ++i) {
    typename Result::Type value{};
    const absl::Status status = Result::Take(call(i), value);
    if (!status.ok()) return status;
    output.Add(std::move(value));
  }
  *out = output.Finish();
  return absl::OkStatus();
}

}  // namespace internal

// T is the C++ type of the column's elements; `function` has one of the forms that Dataset::Map
// lists.
template <typename T, typename F>
ColumnFunction MakeColumnFunction(F function) {
  using base::Array;
  if constexpr (std::is_invocable_v<F, T>) {
    using U = std::decay_t<std::invoke_result_t<F, T>>;
    static_assert(!std::is_void_v<U>, "f(T) returns the new number; f(absl::Span<T>) changes it");
    return {.reads = base::DTypeOf<T>(),
            .makes = internal::ColumnType<typename internal::ColumnResult<U>::Type>(),
            .keeps_shape = true,
            .run = [function](const Array& in, Array* out) {
              const auto values = in.values<T>();
              return internal::FillColumn<U>(
                  in.shape(), in.num_elements(),
                  [&](int64_t i) { return function(values[static_cast<size_t>(i)]); }, out);
            }};
  } else if constexpr (std::is_invocable_v<F, absl::Span<const T>>) {
    using U = std::decay_t<std::invoke_result_t<F, absl::Span<const T>>>;
    static_assert(!std::is_void_v<U>,
                  "f(absl::Span<const T>) returns a number; f(absl::Span<T>) changes the numbers");
    return {.reads = base::DTypeOf<T>(),
            .makes = internal::ColumnType<typename internal::ColumnResult<U>::Type>(),
            .keeps_shape = false,
            .run = [function](const Array& in, Array* out) {
              return internal::FillColumn<U>(
                  base::Shape(), 1, [&](int64_t) { return function(in.values<T>()); }, out);
            }};
  } else {
    static_assert(std::is_invocable_v<F, absl::Span<T>>,
                  "the function takes a T, an absl::Span<const T> or an absl::Span<T>");
    return {.reads = base::DTypeOf<T>(),
            .makes = base::DTypeOf<T>(),
            .keeps_shape = true,
            .run = [function](const Array& in, Array* out) -> absl::Status {
              *out = in.Clone();
              const absl::Span<T> values(out->mutable_data<T>(),
                                         static_cast<size_t>(out->num_elements()));
              if constexpr (std::is_void_v<std::invoke_result_t<F, absl::Span<T>>>) {
                function(values);
                return absl::OkStatus();
              } else {
                return function(values);
              }
            }};
  }
}

}  // namespace penstock::data
