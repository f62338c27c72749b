// Prints a graph as a StableHLO module: deterministic, one operation a line, only what every plugin
// since 2024 reads, in text. The same graph gives the same text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/ir/graph.h"

namespace penstock::ir {

// A value of a program that takes memory, with those of its type in its layer.
struct LargeValue {
  TensorType type;
  std::string operation;  // of the first: "stablehlo.convolution"
  Origin origin;          // the same
  int count = 0;

  int64_t bytes() const;  // of one
};

// A printed program and what a runtime must know of it without parsing it.
struct Program {
  std::string name;
  std::string text;
  int num_replicas = 1;
  std::vector<TensorType> parameters, results;
  std::vector<std::string> parameter_names, result_names;
  // alias[i] = result that takes over parameter i's memory, -1 for none.
  std::vector<int> alias;
  // Who is behind line i + 1 of `text`, so that a plugin's "line:column" leads to the user's line.
  std::vector<Origin> line_origins;
  // The largest few, the largest first: for when the program does not fit into a device's memory.
  std::vector<LargeValue> large_values;
};

// How exactly a platform multiplies float32 matrices and convolves: TPUs and GPUs take bfloat16 or
// TF32 parts by default (stablehlo's precision_config). CPUs always multiply in float32.
enum class MatmulPrecision { kDefault, kHigh, kHighest };
// "default", "high", "highest": JAX's names.
absl::StatusOr<MatmulPrecision> MatmulPrecisionFromName(absl::string_view name);

struct PrintOptions {
  // parameter -> result pairs; types must agree. The caller of the program loses the parameter's
  // buffer.
  std::vector<std::pair<int, int>> donate = {};
  // Without locations a program's text depends only on what it computes (the compile cache's key).
  bool locations = true;
  // Of every product and convolution in the program.
  MatmulPrecision matmul_precision = MatmulPrecision::kDefault;
};

// The graph's first error, if it has one.
absl::StatusOr<Program> PrintStableHlo(const Graph& graph, const PrintOptions& options = {});

// program.text as it would be printed without locations, line for line: what it computes, wherever
// in the user's program that stands.
std::string TextWithoutLocations(const Program& program);

}  // namespace penstock::ir
