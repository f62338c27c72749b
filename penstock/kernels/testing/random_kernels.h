// Random operations that kernels take the place of: convolutions with their gradients, pooling,
// batch normalization, matrix products, bias gradients, of shapes and options that nobody would
// write down.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "penstock/base/array.h"
#include "penstock/base/random.h"
#include "penstock/ir/graph.h"

namespace penstock::kernels {

struct RandomKernel {
  std::string text;  // what it is, for a message
  std::vector<base::Array> arguments;
  // Adds the operation and its gradients to the graph of these values, which are the arguments in
  // their own type or converted to f32 or f64; the results.
  std::function<std::vector<ir::Value>(const std::vector<ir::Value>&)> build;
  // Greatest error that is allowed, relative to the largest element of a result.
  double tolerance = 0;
};

// The same for the same state of `random`.
RandomKernel DrawRandomKernel(base::Random& random);

// What is wrong with the results of `kernel`, run with kernels, beside XLA's in f64; empty when
// nothing is. Errors no larger than a few times those of XLA's own code in f32 (by overflow,
// cancellation, denormal numbers) are accepted.
std::string CompareWithXla(const RandomKernel& kernel);

}  // namespace penstock::kernels
