// Elements that are kept in memory, as the rows and errors in which they came: of Cache and of uploaded rows.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"

#include "penstock/data/engine/rows.h"
#include "penstock/data/stage.h"

namespace penstock::data {

struct CachedPortion {
  RowRefs rows;
  absl::Status error;  // RecoverableError, if there are no rows
};
using CachedPortions = std::vector<CachedPortion>;

// A pass over them; skipping computes nothing.
std::unique_ptr<Node> MakeReadCacheNode(const NodeContext& context,
                                        std::shared_ptr<const CachedPortions> portions);

}  // namespace penstock::data
