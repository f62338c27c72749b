// What ir::Scan and its gradient share: the loop as a node of a graph. Internal to room ir.
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/ir/op_def.h"
#include "penstock/ir/region.h"

namespace penstock::ir {

inline const TensorType kIndexType{DType::kI32, {}};

// Operands: states, xs, constants. Region: (index, states, a row of each x, constants) -> (states,
// ys). Results: the last states, the ys stacked. `region` may give more ys than the program asked
// for: those that a gradient reads.
struct Loop {
  int64_t count = 0;
  bool reverse = false, keep_products = true;
  size_t states = 0, xs = 0, constants = 0;

  static Loop Of(const Node& node) {
    Loop loop;
    loop.count = node.attributes.Get<int64_t>("count");
    loop.reverse = node.attributes.Get<bool>("reverse");
    loop.keep_products = node.attributes.Get<bool>("keep_products");
    loop.states = node.attributes.Get<int64_t>("states");
    loop.xs = node.attributes.Get<int64_t>("xs");
    loop.constants = node.operands.size() - loop.states - loop.xs;
    return loop;
  }
};

// A row of a stack.
inline TensorType RowOf(const TensorType& type) { return {type.dtype, type.shape.RowShape()}; }

// A value of a body that one of its parameters knows.
struct Known {
  Value value;
  size_t parameter;
};

struct Trimmed {
  Region region;
  std::vector<bool> read;  // by the parameters that there were
};

// The body without the rows and constants that it does not read. The index and the states stay.
Trimmed Trim(const Graph& outer, const Region& body, size_t states,
             const std::vector<Known>& known = {});

Values EmitScan(Graph& graph, const Loop& loop, const Values& states, const Values& xs,
                const Values& constants, const Region& region);

// The loop back: scan_gradient.cc.
Values ScanGradient(const GradientArgs& g);

}  // namespace penstock::ir
