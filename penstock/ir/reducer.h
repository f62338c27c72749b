// The ways to combine two elements into one that reductions know. Internal to room ir.
#pragma once

#include <cstdint>

#include "penstock/base/dtype.h"

namespace penstock::ir {

enum class ReduceKind : int64_t { kSum, kProduct, kMax, kMin, kAnd, kOr };

// What changes nothing: 0 for a sum, the lowest value for a maximum.
double IdentityOf(ReduceKind kind, base::DType dtype);
const char* StableHloOf(ReduceKind kind);

}  // namespace penstock::ir
