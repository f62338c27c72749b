// LargeValues: what takes most of a program's memory, gathered while it is printed. Internal to
// room ir.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "penstock/ir/stablehlo.h"

namespace penstock::ir {

class LargeValues {
 public:
  // The results of a node of a layer. Those that a compiler makes where they are used, or that are
  // another value's memory, are left out.
  void Add(const Node& node, const Origin& origin);
  // Those with the most bytes first.
  std::vector<LargeValue> Take(size_t most) const;

 private:
  absl::flat_hash_map<std::string, LargeValue> values_;  // by layer and type
};

}  // namespace penstock::ir
