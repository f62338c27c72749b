// Alignment of labels with predictions, shared by losses and metrics, and error messages for
// mismatched shapes. Internal to room nn.
#pragma once

#include "absl/strings/string_view.h"

#include "penstock/ir/ops.h"

namespace penstock::nn {

inline constexpr double kEpsilon = 1e-7;  // Keras's backend epsilon

// Fails the graph with "<who> expects <expected>; got labels ... and predictions ..."; returns an
// invalid value.
ir::Value Mismatch(absl::string_view who, ir::Value y_true, ir::Value y_pred,
                   absl::string_view expected);

// Converts labels to the predictions' element type and both to one shape of at least two axes: adds
// a last axis of 1 to the one that lacks it. Other differences fail the graph with the likely
// mistake; then it returns false.
bool AlignLabels(absl::string_view who, ir::Value& y_true, ir::Value& y_pred);

// Keras's squeeze_or_expand_to_same_rank: if one of the two has a last axis of 1 that the other one
// lacks, [batch] becomes [batch, 1], and of larger shapes the one with that axis loses it. Then the
// mean over the last axis leaves `value_axes` axes or more; where it would not (labels [batch,
// steps] with weights of each step), the axis is added instead. Whether anything changed.
bool MatchRanks(ir::Value& y_true, ir::Value& y_pred, int value_axes = 1);

// Class indices in the shape of the predictions without their last axis, the classes; a last axis
// of 1 is dropped. The type is an integer type that can represent the number of classes. After an
// error, which suggests `one_hot` for one-hot labels, the result is invalid.
ir::Value ClassNumbers(absl::string_view who, ir::Value y_true, ir::Value y_pred,
                       absl::string_view one_hot);

// Predictions converted to at least 32 bits: integers and 16-bit floats become float32.
ir::Value WidePredictions(ir::Value y_pred);

// The axis counted from the front, neither the batch axis nor out of range; -1 after an error.
int64_t AxisAfterBatch(absl::string_view who, ir::Value x, int64_t axis);
ir::Value MoveToLast(ir::Value x, int64_t axis);

// x [a, b] broadcast to shape [a, b, c, ...]: axes align from the front, unlike NumPy's, which
// align from the end. Returns an invalid value after an error, in which x is called `what`.
ir::Value BroadcastLeading(absl::string_view what, ir::Value x, const base::Shape& shape);

ir::Value Clip(ir::Value x, double low, double high);  // half the gradient at a bound, as in JAX
ir::Value DivideNoNan(ir::Value a, ir::Value b);       // 0 where b is 0
ir::Value MeanAfterBatch(ir::Value x);                 // over all axes but the first
// Unit vectors: x / max(|x|, epsilon) along `axis`, with a gradient that is finite at 0.
ir::Value UnitVectors(ir::Value x, int64_t axis);

}  // namespace penstock::nn
