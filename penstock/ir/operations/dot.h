// DotGeneral nodes. Internal to room ir.
#pragma once

#include <optional>

#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"

namespace penstock::ir {

// Dimension numbers of a DotGeneral node; nullopt for other nodes.
std::optional<DotDimensions> DimensionsOfDot(const Node& node);

}  // namespace penstock::ir
