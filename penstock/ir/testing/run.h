// Runs a graph on XLA's CPU devices, for the tests of room ir only, with the few PJRT calls that a
// test needs. Programs use room runtime, which depends on ir and is therefore not available here.
//
//   Graph graph("test");
//   graph.SetResults({Tanh(graph.Parameter({DType::kF32, {2}}, "x"))});
//   absl::StatusOr<std::vector<Array>> results = Run(graph, {Array::Of<float>({2}, {1, 2})});
//
// The CPU plugin is the one found by the build, or the file in PENSTOCK_CPU_PLUGIN. One client with
// 8 devices serves the whole process and is never destroyed.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "penstock/ir/graph.h"
#include "penstock/ir/stablehlo.h"

namespace penstock::ir::testing {

inline constexpr int kNumDevices = 8;

// A compiled program. Calls block until their results are available; they may be repeated.
class Executable {
 public:
  static absl::StatusOr<Executable> Compile(const Program& program);

  // Runs on the first device; the program has one replica.
  absl::StatusOr<std::vector<Array>> Run(absl::Span<const Array> arguments) const;
  // Runs all replicas: [replica][parameter] -> [replica][result].
  absl::StatusOr<std::vector<std::vector<Array>>> RunReplicas(
      absl::Span<const std::vector<Array>> arguments) const;

  // Temporary memory of one execution, without arguments and results.
  absl::StatusOr<int64_t> TemporaryBytes() const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

// Prints, compiles and runs the graph once.
absl::StatusOr<std::vector<Array>> Run(const Graph& graph, absl::Span<const Array> arguments = {});
absl::StatusOr<std::vector<std::vector<Array>>> RunReplicas(
    const Graph& graph, absl::Span<const std::vector<Array>> arguments);

}  // namespace penstock::ir::testing
