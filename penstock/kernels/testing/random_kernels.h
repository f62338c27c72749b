// Random operations that kernels replace: convolutions with their gradients, pooling, batch
// normalization, matrix products, bias gradients, with unusual shapes and options.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "penstock/base/array.h"
#include "penstock/base/random.h"
#include "penstock/ir/graph.h"

namespace penstock::kernels {

struct RandomKernel {
  std::string text;  // description, for messages
  std::vector<base::Array> arguments;
  // Builds the operation and its gradients from the arguments, in their own type or converted to
  // f32 or f64. Returns the results.
  std::function<std::vector<ir::Value>(const std::vector<ir::Value>&)> build;
  // Maximum error, relative to the maximum element of a result.
  double tolerance = 0;
  // If set: the input of relu, and which argument is the cotangent of its output, of equal shape.
  // Where the input is so near 0 that rounding may change its sign, CompareWithXla sets the
  // cotangent to 0: the gradient of that element is right with and without it.
  std::function<ir::Value(const std::vector<ir::Value>&)> relu_input;
  int64_t cotangent = 0;
};

// Equal states of `random` give equal kernels.
RandomKernel DrawRandomKernel(base::Random& random);

// Compares the results of `kernel` with those of XLA in f64; "" if they agree. Errors of at most a
// few times those of XLA's own code in f32 (from overflow or cancellation) are accepted, and errors
// of results below 1e-30: kernels and XLA may flush subnormal numbers to 0.
std::string CompareWithXla(RandomKernel kernel);

}  // namespace penstock::kernels
