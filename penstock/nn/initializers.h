// First values of variables, computed on the host, so that the same seed gives the same values
// whatever the device. Names and formulas are Keras's (keras.initializers); the numbers themselves
// differ, since the generators do.
//
//   zeros, ones, constant(0), identity(gain=1)
//   random_uniform(-0.05, 0.05), random_normal(mean=0, stddev=0.05), truncated_normal(0, 0.05)
//   variance_scaling(scale=1, mode=fan_in, distribution=truncated_normal)
//       mode: fan_in, fan_out, fan_avg; distribution: uniform, truncated_normal, untruncated_normal
//   glorot_uniform, glorot_normal (Glorot and Bengio 2010), he_uniform, he_normal (He et al. 2015),
//   lecun_uniform, lecun_normal (LeCun et al. 1998): variance_scaling with their numbers
//   orthogonal(gain=1) (Saxe et al. 2013)
//
// The numbers in parentheses are what is taken when none is given.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/ir/graph.h"

namespace penstock::nn {

// Fan-in and fan-out of a kernel [receptive field..., in, out] are Keras's: the receptive field's
// size times in, and times out. A vector's are its length, a scalar's 1. What scales by them also
// takes Keras's input_axes=[...] and output_axes=[...], whose extents' products are the fans then.
absl::StatusOr<base::Array> InitialValue(absl::string_view initializer, const ir::TensorType& type,
                                         uint64_t seed);

// The initializer of a kernel whose first axes are inputs and whose last axes are outputs; it is
// the same where it does not scale by them or says which they are.
std::string WithFans(absl::string_view initializer, int64_t input_axes, int64_t output_axes);

// Of a vector for the gates input, forget, cell and output, side by side: ones for the forget gate,
// `initializer` for each of the other parts (an LSTM's bias, Jozefowicz et al. 2015).
std::string WithUnitForgetGate(absl::string_view initializer);

std::vector<std::string> InitializerNames();

}  // namespace penstock::nn
