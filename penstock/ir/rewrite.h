// Rewriting a graph: another graph, with the same parameters and results, in which a rule has put
// other operations in the place of some. This is how a platform's own kernels come into a program
// (room kernels), and how composites are taken apart before printing.
//
//   std::unique_ptr<Graph> lowered = Rewrite(graph, [](Rewriting& r, int id) -> Values {
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

// "stablehlo.add", "penstock.batch_norm_training": what a rule knows an operation by.
absl::string_view OpName(const Node& node);

// Whether each element of the result is computed from the operands' elements at the same place.
bool IsElementwise(const Node& node);

// What a rule sees: both graphs, and where a value of the one is in the other.
class Rewriting {
 public:
  Rewriting(const Graph& from, Graph& to);

  const Graph& from() const { return from_; }
  Graph& to() { return to_; }

  // What a value of from() has become. Its node stands before the one that is being rewritten.
  Value New(int id, int result) const { return new_.at(id)[result]; }
  Value New(const Value& old) const { return New(old.node_id(), old.result()); }
  std::vector<Value> Operands(const Node& node) const;

  // Whether a node takes part in the graph's results at all.
  bool IsNeeded(int id) const { return needed_[id]; }
  // The nodes that use a result of a node and are needed; kResult for a use as the graph's result.
  static constexpr int kResult = -1;
  const std::vector<int>& Users(int id, int result) const { return users_[id][result]; }

 private:
  friend std::unique_ptr<Graph> Rewrite(const Graph&,
                                        const std::function<std::vector<Value>(Rewriting&, int)>&);

  const Graph& from_;
  Graph& to_;
  std::vector<bool> needed_;
  std::vector<std::vector<std::vector<int>>> users_;  // by node and result
  absl::flat_hash_map<int, std::vector<Value>> new_;
};

// Gives what stands in to() for node `id` of from(): one value for each of its results, of the same
// type. Nothing: the node is kept.
using RewriteRule = std::function<std::vector<Value>(Rewriting& rewriting, int id)>;

// Bodies of loops and branches are rewritten by the same rule. Nodes that no result needs are left
// out; new ones carry the origin of the node that they stand for.
std::unique_ptr<Graph> Rewrite(const Graph& graph, const RewriteRule& rule);

// `of`, computed from to[i] wherever it is computed from from[i], in the same graph: operations
// between the two are emitted again. Types are those of `from`.
Value Substitute(const Value& of, const std::vector<Value>& from, const std::vector<Value>& to);

// Composites (op_def.h) taken apart, until none is left.
bool HasComposites(const Graph& graph);
std::unique_ptr<Graph> Decompose(const Graph& graph);

}  // namespace penstock::ir
