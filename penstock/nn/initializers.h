// Initializers: initial values of variables, computed on the host, so that the same seed gives the
// same values on every device. Names and formulas are Keras's (keras.initializers); the random
// numbers differ, because the generators do.
//
//   zeros, ones, constant(0), identity(gain=1)
//   random_uniform(-0.05, 0.05), random_normal(mean=0, stddev=0.05), truncated_normal(0, 0.05)
//   variance_scaling(scale=1, mode=fan_in, distribution=truncated_normal)
//       mode: fan_in, fan_out, fan_avg; distribution: uniform, truncated_normal, untruncated_normal
//   glorot_uniform, glorot_normal (Glorot and Bengio 2010), he_uniform, he_normal (He et al. 2015),
//   lecun_uniform, lecun_normal (LeCun et al. 1998): variance_scaling with fixed arguments
//   orthogonal(gain=1) (Saxe et al. 2013)
//
// The numbers in parentheses are the defaults.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/ir/graph.h"

namespace penstock::nn {

// Initial value of a variable. Fan-in and fan-out of a kernel [receptive field..., in, out] are
// Keras's: the size of the receptive field times in, and times out. Those of a vector are its
// length, those of a scalar 1. Initializers that scale by the fans also accept Keras's
// input_axes=[...] and output_axes=[...]; the fans are then the products of these extents.
absl::StatusOr<base::Array> InitialValue(absl::string_view initializer, const ir::TensorType& type,
                                         uint64_t seed);

// The initializer of a kernel whose first axes are inputs and whose last axes are outputs. Returns
// it unchanged if it does not scale by the fans or already has input_axes and output_axes.
std::string WithFans(absl::string_view initializer, int64_t input_axes, int64_t output_axes);

// Initializer of an LSTM's bias, a vector for the gates input, forget, cell and output: ones for
// the forget gate, `initializer` for each of the others (Jozefowicz et al. 2015).
std::string WithUnitForgetGate(absl::string_view initializer);

std::vector<std::string> InitializerNames();

}  // namespace penstock::nn
