// SymbolicBatch: a graph with a symbolic batch, for every batch size. Shapes of a graph are static;
// this class finds out which extents are multiples of the batch size, by tracing the program with
// two batch sizes and comparing the graphs. Exporters use it to write a program whose first axis is
// symbolic.
//
//   PENSTOCK_ASSIGN_OR_RETURN(const SymbolicBatch program,
//                             SymbolicBatch::Of([&](int64_t batch) { return Trace(net, batch); }));
//   const Value x = program.graph().parameters()[0];
//   program.ShapeOf(x);  // of f32[batch,8]: {{.batches = 1}, {.size = 8}}
//
// Whatever differs in another way than as a multiple (a number of groups of 8 examples, a constant
// that contains 1 / batch, an operation that only one of the graphs has) is an error that names the
// layer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/ir/graph.h"
#include "penstock/ir/rewrite.h"

namespace penstock::ir {

// An extent of a shape, or a bound of a slice: a number, or a multiple of the batch size.
struct Extent {
  int64_t size = 0;     // the number; 0 if `batches` is not 0
  int64_t batches = 0;  // multiple of the batch size; 0: the extent does not depend on it

  friend bool operator==(const Extent&, const Extent&) = default;
};

class SymbolicBatch {
 public:
  // The two batch sizes. Neither is 1, which broadcasting treats specially, and a multiple of both
  // is very unlikely to be something else, such as the batch size divided by 2 and rounded.
  static constexpr int64_t kBatch = 3, kOtherBatch = 67;

  // Traces the program for a batch size. It is called with kBatch and kOtherBatch.
  using Trace = std::function<absl::StatusOr<std::unique_ptr<Graph>>(int64_t batch)>;

  // Both graphs are rewritten by `rule` (rewrite.h), which also drops operations that no result
  // depends on, and compared. Default rule: composites are decomposed, so that only operations that
  // StableHLO knows and those of this room that print themselves remain.
  static absl::StatusOr<SymbolicBatch> Of(const Trace& trace, const RewriteRule& rule = nullptr);

  // The rewritten graph for a batch of kBatch.
  const Graph& graph() const { return *graph_; }

  // Extents of a value of graph(), or of the body of one of its loops or branches.
  std::vector<Extent> ShapeOf(const Value& value) const;
  // An attribute of node `id` of `graph`, of type int64_t (one extent) or std::vector<int64_t>.
  std::vector<Extent> AttributeOf(const Graph& graph, int id, absl::string_view name) const;

 private:
  SymbolicBatch() = default;
  absl::Status Compare(const Graph& graph, const Graph& other);

  std::unique_ptr<const Graph> graph_, other_graph_;
  // The graph for the other batch size, by the graph for kBatch: the program and the bodies in it.
  absl::flat_hash_map<const Graph*, const Graph*> others_;
};

}  // namespace penstock::ir
