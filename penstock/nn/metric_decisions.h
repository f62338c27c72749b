// Labels and scores as metrics of decisions take them. Part of room nn's inside.
#pragma once

#include <optional>

#include "absl/strings/string_view.h"

#include "penstock/ir/ops.h"

namespace penstock::nn {

// All of one shape [batch, ...].
struct Decisions {
  ir::Value truth;    // bool: the label is not 0
  ir::Value score;    // the prediction
  ir::Value weights;  // f32

  // The sum of weights over `axes` (none: all) where `chosen`.
  ir::Value SumWhere(ir::Value chosen, const ir::Axes& axes = {}) const;
};

// What is below every score: where top_k leaves out a prediction.
inline constexpr double kLeftOut = -1e10;

// Invalid values after an error. With `top_k`, predictions that are not among the k largest of the
// last axis (the first of equals) become kLeftOut. With `class_id`, only that place of the last
// axis is kept.
Decisions MakeDecisions(absl::string_view who, ir::Value y_true, ir::Value y_pred,
                        ir::Value weights, std::optional<int64_t> top_k = {},
                        std::optional<int64_t> class_id = {});

}  // namespace penstock::nn
