// Tensors that no tensor is an input of. Internal to room lazy.
#pragma once

#include <functional>

#include "absl/strings/string_view.h"

#include "penstock/lazy/ops.h"

namespace penstock::lazy::internal {

// `device`, or this thread's. Invalid, and an error, if there is none.
Device DeviceOr(const Device& device, SourceLocation where);
DType DTypeOr(const TensorOptions& options, DType dtype);

// Records the value that `build` makes on options.device.
Tensor Create(absl::string_view name, const TensorOptions& options, SourceLocation where,
              const std::function<ir::Value(ir::Graph& graph)>& build);

}  // namespace penstock::lazy::internal
