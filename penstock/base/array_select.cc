// Parts of arrays, and where their extremes are.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"

#include "penstock/base/array.h"
#include "penstock/base/contract_error.h"

namespace penstock::base {
namespace {

// Whether `b` goes before `a` as the maximum (minimum). NaN comes first, as in numpy.
template <bool kLargest, typename T>
bool IsBetter(const T& a, const T& b) {
  if constexpr (!std::is_integral_v<T>) {
    if (std::isnan(static_cast<double>(a))) return false;
    if (std::isnan(static_cast<double>(b))) return true;
  }
  return kLargest ? a < b : b < a;
}

// The place of the best of `count` elements that stand `stride` apart.
template <bool kLargest, typename T>
int64_t Best(const T* elements, int64_t count, int64_t stride) {
  int64_t best = 0;
  for (int64_t i = 1; i < count; ++i) {
    if (IsBetter<kLargest>(elements[best * stride], elements[i * stride])) best = i;
  }
  return best;
}

void RequireElements(const Array& array, int64_t count, const char* what) {
  if (IsNumeric(array.dtype()) && count > 0) return;
  throw ContractError(absl::StrCat(
      what, " requires a numeric array with at least one element; got ", array.TypeString()));
}

int AxisOf(const Array& array, int axis) {
  const int at = axis < 0 ? axis + array.rank() : axis;
  if (at >= 0 && at < array.rank()) return at;
  throw ContractError(absl::StrCat("there is no axis ", axis, " in ", array.TypeString()));
}

template <bool kLargest>
Array BestAlong(const Array& array, int axis, const char* what) {
  const int at = AxisOf(array, axis);
  RequireElements(array, array.dim(at), what);
  int64_t outer = 1, inner = 1;
  std::vector<int64_t> dims;
  for (int i = 0; i < array.rank(); ++i) {
    if (i < at) outer *= array.dim(i);
    if (i > at) inner *= array.dim(i);
    if (i != at) dims.push_back(array.dim(i));
  }
  Array out = Array::Uninitialized(DType::kI64, Shape(dims));
  int64_t* places = out.mutable_data<int64_t>();
  VisitNumeric(array.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* elements = array.data<T>();
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i) {
        *places++ = Best<kLargest>(elements + o * array.dim(at) * inner + i, array.dim(at), inner);
      }
    }
  });
  return out;
}

template <bool kLargest>
int64_t BestOfAll(const Array& array, const char* what) {
  RequireElements(array, array.num_elements(), what);
  return VisitNumeric(array.dtype(), [&](auto zero) {
    return Best<kLargest>(array.data<decltype(zero)>(), array.num_elements(), 1);
  });
}

// `range` with its ends counted from the beginning of an axis of `extent`, cut to it as Python
// does.
Array::Range Resolved(Array::Range range, int64_t extent) {
  Require(range.step > 0, "the step of a slice must be above 0");
  for (int64_t* end : {&range.begin, &range.end}) {
    if (*end < 0) *end += extent;
    *end = std::clamp<int64_t>(*end, 0, extent);
  }
  range.end = std::max(range.begin, range.end);
  return range;
}

}  // namespace

int64_t Array::ArgMax() const { return BestOfAll<true>(*this, "ArgMax"); }
int64_t Array::ArgMin() const { return BestOfAll<false>(*this, "ArgMin"); }
Array Array::ArgMax(int axis) const { return BestAlong<true>(*this, axis, "ArgMax"); }
Array Array::ArgMin(int axis) const { return BestAlong<false>(*this, axis, "ArgMin"); }

Array Array::Slice(std::initializer_list<Range> ranges) const {
  if (static_cast<int>(ranges.size()) > rank()) {
    throw ContractError(
        absl::StrCat("a slice of ", ranges.size(), " axes does not fit ", TypeString()));
  }
  const int width = BitWidth(dtype_);
  if (width == 0 || width % 8 != 0) {
    throw ContractError(absl::StrCat("elements of ", TypeString(), " are not whole bytes"));
  }
  std::vector<Range> all;
  std::vector<int64_t> dims;
  for (int i = 0; i < rank(); ++i) {
    const Range given = i < static_cast<int>(ranges.size()) ? ranges.begin()[i] : Range();
    all.push_back(Resolved(given, dim(i)));
    const int64_t extent = all[i].end - all[i].begin;
    dims.push_back(extent == 0 ? 0 : (extent - 1) / all[i].step + 1);
  }
  Array out = Uninitialized(dtype_, Shape(dims));
  if (dtype_ == DType::kString) out.KeepAlive(owner_);
  if (out.num_elements() == 0) return out;
  // From the element's place in the result to that in this array, axis by axis.
  const int64_t bytes = width / 8;
  const char* from = static_cast<const char*>(raw());
  char* to = static_cast<char*>(out.mutable_raw());
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    int64_t rest = i, place = 0, stride = 1;
    for (int axis = rank() - 1; axis >= 0; --axis) {
      place += (all[axis].begin + rest % dims[axis] * all[axis].step) * stride;
      rest /= dims[axis];
      stride *= dim(axis);
    }
    std::memcpy(to + i * bytes, from + place * bytes, static_cast<size_t>(bytes));
  }
  return out;
}

int64_t Array::PlaceOf(std::initializer_list<int64_t> index) const {
  bool fits = static_cast<int>(index.size()) == rank() && IsNumeric(dtype_);
  int64_t place = 0;
  for (int i = 0; fits && i < rank(); ++i) {
    const int64_t at = index.begin()[i] < 0 ? index.begin()[i] + dim(i) : index.begin()[i];
    fits = at >= 0 && at < dim(i);
    place = place * dim(i) + at;
  }
  if (fits) return place;
  std::string text;
  for (const int64_t i : index) absl::StrAppend(&text, text.empty() ? "" : ",", i);
  throw ContractError(absl::StrCat("there is no number at [", text, "] in ", TypeString()));
}

}  // namespace penstock::base
