// The loop node that ir::Scan and its gradient share. Internal to room ir.
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/ir/op_def.h"
#include "penstock/ir/region.h"

namespace penstock::ir {

inline const TensorType kIndexType{DType::kI32, {}};

// Description of a loop node. Operands: states, xs, constants. Region: (index, states, one row of
// each x, constants) -> (states, ys). Results: the final states, the stacked ys. `region` may
// return more ys than the program asked for: residuals for the gradient.
struct Loop {
  int64_t count = 0;
  bool reverse = false, save_products = true;
  size_t states = 0, xs = 0, constants = 0;

  static Loop Of(const Node& node) {
    Loop loop;
    loop.count = node.attributes.Get<int64_t>("count");
    loop.reverse = node.attributes.Get<bool>("reverse");
    loop.save_products = node.attributes.Get<bool>("save_products");
    loop.states = node.attributes.Get<int64_t>("states");
    loop.xs = node.attributes.Get<int64_t>("xs");
    loop.constants = node.operands.size() - loop.states - loop.xs;
    return loop;
  }
};

// Type of one row of a stacked value.
inline TensorType RowOf(const TensorType& type) { return {type.dtype, type.shape.RowShape()}; }

// A value of a body that is available as one of its parameters.
struct Known {
  Value value;
  size_t parameter;
};

// Result of Trim.
struct Trimmed {
  Region region;
  std::vector<bool> read;  // by index of the original parameter
};

// Dead-parameter elimination: the body without the rows and constants that it does not read. The
// index and the states remain.
Trimmed Trim(const Graph& outer, const Region& body, size_t states,
             const std::vector<Known>& known = {});

Values EmitScan(Graph& graph, const Loop& loop, const Values& states, const Values& xs,
                const Values& constants, const Region& region);

// The gradient of a loop, which is a loop in the reverse direction: scan_gradient.cc.
Values ScanGradient(const GradientArgs& g);

}  // namespace penstock::ir
