// Decisions: labels and scores in the form that classification metrics use. Internal to room nn.
#pragma once

#include <optional>

#include "absl/strings/string_view.h"

#include "penstock/ir/ops.h"

namespace penstock::nn {

// Labels, scores and weights of one shape [batch, ...].
struct Decisions {
  ir::Value truth;    // bool: the label is not 0
  ir::Value score;    // the prediction
  ir::Value weights;  // f32

  // Sum of weights over `axes` (default: all) where `chosen`.
  ir::Value SumWhere(ir::Value chosen, const ir::Axes& axes = {}) const;
};

// Score below every other one, for predictions that top_k excludes.
inline constexpr double kExcludedScore = -1e10;

// Returns invalid values after an error. With `top_k`, predictions that are not among the k largest
// of the last axis (ties: lowest index) become kExcludedScore. With `class_id`, only that index of
// the last axis is kept.
Decisions MakeDecisions(absl::string_view who, ir::Value y_true, ir::Value y_pred,
                        ir::Value weights, std::optional<int64_t> top_k = {},
                        std::optional<int64_t> class_id = {});

}  // namespace penstock::nn
