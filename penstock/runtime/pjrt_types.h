// Element types of the host and of PJRT, one table.
#pragma once

#include "absl/status/statusor.h"

#include "penstock/base/dtype.h"
#include "penstock/runtime/pjrt_api.h"

namespace penstock::runtime {

// The error says which types a device takes.
absl::StatusOr<PJRT_Buffer_Type> PjrtType(base::DType dtype);

}  // namespace penstock::runtime
