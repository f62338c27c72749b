// StableHLO printer: prints a graph as the text of a StableHLO module, one operation per line,
// using only syntax that every PJRT plugin since 2024 reads. Deterministic: the same graph gives
// the same text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/ir/graph.h"
#include "penstock/ir/symbolic_batch.h"

namespace penstock::ir {

// Memory used by a program's values of one type within one layer.
struct LargeValue {
  TensorType type;
  std::string operation;  // of the first such value: "stablehlo.convolution"
  Origin origin;          // of the first such value
  int count = 0;          // number of such values

  int64_t bytes() const;  // of one value
};

// A printed program, with the facts that a runtime needs so that it does not have to parse the
// text.
struct Program {
  std::string name;
  std::string text;
  int num_replicas = 1;
  std::vector<TensorType> parameters, results;
  std::vector<std::string> parameter_names, result_names;
  // Input-output aliasing of donated buffers: alias[i] is the result that reuses parameter i's
  // buffer, -1 if the parameter is not donated.
  std::vector<int> alias;
  // Origin of line i + 1 of `text`. Maps a plugin's "line:column" to the user's source line.
  std::vector<Origin> line_origins;
  // The largest values, in descending order of size. Reported when the program does not fit into
  // device memory.
  std::vector<LargeValue> large_values;
};

// Precision of float32 matrix products and convolutions: by default, TPUs multiply in bfloat16 and
// GPUs in TF32 (StableHLO's precision_config). CPUs always multiply in float32.
enum class MatmulPrecision { kDefault, kHigh, kHighest };
// "default", "high", "highest": JAX's names.
absl::StatusOr<MatmulPrecision> MatmulPrecisionFromName(absl::string_view name);

struct PrintOptions {
  // Donated buffers, as pairs (parameter, result) of equal types: the result reuses the parameter's
  // buffer, which the caller of the program gives up.
  std::vector<std::pair<int, int>> donate = {};
  // Whether to print source locations. Without them a program's text depends only on the
  // computation: it is the key of the compilation cache.
  bool locations = true;
  // Precision of all products and convolutions in the program.
  MatmulPrecision matmul_precision = MatmulPrecision::kDefault;
  // A first parameter, an i32 scalar that the program ignores: the number of the platform, which
  // TensorFlow passes to a module for several platforms.
  bool platform_parameter = false;
};

// Prints the graph. Fails with the graph's first error, if it has one.
absl::StatusOr<Program> PrintStableHlo(const Graph& graph, const PrintOptions& options = {});

// Prints one program for every batch size: extents that are multiples of the batch size are "?",
// and the operations that state a shape are printed in their dynamic forms. JAX, TensorFlow
// (XlaCallModule) and PJRT plugins compile it for the shapes of the arguments. The batch size is
// the outermost extent of a parameter. In the types of the Program, -k stands for k times the batch
// size.
absl::StatusOr<Program> PrintStableHlo(const SymbolicBatch& batch,
                                       const PrintOptions& options = {});

// program.text as printed without locations, line for line. It depends only on the computation, not
// on the user's source lines.
std::string TextWithoutLocations(const Program& program);

}  // namespace penstock::ir
