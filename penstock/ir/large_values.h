// LargeValues: the values that need most of a program's memory, collected during printing. Internal
// to room ir.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "penstock/ir/stablehlo.h"

namespace penstock::ir {

class LargeValues {
 public:
  // Adds the results of a node that belongs to a layer. Skips values that a compiler computes where
  // they are used (fused), and values that alias another one.
  void Add(const Node& node, const Origin& origin);
  // The `count` entries with the most bytes, in descending order.
  std::vector<LargeValue> Largest(size_t count) const;

 private:
  absl::flat_hash_map<std::string, LargeValue> values_;  // by layer and type
};

}  // namespace penstock::ir
