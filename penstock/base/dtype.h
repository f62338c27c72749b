// DType: element types of arrays and tensors, with the names of NumPy and StableHLO. One table
// (dtype.cc) holds the properties of each.
#pragma once

#include <complex>
#include <cstdint>
#include <type_traits>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/float16.h"

namespace penstock::base {

enum class DType : uint8_t {
  kInvalid,
  kBool,  // one byte, 0 or 1
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kU16,
  kU32,
  kU64,
  kF16,
  kBF16,
  kF32,
  kF64,
  kC64,  // two floats
  // Storage-only types (formats of safetensors); no arithmetic.
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kF6E2M3,
  kF6E3M2,
  kF4,
  // Elements are absl::string_view; the Array keeps their bytes alive. Host only.
  kString,
};
inline constexpr int kNumDTypes = static_cast<int>(DType::kString) + 1;

// NumPy's name: "float32", "bfloat16", "uint8", "string".
absl::string_view DTypeName(DType dtype);
// StableHLO's name: "f32", "bf16", "ui8", "i1"; empty for kString and kInvalid.
absl::string_view DTypeStableHlo(DType dtype);
// The DType with that NumPy name; the error lists the known names.
absl::StatusOr<DType> DTypeFromName(absl::string_view name);

// Bits of one element: 8 for kBool, 4 for kF4, 128 for kString (a string_view).
int BitWidth(DType dtype);
// Bytes of one element; ContractError for types narrower than a byte.
int ByteWidth(DType dtype);

bool IsFloat(DType dtype);    // kF16, kBF16, kF32, kF64
bool IsInteger(DType dtype);  // signed and unsigned, not kBool
bool IsSigned(DType dtype);   // signed integers and floats

namespace internal {
template <typename T>
struct DTypeOfImpl;
#define PENSTOCK_DTYPE_OF_(type, dtype)          \
  template <>                                    \
  struct DTypeOfImpl<type> {                     \
    static constexpr DType value = DType::dtype; \
  }
PENSTOCK_DTYPE_OF_(bool, kBool);
PENSTOCK_DTYPE_OF_(int8_t, kI8);
PENSTOCK_DTYPE_OF_(int16_t, kI16);
PENSTOCK_DTYPE_OF_(int32_t, kI32);
PENSTOCK_DTYPE_OF_(int64_t, kI64);
PENSTOCK_DTYPE_OF_(uint8_t, kU8);
PENSTOCK_DTYPE_OF_(uint16_t, kU16);
PENSTOCK_DTYPE_OF_(uint32_t, kU32);
PENSTOCK_DTYPE_OF_(uint64_t, kU64);
PENSTOCK_DTYPE_OF_(float16, kF16);
PENSTOCK_DTYPE_OF_(bfloat16, kBF16);
PENSTOCK_DTYPE_OF_(float, kF32);
PENSTOCK_DTYPE_OF_(double, kF64);
PENSTOCK_DTYPE_OF_(std::complex<float>, kC64);
PENSTOCK_DTYPE_OF_(absl::string_view, kString);
#undef PENSTOCK_DTYPE_OF_
}  // namespace internal

// The DType of a C++ type: DTypeOf<float>() is kF32.
template <typename T>
constexpr DType DTypeOf() {
  return internal::DTypeOfImpl<std::remove_cv_t<T>>::value;
}

// Calls visitor(T{}) with the C++ type of a numeric dtype (kBool to kF64) and returns its result.
// Any other dtype is a ContractError (contract_error.h); check IsNumeric first.
bool IsNumeric(DType dtype);
[[noreturn]] void NotNumeric(DType dtype);
template <typename Visitor>
auto VisitNumeric(DType dtype, Visitor&& visitor) {
  switch (dtype) {
    case DType::kBool:
      return visitor(bool{});
    case DType::kI8:
      return visitor(int8_t{});
    case DType::kI16:
      return visitor(int16_t{});
    case DType::kI32:
      return visitor(int32_t{});
    case DType::kI64:
      return visitor(int64_t{});
    case DType::kU8:
      return visitor(uint8_t{});
    case DType::kU16:
      return visitor(uint16_t{});
    case DType::kU32:
      return visitor(uint32_t{});
    case DType::kU64:
      return visitor(uint64_t{});
    case DType::kF16:
      return visitor(float16{});
    case DType::kBF16:
      return visitor(bfloat16{});
    case DType::kF32:
      return visitor(float{});
    case DType::kF64:
      return visitor(double{});
    default:
      NotNumeric(dtype);
  }
}

}  // namespace penstock::base
