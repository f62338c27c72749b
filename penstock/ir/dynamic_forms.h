// Text of the operations whose StableHLO states a shape. If the shape depends on the batch size
// (dynamic_batch.h), they are printed in their dynamic forms, which take it as an operand. Every
// function returns what follows "%n = ", and prints the lines that compute that operand first.
// Internal to room ir.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "penstock/ir/graph.h"
#include "penstock/ir/printer.h"

namespace penstock::ir {

// Whether an extent is a multiple of the batch size.
bool IsDynamic(const Shape& shape);

// stablehlo.broadcast_in_dim: axis i of x becomes axis axes[i].
std::string BroadcastText(Printer& printer, const std::string& x, const TensorType& from,
                          absl::Span<const int64_t> axes, const TensorType& to);
// stablehlo.reshape
std::string ReshapeText(Printer& printer, const std::string& x, const TensorType& from,
                        const TensorType& to);
// stablehlo.iota
std::string IotaText(Printer& printer, int64_t axis, const TensorType& type);

// stablehlo.slice
struct SliceRange {
  std::vector<int64_t> begin, end, strides;  // for each axis
};
std::string SliceText(Printer& printer, const std::string& x, const TensorType& from,
                      const SliceRange& range, const TensorType& to);
// stablehlo.dynamic_slice. `begin`: names of scalars of type `index`.
std::string DynamicSliceText(Printer& printer, const std::string& x, const TensorType& from,
                             absl::Span<const std::string> begin, DType index,
                             const TensorType& to);

}  // namespace penstock::ir
