#include "penstock/base/dtype.h"

#include <string>

#include "absl/strings/str_cat.h"

#include "penstock/base/contract_error.h"
#include "penstock/base/status.h"

namespace penstock::base {
namespace {

enum Kind { kOther, kBoolean, kSignedInteger, kUnsignedInteger, kFloating };

struct Row {
  DType dtype;
  const char* name;
  const char* stablehlo;
  int bits;
  Kind kind;
};

constexpr Row kTable[] = {
    {DType::kInvalid, "invalid", "", 0, kOther},
    {DType::kBool, "bool", "i1", 8, kBoolean},
    {DType::kI8, "int8", "i8", 8, kSignedInteger},
    {DType::kI16, "int16", "i16", 16, kSignedInteger},
    {DType::kI32, "int32", "i32", 32, kSignedInteger},
    {DType::kI64, "int64", "i64", 64, kSignedInteger},
    {DType::kU8, "uint8", "ui8", 8, kUnsignedInteger},
    {DType::kU16, "uint16", "ui16", 16, kUnsignedInteger},
    {DType::kU32, "uint32", "ui32", 32, kUnsignedInteger},
    {DType::kU64, "uint64", "ui64", 64, kUnsignedInteger},
    {DType::kF16, "float16", "f16", 16, kFloating},
    {DType::kBF16, "bfloat16", "bf16", 16, kFloating},
    {DType::kF32, "float32", "f32", 32, kFloating},
    {DType::kF64, "float64", "f64", 64, kFloating},
    {DType::kC64, "complex64", "complex<f32>", 64, kOther},
    {DType::kF8E4M3, "float8_e4m3fn", "f8E4M3FN", 8, kOther},
    {DType::kF8E5M2, "float8_e5m2", "f8E5M2", 8, kOther},
    {DType::kF8E8M0, "float8_e8m0fnu", "f8E8M0FNU", 8, kOther},
    {DType::kF8E4M3Fnuz, "float8_e4m3fnuz", "f8E4M3FNUZ", 8, kOther},
    {DType::kF8E5M2Fnuz, "float8_e5m2fnuz", "f8E5M2FNUZ", 8, kOther},
    {DType::kF6E2M3, "float6_e2m3fn", "f6E2M3FN", 6, kOther},
    {DType::kF6E3M2, "float6_e3m2fn", "f6E3M2FN", 6, kOther},
    {DType::kF4, "float4_e2m1fn", "f4E2M1FN", 4, kOther},
    {DType::kString, "string", "", 8 * static_cast<int>(sizeof(absl::string_view)), kOther},
};
static_assert(sizeof(kTable) / sizeof(kTable[0]) == kNumDTypes);

const Row& RowOf(DType dtype) {
  const Row& row = kTable[static_cast<int>(dtype)];
  PENSTOCK_CHECK(row.dtype == dtype);
  return row;
}

}  // namespace

absl::string_view DTypeName(DType dtype) { return RowOf(dtype).name; }
absl::string_view DTypeStableHlo(DType dtype) { return RowOf(dtype).stablehlo; }

absl::StatusOr<DType> DTypeFromName(absl::string_view name) {
  std::string known;
  for (const Row& row : kTable) {
    if (row.dtype == DType::kInvalid) continue;
    if (name == row.name) return row.dtype;
    absl::StrAppend(&known, known.empty() ? "" : ", ", row.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown element type '", name, "'; known types are ", known));
}

int BitWidth(DType dtype) { return RowOf(dtype).bits; }

int ByteWidth(DType dtype) {
  const int bits = RowOf(dtype).bits;
  if (bits % 8 != 0) {
    throw ContractError(
        absl::StrCat("an element of ", RowOf(dtype).name, " is not a whole number of bytes"));
  }
  return bits / 8;
}

bool IsFloat(DType dtype) { return RowOf(dtype).kind == kFloating; }

bool IsInteger(DType dtype) {
  const Kind kind = RowOf(dtype).kind;
  return kind == kSignedInteger || kind == kUnsignedInteger;
}

bool IsSigned(DType dtype) {
  const Kind kind = RowOf(dtype).kind;
  return kind == kSignedInteger || kind == kFloating;
}

bool IsNumeric(DType dtype) { return RowOf(dtype).kind != kOther; }

void NotNumeric(DType dtype) {
  throw ContractError(
      absl::StrCat("a numeric element type is required, but this one is ", DTypeName(dtype)));
}

}  // namespace penstock::base
