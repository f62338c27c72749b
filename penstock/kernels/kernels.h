// Room kernels: CPU kernels that are faster than the code that XLA generates. Depends on base, ir
// and runtime.
//
//   PENSTOCK_ASSIGN_OR_RETURN(auto client, runtime::OpenClient({.device = "cpu"}));
//   const auto lowering = kernels::Lowering::For(*client);    // once per client
//   PENSTOCK_ASSIGN_OR_RETURN(ir::Program program, lowering.Print(graph));
//   PENSTOCK_ASSIGN_OR_RETURN(auto step, client->Compile(program));
//
// A graph describes a computation independently of the platform. For a client whose programs can
// call into this process (XLA FFI custom calls), Print replaces the operations in the table of
// lowering.cc by custom calls of our kernels (oneDNN's and our own); for any other client it is
// ir::PrintStableHlo. ClientOptions::kernels = false or PENSTOCK_KERNELS=0 turns kernels off.
//
// Results agree with XLA's up to rounding, because sums are taken in a different order. On one
// machine a program gives the same bits in every run (deterministic).
//
// Thread safety: everything here may be used by several threads. Kernels run on XLA's threads and
// start none (parallel.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/ir/graph.h"
#include "penstock/ir/stablehlo.h"
#include "penstock/runtime/client.h"

namespace penstock::kernels {

// Replaces operations of a graph by custom calls of kernels, for one client.
class Lowering {
 public:
  // No kernels: prints every program as plain StableHLO.
  Lowering() = default;

  // Registers the kernels with the client and tests them with a small program (tens of
  // milliseconds). Writes to the client's log whether kernels are used and, if not, why. Never
  // fails: without kernels everything works, slower.
  static Lowering For(runtime::Client& client);

  bool uses_kernels() const { return !platform_.empty(); }
  // Why kernels are not used; empty if they are.
  const std::string& reason() const { return reason_; }

  // The graph with custom calls in place of the operations in the table.
  std::unique_ptr<ir::Graph> Lower(const ir::Graph& graph) const;
  // Lower, then ir::PrintStableHlo.
  absl::StatusOr<ir::Program> Print(const ir::Graph& graph,
                                    const ir::PrintOptions& options = {}) const;

 private:
  std::string platform_;  // rows of the table to apply; empty: none
  std::string reason_ = "no client";
};

// Names of all kernels that Lowering::For registers: a worker tells them to its clients (room remote).
std::vector<std::string> KernelNames();

}  // namespace penstock::kernels
