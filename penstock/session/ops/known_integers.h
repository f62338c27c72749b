// What is known of the values of integer tensors when the graph is built: of shapes, so that
// Reshape(x, Stack({GetItem(ShapeOf(x), {0}), Constant(-1)})) has a static shape as in TensorFlow
// (constant_value_as_shape). For the sources of ops/ only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "penstock/session/graph.h"

namespace penstock::session::internal {

// Values of a scalar or a vector of at most kMaxRank elements; nullopt for those that are unknown.
using KnownValues = std::vector<std::optional<int64_t>>;
struct KnownIntegers : NodeExtra {
  explicit KnownIntegers(KnownValues known) : values(std::move(known)) {}
  KnownValues values;
};

// nullptr if nothing is known of the tensor, or it is no integer scalar or vector.
const KnownValues* KnownOf(const Tensor& tensor);
// Attaches values to the node of a tensor; too many are left out.
void SetKnown(const Tensor& tensor, KnownValues values);
// The values of an integer array, if it is a short vector or a scalar.
std::optional<KnownValues> KnownIntegersOf(const Array& array);

// The result of an elementwise function of two scalars or vectors, where both are known.
void SetKnownElementwise(const Tensor& result, const Tensor& x, const Tensor& y,
                         const std::function<std::optional<int64_t>(int64_t, int64_t)>& function);

// The shape that the tensor is, with -1 for unknown extents and for values below 0; of unknown rank
// if not even the number of extents is known.
PartialShape ShapeFromKnown(const Tensor& shape);

}  // namespace penstock::session::internal
