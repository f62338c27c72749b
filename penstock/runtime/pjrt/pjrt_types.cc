#include "penstock/runtime/pjrt/pjrt_types.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace penstock::runtime {
namespace {

using base::DType;

struct Row {
  DType dtype;
  PJRT_Buffer_Type type;
};

// Types smaller than a byte are not supported: the host packs them, PJRT does not.
constexpr Row kTable[] = {
    {DType::kBool, PJRT_Buffer_Type_PRED},        {DType::kI8, PJRT_Buffer_Type_S8},
    {DType::kI16, PJRT_Buffer_Type_S16},          {DType::kI32, PJRT_Buffer_Type_S32},
    {DType::kI64, PJRT_Buffer_Type_S64},          {DType::kU8, PJRT_Buffer_Type_U8},
    {DType::kU16, PJRT_Buffer_Type_U16},          {DType::kU32, PJRT_Buffer_Type_U32},
    {DType::kU64, PJRT_Buffer_Type_U64},          {DType::kF16, PJRT_Buffer_Type_F16},
    {DType::kBF16, PJRT_Buffer_Type_BF16},        {DType::kF32, PJRT_Buffer_Type_F32},
    {DType::kF64, PJRT_Buffer_Type_F64},          {DType::kC64, PJRT_Buffer_Type_C64},
    {DType::kF8E4M3, PJRT_Buffer_Type_F8E4M3FN},  {DType::kF8E5M2, PJRT_Buffer_Type_F8E5M2},
    {DType::kF8E8M0, PJRT_Buffer_Type_F8E8M0FNU},
};

}  // namespace

absl::StatusOr<PJRT_Buffer_Type> PjrtType(DType dtype) {
  std::string known;
  for (const Row& row : kTable) {
    if (row.dtype == dtype) return row.type;
    absl::StrAppend(&known, known.empty() ? "" : ", ", base::DTypeName(row.dtype));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a device does not support ", base::DTypeName(dtype), "; it supports ", known));
}

PJRT_Program ProgramText(const ir::Program& program) {
  constexpr absl::string_view kFormat = "mlir";
  PENSTOCK_PJRT_ARGS(PJRT_Program, code);
  code.code = const_cast<char*>(program.text.data());  // in/out by its type, only read by compilers
  code.code_size = program.text.size();
  code.format = kFormat.data();
  code.format_size = kFormat.size();
  return code;
}

}  // namespace penstock::runtime
