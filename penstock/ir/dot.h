// Products as nodes of a graph. Internal to room ir.
#pragma once

#include <optional>

#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"

namespace penstock::ir {

// Nothing, if the node is no DotGeneral.
std::optional<DotDimensions> DimensionsOfDot(const Node& node);

}  // namespace penstock::ir
