// Array: a dense, row-major host tensor. It is a view (type, shape, pointer) of memory that several
// Arrays may share, so copying one is cheap and copies no element. Memory that Array allocates is
// aligned to 64 bytes, which lets a device use it without a copy.
//
//   Array images = Array::Zeros(DType::kU8, {128, 32, 32, 3});
//   Array third = images.Row(3);                 // [32,32,3], the same memory
//   Array half = images.Slice(0, 64);            // [64,32,32,3], the same memory
//   uint8_t* pixels = third.mutable_data<uint8_t>();
//   Array labels = Array::Of<int64_t>({2}, {3, 7});
//   Array names = Array::Strings({2}, {"cat", "dog"});
//
// Wrong use throws ContractError (contract_error.h) and changes nothing: another element type than
// dtype(), an index out of range, values that do not fill the shape. Sizes that do not fit into
// memory throw std::bad_alloc.
//
// Threads: as an ordinary value; the shared elements are not guarded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/base/dtype.h"
#include "penstock/base/shape.h"
#include "penstock/base/status.h"

namespace penstock::base {

inline constexpr int64_t kArrayAlignment = 64;

class Array {
 public:
  // No array: dtype kInvalid.
  Array() = default;

  static Array Uninitialized(DType dtype, Shape shape);  // kString elements start as empty views
  static Array Zeros(DType dtype, Shape shape);
  // Copies `values`, as many as the shape has elements.
  template <typename T>
  static Array Of(Shape shape, absl::Span<const T> values);
  template <typename T>
  static Array Of(Shape shape, std::initializer_list<T> values) {
    return Of<T>(std::move(shape), absl::Span<const T>(values.begin(), values.size()));
  }
  template <typename T>
  static Array Scalar(T value) {
    return Of<T>({}, {value});
  }
  // Copies the bytes of `values` into memory of its own.
  static Array Strings(Shape shape, absl::Span<const std::string> values);
  static Array Strings(Shape shape, std::initializer_list<std::string> values) {
    return Strings(std::move(shape), absl::MakeConstSpan(values.begin(), values.size()));
  }
  // Looks at memory that `owner` keeps alive.
  static Array View(DType dtype, Shape shape, const void* data, std::shared_ptr<const void> owner);

  bool valid() const { return dtype_ != DType::kInvalid; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  int64_t dim(int i) const { return shape_.dim(i); }
  int64_t num_elements() const { return shape_.num_elements(); }
  int64_t num_bytes() const;  // of the elements; strings count their views, not their bytes

  const void* raw() const { return data_; }
  void* mutable_raw() { return const_cast<void*>(data_); }
  // T must be the C++ type of dtype(): see DTypeOf.
  template <typename T>
  const T* data() const {
    if (DTypeOf<T>() != dtype_) ThrowWrongType(DTypeOf<T>());
    return static_cast<const T*>(data_);
  }
  template <typename T>
  T* mutable_data() {
    if (DTypeOf<T>() != dtype_) ThrowWrongType(DTypeOf<T>());
    return static_cast<T*>(mutable_raw());
  }
  template <typename T>
  absl::Span<const T> values() const {
    return absl::Span<const T>(data<T>(), static_cast<size_t>(num_elements()));
  }
  // The only element of a one-element numeric array, converted.
  template <typename T>
  T item() const;

  // Rows [begin, end) of the outermost dimension; shares memory.
  Array Slice(int64_t begin, int64_t end) const;
  // Row i, one rank less; shares memory.
  Array Row(int64_t i) const;
  // Same elements, another shape; shares memory. The numbers of elements must agree.
  absl::StatusOr<Array> Reshape(Shape shape) const;
  // Elements converted as C++ converts them (bool: not zero); a new array unless the type is the
  // same. Only numeric types.
  absl::StatusOr<Array> Cast(DType dtype) const;
  // The same elements in memory of its own.
  Array Clone() const;

  // Keeps `owner` alive as long as this array's memory: for kString elements that point into it.
  void KeepAlive(std::shared_ptr<const void> owner);
  // What keeps the memory alive. One owner means the memory is not shared with another Array.
  const std::shared_ptr<const void>& owner() const { return owner_; }

  // "uint8[128,32,32,3]".
  std::string TypeString() const;
  // TypeString and the first `max_elements` elements.
  std::string ToString(int64_t max_elements = 16) const;

 private:
  [[noreturn]] void ThrowWrongType(DType asked) const;
  [[noreturn]] void ThrowNoItem() const;
  [[noreturn]] static void ThrowWrongCount(const Shape& shape, size_t values);

  DType dtype_ = DType::kInvalid;
  Shape shape_;
  const void* data_ = nullptr;
  std::shared_ptr<const void> owner_;
};

// Same type, shape and elements; floats compare by bits, so a NaN equals itself and 0 differs from
// -0.
bool BitwiseEqual(const Array& a, const Array& b);

// Arrays by name, in order: a batch, a model's weights.
class NamedArrays {
 public:
  using Entry = std::pair<std::string, Array>;

  NamedArrays() = default;
  NamedArrays(std::initializer_list<Entry> entries) : entries_(entries) {}

  // Adds, or replaces in place.
  void Set(absl::string_view name, Array array);
  // Adds without looking for the name: for whoever knows that it is new (thousands of names read
  // from a file, where Set would take quadratic time).
  void Append(absl::string_view name, Array array) {
    entries_.emplace_back(std::string(name), std::move(array));
  }
  const Array* Find(absl::string_view name) const;  // nullptr when there is none
  // The error lists the names there are.
  absl::StatusOr<Array> Get(absl::string_view name) const;

  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  const Entry& operator[](size_t i) const { return entries_.at(i); }  // may throw out_of_range

  std::string ToString() const;  // "{image: uint8[2,8,8,3], class: int64[2]}"

 private:
  std::vector<Entry> entries_;
};

template <typename T>
Array Array::Of(Shape shape, absl::Span<const T> values) {
  if (shape.num_elements() != static_cast<int64_t>(values.size())) {
    ThrowWrongCount(shape, values.size());
  }
  Array out = Uninitialized(DTypeOf<T>(), std::move(shape));
  T* p = out.mutable_data<T>();
  for (size_t i = 0; i < values.size(); ++i) p[i] = values[i];
  return out;
}

template <typename T>
T Array::item() const {
  if (num_elements() != 1 || !IsNumeric(dtype_)) ThrowNoItem();
  return VisitNumeric(dtype_, [&](auto zero) {
    return static_cast<T>(*static_cast<const decltype(zero)*>(data_));
  });
}

}  // namespace penstock::base
