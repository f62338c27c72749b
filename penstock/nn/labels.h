// Labels against predictions: what losses and metrics share, and the words for shapes that do not
// fit. Part of room nn's inside.
#pragma once

#include "absl/strings/string_view.h"

#include "penstock/ir/ops.h"

namespace penstock::nn {

inline constexpr double kEpsilon = 1e-7;  // Keras's backend epsilon

// Fails the graph with "<who> wants <wanted>; got labels ... and predictions ..."; invalid.
ir::Value Mismatch(absl::string_view who, ir::Value y_true, ir::Value y_pred,
                   absl::string_view wanted);

// Brings labels to the predictions' element type and both to one shape of at least two axes: a last
// axis of 1 that one of them lacks is added. Other differences fail the graph with the likely
// mistake; then it returns false.
bool AlignLabels(absl::string_view who, ir::Value& y_true, ir::Value& y_pred);

// Class numbers in the shape of the predictions without their last axis, the classes; a last axis
// of 1 is dropped. An integer type that holds the number of classes. Invalid after an error, which
// names `one_hot`, what takes one-hot labels instead.
ir::Value ClassNumbers(absl::string_view who, ir::Value y_true, ir::Value y_pred,
                       absl::string_view one_hot);

// Predictions that take part in numbers of 32 bits: integers and floats of 16 bits are converted.
ir::Value WidePredictions(ir::Value y_pred);

// The axis as one that counts from the front, neither the batch nor beyond the last; -1 after an
// error.
int64_t AxisAfterBatch(absl::string_view who, ir::Value x, int64_t axis);
ir::Value MoveToLast(ir::Value x, int64_t axis);

// x [a, b] over shape [a, b, c, ...]: axes align from the front, where NumPy's do from the end.
// Invalid after an error that calls x `what`.
ir::Value BroadcastLeading(absl::string_view what, ir::Value x, const base::Shape& shape);

ir::Value Clip(ir::Value x, double low, double high);  // at a bound half the gradient, as in JAX
ir::Value DivideNoNan(ir::Value a, ir::Value b);       // 0 where b is 0
ir::Value MeanAfterBatch(ir::Value x);                 // over all axes but the first
// x / max(|x|, epsilon) along `axis`, with a gradient that is finite at 0.
ir::Value UnitVectors(ir::Value x, int64_t axis);

}  // namespace penstock::nn
