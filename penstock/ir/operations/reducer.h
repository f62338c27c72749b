// Reduction operators: the binary functions that reductions apply. Internal to room ir.
#pragma once

#include <cstdint>

#include "penstock/base/dtype.h"

namespace penstock::ir {

enum class ReduceKind : int64_t { kSum, kProduct, kMax, kMin, kAnd, kOr };

// Identity element of the operator: 0 for a sum, the lowest value for a maximum.
double IdentityOf(ReduceKind kind, base::DType dtype);
const char* StableHloOf(ReduceKind kind);

}  // namespace penstock::ir
