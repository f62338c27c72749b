#include "penstock/ir/rewrite.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/ir/gradients.h"
#include "penstock/ir/op_def.h"

namespace penstock::ir {

absl::string_view OpName(const Node& node) { return node.op->name; }

bool IsElementwise(const Node& node) {
  const OpList all = ElementwiseOps();
  return std::find(all.begin(), all.end(), node.op) != all.end();
}

Rewriter::Rewriter(const Graph& from, Graph& to)
    : from_(from), to_(to), needed_(from.num_nodes()), users_(from.num_nodes()) {
  for (int id = 0; id < from.num_nodes(); ++id) users_[id].resize(from.node(id).results.size());
  const auto use = [&](const Value& value, int user) {
    needed_[value.node_id()] = true;
    std::vector<int>& users = users_[value.node_id()][value.result()];
    if (std::find(users.begin(), users.end(), user) == users.end()) users.push_back(user);
  };
  for (const Value& result : from.results()) use(result, kResult);
  for (int id = from.num_nodes(); id-- > 0;) {
    if (!needed_[id]) continue;
    for (const Value& operand : from.node(id).operands) use(operand, id);
  }
}

std::vector<Value> Rewriter::Operands(const Node& node) const {
  std::vector<Value> operands;
  for (const Value& operand : node.operands) operands.push_back(Replacement(operand));
  return operands;
}

std::unique_ptr<Graph> Rewrite(const Graph& graph, const RewriteRule& rule) {
  auto to = std::make_unique<Graph>(graph.name(), graph.num_replicas());
  if (!graph.status().ok()) {
    to->Fail(graph.status());
    return to;
  }
  Rewriter rewriter(graph, *to);
  for (size_t i = 0; i < graph.parameters().size(); ++i) {
    const Value& old = graph.parameters()[i];
    const Scope scope(*to, graph.origins()[old.node().origin]);
    rewriter.replacements_[old.node_id()] = {to->Parameter(old.type(), graph.parameter_names()[i])};
  }
  for (int id = 0; id < graph.num_nodes() && to->status().ok(); ++id) {
    if (!rewriter.IsNeeded(id) || rewriter.replacements_.contains(id)) continue;
    const Node& node = graph.node(id);
    const Scope scope(*to, graph.origins()[node.origin]);
    std::vector<Value> results = rule(rewriter, id);
    if (results.empty()) {
      std::vector<std::shared_ptr<const Graph>> regions;
      for (const auto& region : node.regions) regions.push_back(Rewrite(*region, rule));
      results = to->Emit(*node.op, rewriter.Operands(node), node.attributes, std::move(regions));
    }
    if (!to->status().ok()) return to;
    PENSTOCK_CHECK(results.size() == node.results.size());
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i].type() == node.results[i]) continue;
      to->Fail(absl::InternalError(absl::StrCat(
          node.op->name, " returns ", node.results[i].ToString(), " and was rewritten to ",
          results[i].type().ToString(), " (a bug in Penstock)")));
      return to;
    }
    rewriter.replacements_[id] = std::move(results);
  }
  std::vector<Value> results;
  for (const Value& result : graph.results()) results.push_back(rewriter.Replacement(result));
  const auto names = graph.result_names();
  to->SetResults(results, names);
  return to;
}

Value Substitute(const Value& of, const std::vector<Value>& from, const std::vector<Value>& to) {
  if (!of.valid() || from.empty()) return of;
  Graph& graph = *of.graph();
  absl::flat_hash_map<int, std::vector<Value>> again;  // by node: its results, recomputed from `to`
  const auto new_of = [&](const Value& value) {
    const auto at = std::find(from.begin(), from.end(), value);
    if (at != from.end()) return to[static_cast<size_t>(at - from.begin())];
    const auto made = again.find(value.node_id());
    return made == again.end() ? value : made->second[value.result()];
  };
  int first = of.node_id();
  for (const Value& value : from) first = std::min(first, value.node_id());
  for (int id = first + 1; id <= of.node_id(); ++id) {
    const Node node = graph.node(id);  // a copy: emitting moves nodes
    std::vector<Value> operands;
    for (const Value& operand : node.operands) operands.push_back(new_of(operand));
    if (operands == node.operands) continue;
    std::vector<Value> results = graph.Emit(*node.op, operands, node.attributes, node.regions);
    if (results.empty()) return Value();
    again.emplace(id, std::move(results));
  }
  return new_of(of);
}

bool HasComposites(const Graph& graph) {
  for (int id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.op->decompose != nullptr) return true;
    for (const auto& region : node.regions) {
      if (HasComposites(*region)) return true;
    }
  }
  return false;
}

std::unique_ptr<Graph> Decompose(const Graph& graph) {
  auto plain = Rewrite(graph, [](Rewriter& r, int id) -> Values {
    const Node& node = r.from().node(id);
    if (node.op->decompose == nullptr) return {};
    return node.op->decompose(r.to(), node, r.Operands(node));
  });
  return plain->status().ok() && HasComposites(*plain) ? Decompose(*plain) : std::move(plain);
}

namespace {

// A composite's decomposition, as a separate graph.
struct FunctionParts {
  explicit FunctionParts(const Node& node) : graph(node.op->name) {
    const Graph& outer = *node.operands[0].graph();
    const Scope scope(graph, outer.current_origin());
    for (const Value& operand : node.operands) {
      operands.push_back(graph.Parameter(operand.type(), "operand"));
    }
    results = node.op->decompose(graph, node, operands);
  }

  Graph graph;
  Values operands, results;
};

}  // namespace

InferResult InferByDecomposing(const Node& node) {
  const FunctionParts parts(node);
  PENSTOCK_RETURN_IF_ERROR(parts.graph.status());
  std::vector<TensorType> types;
  for (const Value& result : parts.results) types.push_back(result.type());
  return types;
}

Values GradientByDecomposing(const GradientArgs& args) {
  Graph& graph = *args.results[0].graph();
  FunctionParts parts(args.node);
  const Scope scope(parts.graph, graph.current_origin());
  Values arguments = args.node.operands, cotangents(args.cotangents.size());
  for (size_t i = 0; i < cotangents.size(); ++i) {
    if (!args.cotangents[i].valid()) continue;
    cotangents[i] = parts.graph.Parameter(args.cotangents[i].type(), "cotangent");
    arguments.push_back(args.cotangents[i]);
  }
  Values gradients = Gradients(parts.results, parts.operands, cotangents);
  Values wanted;
  for (const Value& gradient : gradients) {
    if (gradient.valid()) wanted.push_back(gradient);
  }
  parts.graph.SetResults(wanted);
  const Values inlined = graph.Inline(parts.graph, arguments);
  size_t at = 0;
  for (Value& gradient : gradients) {
    if (gradient.valid()) gradient = inlined.empty() ? Value() : inlined[at++];
  }
  return gradients;
}

}  // namespace penstock::ir
