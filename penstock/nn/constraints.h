// Constraints: projections applied to a weight after each optimizer step. Names, defaults and
// formulas are Keras's (keras.constraints):
//
//   max_norm(2, axis=0)                  scales vectors along `axis` down to a norm of at most 2
//   non_neg                              negative elements become 0
//   unit_norm(axis=0)                    norms along `axis` become 1
//   min_max_norm(0, 1, rate=1, axis=0)   moves norms toward [0, 1], by the fraction `rate` per step
//
// `axis` is one number or a list: [0, 1, 2] for the kernel of Conv2D.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "penstock/ir/ops.h"

namespace penstock::nn {

// `w` projected by the constraint, in w's type; 16-bit floats are computed in float32. An unknown
// name or wrong arguments fail w's graph and return an invalid value.
ir::Value Constrain(absl::string_view constraint, ir::Value w);

std::vector<std::string> ConstraintNames();

}  // namespace penstock::nn
