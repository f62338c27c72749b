// Element types of the host and of PJRT, one table; programs as PJRT takes them.
#pragma once

#include "absl/status/statusor.h"

#include "penstock/base/dtype.h"
#include "penstock/ir/stablehlo.h"
#include "penstock/runtime/pjrt_api.h"

namespace penstock::runtime {

// The error says which types a device takes.
absl::StatusOr<PJRT_Buffer_Type> PjrtType(base::DType dtype);

// A view of the program's text.
PJRT_Program ProgramText(const ir::Program& program);

}  // namespace penstock::runtime
