// Room kernels: what CPUs do faster than XLA's code for them. It may use base, ir and runtime.
//
//   PENSTOCK_ASSIGN_OR_RETURN(auto client, runtime::OpenClient({.device = "cpu"}));
//   const auto lowering = kernels::Lowering::For(*client);    // once for each client
//   PENSTOCK_ASSIGN_OR_RETURN(ir::Program program, lowering.Print(graph));
//   PENSTOCK_ASSIGN_OR_RETURN(auto step, client->Compile(program));
//
// A graph says what is to be computed, the same for every platform. For a client whose programs may
// call into this process, Print puts calls of our kernels (oneDNN's, and some of our own) in the
// place of operations for which the table in lowering.cc names one; for any other client it is
// ir::PrintStableHlo. ClientOptions::kernels or PENSTOCK_KERNELS=0 turn kernels off.
//
// Results agree with XLA's up to rounding: sums are taken in another order. A program gives the
// same bits each time it runs on one machine.
//
// Threads: kernels run in XLA's own threads and start none (parallel.h). Everything here may be
// used by several threads.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "penstock/ir/graph.h"
#include "penstock/ir/stablehlo.h"
#include "penstock/runtime/client.h"

namespace penstock::kernels {

class Lowering {
 public:
  // No kernels: every program stays plain StableHLO.
  Lowering() = default;

  // Makes the kernels known to the client and tries one, with a program of a few operations (tens
  // of milliseconds). Whether kernels are used, and if not why, goes to the client's log. Never an
  // error: without kernels everything works, slower.
  static Lowering For(runtime::Client& client);

  bool uses_kernels() const { return !platform_.empty(); }
  // Why not, in words; empty when they are used.
  const std::string& reason() const { return reason_; }

  // The graph with calls in the place of what the table names.
  std::unique_ptr<ir::Graph> Lower(const ir::Graph& graph) const;
  // Lower, then ir::PrintStableHlo.
  absl::StatusOr<ir::Program> Print(const ir::Graph& graph,
                                    const ir::PrintOptions& options = {}) const;

 private:
  std::string platform_;  // whose rows of the table count; empty for none
  std::string reason_ = "no client was asked";
};

}  // namespace penstock::kernels
