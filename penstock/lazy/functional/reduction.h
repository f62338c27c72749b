// What losses have in common: their reduction. Internal to functional/.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

#include "penstock/ir/ops.h"
#include "penstock/lazy/tensor.h"

namespace penstock::lazy::nn::functional {

// Why this is no reduction; empty if it is "mean", "sum" or "none", or "batchmean" where that is allowed.
std::string WrongReduction(absl::string_view reduction, bool batch_mean = false);
// The same as an error of the operation: false.
bool KnownReduction(absl::string_view name, absl::string_view reduction, SourceLocation where,
                    bool batch_mean = false);
// The losses themselves, their sum, or their mean. "batchmean" is the caller's.
ir::Value Reduced(ir::Value losses, absl::string_view reduction);

}  // namespace penstock::lazy::nn::functional
