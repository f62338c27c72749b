#include "penstock/ir/symbolic_batch.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/ir/op_def.h"

namespace penstock::ir {
namespace {

using Ints = std::vector<int64_t>;

std::optional<Extent> ExtentOf(int64_t size, int64_t other) {
  if (size == other) return Extent{.size = size};
  const int64_t batches = size / SymbolicBatch::kBatch;
  if (batches * SymbolicBatch::kBatch != size || batches * SymbolicBatch::kOtherBatch != other) {
    return std::nullopt;
  }
  return Extent{.batches = batches};
}

std::vector<Extent> ExtentsOf(absl::Span<const int64_t> sizes, absl::Span<const int64_t> others) {
  std::vector<Extent> extents;
  // Compare has checked that each has a value.
  for (size_t i = 0; i < sizes.size(); ++i) extents.push_back(*ExtentOf(sizes[i], others[i]));
  return extents;
}

bool AreExtents(absl::Span<const int64_t> sizes, absl::Span<const int64_t> others) {
  bool fit = sizes.size() == others.size();
  for (size_t i = 0; fit && i < sizes.size(); ++i) fit = ExtentOf(sizes[i], others[i]).has_value();
  return fit;
}

// Whether the attributes are equal, apart from numbers that are multiples of the batch size.
bool Match(const Attribute& a, const Attribute& b) {
  if (a.index() != b.index()) return false;
  if (const auto* ints = std::get_if<Ints>(&a)) return AreExtents(*ints, std::get<Ints>(b));
  if (const auto* number = std::get_if<int64_t>(&a)) {
    return ExtentOf(*number, std::get<int64_t>(b)).has_value();
  }
  if (const auto* array = std::get_if<Array>(&a))
    return base::BitwiseEqual(*array, std::get<Array>(b));
  if (const auto* number = std::get_if<double>(&a)) {  // equal bits: NaN equals itself
    return std::memcmp(number, &std::get<double>(b), sizeof(double)) == 0;
  }
  if (const auto* text = std::get_if<std::string>(&a)) return *text == std::get<std::string>(b);
  if (const auto* dtype = std::get_if<DType>(&a)) return *dtype == std::get<DType>(b);
  return std::get<bool>(a) == std::get<bool>(b);
}

bool Match(const TensorType& a, const TensorType& b) {
  return a.dtype == b.dtype && AreExtents(ListOf(a.shape), ListOf(b.shape));
}

absl::Status Differs(const Graph& graph, int id, absl::string_view what) {
  const Node& node = graph.node(id);
  const std::string where = graph.origins()[node.origin].ToString();
  return absl::InvalidArgumentError(
      absl::StrCat(where, where.empty() ? "" : ": ", node.op->name, ": ", what,
                   " with the batch size, and not as a multiple of it; a program for every batch "
                   "size treats each example alike"));
}

// Difference of two nodes, apart from multiples of the batch size; empty: none.
std::string DifferenceOf(const Node& node, const Node& other) {
  if (node.op != other.op || node.operands.size() != other.operands.size() ||
      node.regions.size() != other.regions.size() || node.results.size() != other.results.size()) {
    return absl::StrCat("the operation changes (to ", other.op->name, ")");
  }
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const Value &mine = node.operands[i], &its = other.operands[i];
    if (mine.node_id() != its.node_id() || mine.result() != its.result()) {
      return absl::StrCat("operand ", i, " changes");
    }
  }
  for (size_t i = 0; i < node.results.size(); ++i) {
    if (Match(node.results[i], other.results[i])) continue;
    return absl::StrCat("the result, ", node.results[i].ToString(), " for a batch of ",
                        SymbolicBatch::kBatch, " and ", other.results[i].ToString(), " for ",
                        SymbolicBatch::kOtherBatch, ", changes");
  }
  auto its = other.attributes.begin();
  for (const auto& [name, value] : node.attributes) {
    if (its == other.attributes.end() || its->first != name || !Match(value, its->second)) {
      return absl::StrCat("'", name, "' changes");
    }
    ++its;
  }
  return its == other.attributes.end() ? "" : absl::StrCat("'", its->first, "' changes");
}

bool SameValues(absl::Span<const Value> mine, absl::Span<const Value> its) {
  bool same = mine.size() == its.size();
  for (size_t i = 0; same && i < mine.size(); ++i) {
    same = mine[i].node_id() == its[i].node_id() && mine[i].result() == its[i].result();
  }
  return same;
}

absl::StatusOr<std::unique_ptr<Graph>> Traced(const SymbolicBatch::Trace& trace, int64_t batch,
                                              const RewriteRule& rule) {
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, trace(batch));
  PENSTOCK_RETURN_IF_ERROR(graph->status());
  graph = rule == nullptr ? Decompose(*graph) : Rewrite(*graph, rule);
  PENSTOCK_RETURN_IF_ERROR(graph->status());
  return graph;
}

}  // namespace

absl::StatusOr<SymbolicBatch> SymbolicBatch::Of(const Trace& trace, const RewriteRule& rule) {
  SymbolicBatch program;
  PENSTOCK_ASSIGN_OR_RETURN(program.graph_, Traced(trace, kBatch, rule));
  PENSTOCK_ASSIGN_OR_RETURN(program.other_graph_, Traced(trace, kOtherBatch, rule));
  PENSTOCK_RETURN_IF_ERROR(program.Compare(*program.graph_, *program.other_graph_));
  return program;
}

absl::Status SymbolicBatch::Compare(const Graph& graph, const Graph& other) {
  others_[&graph] = &other;
  for (int id = 0; id < std::min(graph.num_nodes(), other.num_nodes()); ++id) {
    const Node &node = graph.node(id), &its = other.node(id);
    if (const std::string what = DifferenceOf(node, its); !what.empty()) {
      return Differs(graph, id, what);
    }
    for (size_t i = 0; i < node.regions.size(); ++i) {
      PENSTOCK_RETURN_IF_ERROR(Compare(*node.regions[i], *its.regions[i]));
    }
  }
  if (graph.num_nodes() != other.num_nodes() || !SameValues(graph.results(), other.results()) ||
      !SameValues(graph.parameters(), other.parameters())) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", graph.name(),
                     "' has other operations, parameters or results for a batch "
                     "of ",
                     kBatch, " than for ", kOtherBatch));
  }
  return absl::OkStatus();
}

std::vector<Extent> SymbolicBatch::ShapeOf(const Value& value) const {
  const Node& other = others_.at(value.graph())->node(value.node_id());
  return ExtentsOf(ListOf(value.shape()), ListOf(other.results[value.result()].shape));
}

std::vector<Extent> SymbolicBatch::AttributeOf(const Graph& graph, int id,
                                               absl::string_view name) const {
  const Attributes &mine = graph.node(id).attributes,
                   &its = others_.at(&graph)->node(id).attributes;
  const auto at = std::find_if(mine.begin(), mine.end(),
                               [&](const auto& attribute) { return attribute.first == name; });
  if (at != mine.end() && std::holds_alternative<int64_t>(at->second)) {
    return ExtentsOf({mine.Get<int64_t>(name)}, {its.Get<int64_t>(name)});
  }
  return ExtentsOf(mine.Get<Ints>(name), its.Get<Ints>(name));
}

}  // namespace penstock::ir
