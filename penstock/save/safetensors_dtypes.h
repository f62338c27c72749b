// Element types of safetensors. Internal to safetensors*.cc.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/base/dtype.h"

namespace penstock::save {

struct SafetensorsDType {
  absl::string_view name;
  base::DType dtype;
};

// In the order in which tensors are written: the widest first, so that each is aligned to the size
// of its element. The order among types of one width is that of the safetensors library.
inline constexpr SafetensorsDType kSafetensorsDTypes[] = {
    {"U64", base::DType::kU64},
    {"I64", base::DType::kI64},
    {"F64", base::DType::kF64},
    {"C64", base::DType::kC64},
    {"F32", base::DType::kF32},
    {"U32", base::DType::kU32},
    {"I32", base::DType::kI32},
    {"BF16", base::DType::kBF16},
    {"F16", base::DType::kF16},
    {"U16", base::DType::kU16},
    {"I16", base::DType::kI16},
    {"F8_E5M2FNUZ", base::DType::kF8E5M2Fnuz},
    {"F8_E4M3FNUZ", base::DType::kF8E4M3Fnuz},
    {"F8_E8M0", base::DType::kF8E8M0},
    {"F8_E4M3", base::DType::kF8E4M3},
    {"F8_E5M2", base::DType::kF8E5M2},
    {"I8", base::DType::kI8},
    {"U8", base::DType::kU8},
    {"F6_E3M2", base::DType::kF6E3M2},
    {"F6_E2M3", base::DType::kF6E2M3},
    {"F4", base::DType::kF4},
    {"BOOL", base::DType::kBool},
};

// nullptr if there is none.
const SafetensorsDType* FindSafetensorsDType(absl::string_view name);
const SafetensorsDType* FindSafetensorsDType(base::DType dtype);
// "U64, I64, ...".
std::string SafetensorsDTypeNames();

}  // namespace penstock::save
