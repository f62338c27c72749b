// Graph rewriting: makes another graph with the same parameters and results, in which a rule has
// replaced some operations. Room kernels substitute a platform's kernels (custom calls) this way,
// and composites are decomposed with it before printing.
//
//   std::unique_ptr<Graph> lowered = Rewrite(graph, [](Rewriter& r, int id) -> Values {
//     const Node& node = r.from().node(id);
//     if (OpName(node) != "stablehlo.tanh") return {};     // keep it
//     return CustomCall(r.to(), "fast_tanh", r.Operands(node), node.results);
//   });
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

#include "penstock/ir/graph.h"

namespace penstock::ir {

// Name of the node's operation, by which rules recognize it: "stablehlo.add",
// "penstock.batch_norm_training".
absl::string_view OpName(const Node& node);

// Whether each element of the result depends only on the operands' elements at the same index.
bool IsElementwise(const Node& node);

// State of a rewrite, as a rule sees it: both graphs, and the mapping of values from the old graph
// to the new one.
class Rewriter {
 public:
  Rewriter(const Graph& from, Graph& to);

  const Graph& from() const { return from_; }
  Graph& to() { return to_; }

  // The value of to() that replaces a value of from(). Its node precedes the one being rewritten.
  Value Replacement(int id, int result) const { return replacements_.at(id)[result]; }
  Value Replacement(const Value& old) const { return Replacement(old.node_id(), old.result()); }
  std::vector<Value> Operands(const Node& node) const;

  // Whether the graph's results depend on the node.
  bool IsNeeded(int id) const { return needed_[id]; }
  // The live nodes that use a result of a node; kResult stands for a use as the graph's result.
  static constexpr int kResult = -1;
  const std::vector<int>& Users(int id, int result) const { return users_[id][result]; }

 private:
  friend std::unique_ptr<Graph> Rewrite(const Graph&,
                                        const std::function<std::vector<Value>(Rewriter&, int)>&);

  const Graph& from_;
  Graph& to_;
  std::vector<bool> needed_;
  std::vector<std::vector<std::vector<int>>> users_;  // by node and result
  absl::flat_hash_map<int, std::vector<Value>> replacements_;
};

// Returns the replacement in to() of node `id` of from(): one value for each of its results, of the
// same type. An empty vector keeps the node.
using RewriteRule = std::function<std::vector<Value>(Rewriter& rewriter, int id)>;

// Applies `rule` to every node, including those in the bodies of loops and branches. Nodes that no
// result depends on are dropped (dead code elimination); new nodes get the origin of the node that
// they replace.
std::unique_ptr<Graph> Rewrite(const Graph& graph, const RewriteRule& rule);

// `of`, recomputed from to[i] wherever it depends on from[i], in the same graph: the operations
// between the two are emitted again. The types of `to` are those of `from`.
Value Substitute(const Value& of, const std::vector<Value>& from, const std::vector<Value>& to);

// HasComposites: whether any composite (op_def.h) is left. Decompose: the graph with all composites
// decomposed.
bool HasComposites(const Graph& graph);
std::unique_ptr<Graph> Decompose(const Graph& graph);

}  // namespace penstock::ir
