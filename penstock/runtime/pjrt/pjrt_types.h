// Conversion of element types and programs to PJRT's.
#pragma once

#include "absl/status/statusor.h"

#include "penstock/base/dtype.h"
#include "penstock/ir/stablehlo.h"
#include "penstock/runtime/pjrt/pjrt_api.h"

namespace penstock::runtime {

// The PJRT type; the error lists the types that a device supports.
absl::StatusOr<PJRT_Buffer_Type> PjrtType(base::DType dtype);

// A view of the program's text.
PJRT_Program ProgramText(const ir::Program& program);

}  // namespace penstock::runtime
