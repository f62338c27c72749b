// Random numbers: tf.random.* under TensorFlow's names in CamelCase.
//
//   graph.SetRandomSeed(1);                                 // tf.set_random_seed
//   tf::Tensor noise = tf::RandomNormal({32, 100});         // other numbers in each Run
//   tf::Tensor picked = tf::Multinomial(logits, 1);
//
// A random operation draws other numbers in each Run of a session; a new session repeats them.
// Its sequence follows from the graph's seed and its own, as in TensorFlow:
// - both seeds or one of them: reproducible; operations without a seed of their own take one that
//   depends on their place in the graph;
// - none: different in each session.
// The generator is Threefry (ir/ops.h), so the numbers are not TensorFlow's; they are the same on
// every device. Shapes have to be known when the program is compiled.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "penstock/session/graph.h"
#include "penstock/session/ops/operand.h"

namespace penstock::session {

struct RandomOptions {
  DType dtype = DType::kF32;
  std::optional<uint64_t> seed = {};
  std::string name = "";
};
// In [minval, maxval). For integer types maxval is required.
Tensor RandomUniform(const ShapeArgument& shape, double minval = 0,
                     std::optional<double> maxval = {}, const RandomOptions& options = {},
                     SourceLocation where = SourceLocation::Current());
Tensor RandomNormal(const ShapeArgument& shape, double mean = 0, double stddev = 1,
                    const RandomOptions& options = {},
                    SourceLocation where = SourceLocation::Current());
// Within two standard deviations.
Tensor TruncatedNormal(const ShapeArgument& shape, double mean = 0, double stddev = 1,
                       const RandomOptions& options = {},
                       SourceLocation where = SourceLocation::Current());
// The rows in random order.
Tensor RandomShuffle(const Tensor& value, std::optional<uint64_t> seed = {},
                     absl::string_view name = "", SourceLocation where = SourceLocation::Current());
// A part of this size at a random position.
Tensor RandomCrop(const Tensor& value, const std::vector<int64_t>& size,
                  std::optional<uint64_t> seed = {}, absl::string_view name = "",
                  SourceLocation where = SourceLocation::Current());
// [batch, num_samples]: classes drawn with the probabilities softmax(logits), logits [batch,
// classes].
struct MultinomialOptions {
  std::optional<uint64_t> seed = {};
  std::string name = "";
  DType output_dtype = DType::kI64;
};
Tensor Multinomial(const Tensor& logits, int64_t num_samples,
                   const MultinomialOptions& options = {},
                   SourceLocation where = SourceLocation::Current());

// Functions of a seed, an integer tensor [2]: the same numbers in each Run.
struct StatelessRandomOptions {
  DType dtype = DType::kF32;
  std::string name = "";
};
Tensor StatelessRandomUniform(const ShapeArgument& shape, const Tensor& seed, double minval = 0,
                              std::optional<double> maxval = {},
                              const StatelessRandomOptions& options = {},
                              SourceLocation where = SourceLocation::Current());
Tensor StatelessRandomNormal(const ShapeArgument& shape, const Tensor& seed, double mean = 0,
                             double stddev = 1, const StatelessRandomOptions& options = {},
                             SourceLocation where = SourceLocation::Current());
Tensor StatelessTruncatedNormal(const ShapeArgument& shape, const Tensor& seed, double mean = 0,
                                double stddev = 1, const StatelessRandomOptions& options = {},
                                SourceLocation where = SourceLocation::Current());

namespace random {
using session::Multinomial;
using session::RandomNormal;
using session::RandomUniform;
using session::TruncatedNormal;
// Multinomial.
Tensor Categorical(const Tensor& logits, int64_t num_samples,
                   const MultinomialOptions& options = {},
                   SourceLocation where = SourceLocation::Current());
}  // namespace random

}  // namespace penstock::session
