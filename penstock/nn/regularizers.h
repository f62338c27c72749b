// Regularizers: penalties on weights (weight decay as a loss) or on a layer's output that are added
// to the loss. Names, defaults and formulas are Keras's (keras.regularizers):
//
//   l1(0.01)                             0.01 sum |x|
//   l2(0.01)                             0.01 sum x^2
//   l1_l2(0, 0)                          both
//   orthogonal_regularizer(0.01, rows)   0.01 times the mean |cosine| between a matrix's rows
//                                        (or columns)
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "penstock/ir/ops.h"

namespace penstock::nn {

// The penalty of x, a scalar of f32 (f64 if x is f64), computed in that type. An unknown name,
// wrong arguments or an x of the wrong rank fail x's graph and return an invalid value.
ir::Value Regularize(absl::string_view regularizer, ir::Value x);

std::vector<std::string> RegularizerNames();

}  // namespace penstock::nn
