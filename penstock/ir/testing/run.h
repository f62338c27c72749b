// Runs a graph on XLA's CPU devices, for the tests of room ir alone: a few PJRT calls, no more than
// a test needs. Programs use room runtime, which stands below ir and therefore is out of reach
// here.
//
//   Graph graph("test");
//   graph.SetResults({Tanh(graph.Parameter({DType::kF32, {2}}, "x"))});
//   absl::StatusOr<std::vector<Array>> results = Run(graph, {Array::Of<float>({2}, {1, 2})});
//
// The plugin is the one that the build knows, or the file that PENSTOCK_CPU_PLUGIN names. One
// client with 8 devices serves the process and is never destroyed.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "penstock/ir/graph.h"
#include "penstock/ir/stablehlo.h"

namespace penstock::ir::testing {

inline constexpr int kNumDevices = 8;

// A compiled program. Calls may follow each other; a call waits for its results.
class Executable {
 public:
  static absl::StatusOr<Executable> Compile(const Program& program);

  // On the first device; the program has one replica.
  absl::StatusOr<std::vector<Array>> Run(absl::Span<const Array> arguments) const;
  // [replica][parameter] -> [replica][result].
  absl::StatusOr<std::vector<std::vector<Array>>> RunReplicas(
      absl::Span<const std::vector<Array>> arguments) const;

  // What it takes beside arguments and results.
  absl::StatusOr<int64_t> TemporaryBytes() const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

// Prints, compiles and runs, once.
absl::StatusOr<std::vector<Array>> Run(const Graph& graph, absl::Span<const Array> arguments = {});
absl::StatusOr<std::vector<std::vector<Array>>> RunReplicas(
    const Graph& graph, absl::Span<const std::vector<Array>> arguments);

}  // namespace penstock::ir::testing
