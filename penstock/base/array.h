// Array: a dense, row-major (C-contiguous) host tensor, like a NumPy ndarray. It is a view (dtype,
// shape, pointer) of reference-counted memory that several Arrays may share, so copying an Array is
// cheap and copies no elements. Memory that Array allocates is aligned to 64 bytes, so that a CPU
// device can use it without a copy (zero-copy).
//
//   Array images = Array::Zeros(DType::kU8, {128, 32, 32, 3});
//   Array third = images.Row(3);                 // [32,32,3], the same memory
//   Array half = images.Slice(0, 64);            // [64,32,32,3], the same memory
//   uint8_t* pixels = third.mutable_data<uint8_t>();
//   Array labels = Array::Of<int64_t>({2}, {3, 7});
//   Array names = Array::Strings({2}, {"cat", "dog"});
//   float score = scores.item<float>({0, -1});
//   int64_t best = scores.Row(0).ArgMax();
//   std::cout << scores;                         // as numpy prints it
//
// Misuse throws ContractError (contract_error.h) and changes nothing: an element type other than
// dtype(), an index out of range, a number of values that does not match the shape. Sizes that do
// not fit into memory throw std::bad_alloc.
//
// Thread safety: that of an ordinary value; access to the shared elements is not synchronized.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/base/dtype.h"
#include "penstock/base/numeric_cast.h"
#include "penstock/base/shape.h"
#include "penstock/base/status.h"

namespace penstock::base {

inline constexpr int64_t kArrayAlignment = 64;

class Array {
 public:
  // An invalid array (dtype kInvalid).
  Array() = default;

  static Array Uninitialized(DType dtype, Shape shape);  // kString elements start as empty views
  static Array Zeros(DType dtype, Shape shape);
  // Copies `values`; their number must equal the number of elements of `shape`.
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
  // An array of strings that owns copies of the bytes of `values`.
  static Array Strings(Shape shape, absl::Span<const std::string> values);
  static Array Strings(Shape shape, std::initializer_list<std::string> values) {
    return Strings(std::move(shape), absl::MakeConstSpan(values.begin(), values.size()));
  }
  // An array over existing memory, without a copy; `owner` keeps that memory alive.
  static Array View(DType dtype, Shape shape, const void* data, std::shared_ptr<const void> owner);

  bool valid() const { return dtype_ != DType::kInvalid; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  int64_t dim(int i) const { return shape_.dim(i); }
  int64_t num_elements() const { return shape_.num_elements(); }
  int64_t num_bytes() const;  // a string counts as its string_view, without its bytes

  const void* raw() const { return data_; }
  void* mutable_raw() { return const_cast<void*>(data_); }
  // Pointer to the elements. T must be the C++ type of dtype() (see DTypeOf).
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
  // The value of a numeric array with exactly one element, converted to T by NumericCast: floats saturate
  // integers, NaN becomes 0.
  template <typename T>
  T item() const;
  // The element at an index for each axis, converted; a negative one counts from the end.
  template <typename T>
  T item(std::initializer_list<int64_t> index) const;

  // Place of the maximum (minimum) in row-major order, the first of several; NaN counts as both, as
  // in numpy.argmax. Along an axis (negative: from the end): int64, of the other axes' shape.
  int64_t ArgMax() const;
  int64_t ArgMin() const;
  Array ArgMax(int axis) const;
  Array ArgMin(int axis) const;

  // Rows [begin, end) of the outermost dimension; shares memory with this array.
  Array Slice(int64_t begin, int64_t end) const;
  // Python's begin:end:step along an axis: negative ends count from the end, ends beyond the axis
  // are cut to it.
  struct Range {
    int64_t begin = 0;
    int64_t end = INT64_MAX;
    int64_t step = 1;  // above 0
  };
  // A copy of these ranges of the first axes, whole along the others: a[0:2, 1:] is
  // Slice({{0, 2}, {1}}).
  Array Slice(std::initializer_list<Range> ranges) const;
  // Row i, with rank reduced by one; shares memory with this array.
  Array Row(int64_t i) const;
  // The same elements with another shape of the same number of elements; shares memory.
  absl::StatusOr<Array> Reshape(Shape shape) const;
  // The elements converted by NumericCast (numeric_cast.h: floats saturate integers, NaN becomes 0).
  // Returns a new array unless the dtype is the same. Numeric dtypes only.
  absl::StatusOr<Array> Cast(DType dtype) const;
  // A deep copy.
  Array Clone() const;

  // Extends the lifetime of `owner` to that of this array's memory; used when kString elements
  // point into it.
  void KeepAlive(std::shared_ptr<const void> owner);
  // The reference-counted owner of the memory; a use_count() of 1 means that no other Array shares
  // it.
  const std::shared_ptr<const void>& owner() const { return owner_; }

  // "uint8[128,32,32,3]".
  std::string TypeString() const;
  // TypeString() and the first `max_elements` elements, in one line: for errors.
  std::string ToString(int64_t max_elements = 16) const;
  // As numpy's repr: "array([[0.5, 1. ],\n       [2. , 3. ]], dtype=float32)". Of more than 1000
  // elements only three at each end of an axis.
  std::string Repr() const;

 private:
  // The place of an element in row-major order.
  int64_t PlaceOf(std::initializer_list<int64_t> index) const;
  [[noreturn]] void ThrowWrongType(DType asked) const;
  [[noreturn]] void ThrowNoItem() const;
  [[noreturn]] static void ThrowWrongCount(const Shape& shape, size_t values);

  DType dtype_ = DType::kInvalid;
  Shape shape_;
  const void* data_ = nullptr;
  std::shared_ptr<const void> owner_;
};

// As numpy's str: Repr without "array(...)" and commas.
std::ostream& operator<<(std::ostream& out, const Array& array);
template <typename Sink>
void AbslStringify(Sink& sink, const Array& array) {
  sink.Append(array.Repr());
}

// Whether both arrays have the same dtype, shape and elements. Floats are compared bitwise: a NaN
// equals itself, and 0 differs from -0.
bool BitwiseEqual(const Array& a, const Array& b);

// An ordered map from name to Array: the components of a batch, the weights of a model.
class NamedArrays {
 public:
  using Entry = std::pair<std::string, Array>;

  NamedArrays() = default;
  NamedArrays(std::initializer_list<Entry> entries) : entries_(entries) {}

  // Adds the array, or replaces the one of that name in place.
  void Set(absl::string_view name, Array array);
  // Adds the array without searching for the name; the caller guarantees that the name is new. For
  // thousands of names read from a file, where Set would take quadratic time.
  void Append(absl::string_view name, Array array) {
    entries_.emplace_back(std::string(name), std::move(array));
  }
  const Array* Find(absl::string_view name) const;  // nullptr if not found
  // NotFound if no array has that name; the error lists the available names.
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
T Array::item(std::initializer_list<int64_t> index) const {
  const int64_t place = PlaceOf(index);
  return VisitNumeric(dtype_, [&](auto zero) {
    return NumericCast<T>(static_cast<const decltype(zero)*>(data_)[place]);
  });
}

template <typename T>
T Array::item() const {
  if (num_elements() != 1 || !IsNumeric(dtype_)) ThrowNoItem();
  return VisitNumeric(dtype_, [&](auto zero) {
    return NumericCast<T>(*static_cast<const decltype(zero)*>(data_));
  });
}

}  // namespace penstock::base
