#include "penstock/profile/pieces.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/ir/flops.h"
#include "penstock/ir/op_def.h"  // for the families of operations; else it is internal to ir

namespace penstock::profile {
namespace {

using ir::Node;
using ir::TensorType;
using ir::Value;
using Ints = std::vector<int64_t>;

bool IsOneOf(ir::OpList family, const Node& node) {
  return std::find(family.begin(), family.end(), node.op) != family.end();
}

// Whether compilers fuse the operation into its neighbors, or it costs nothing.
bool IsFused(const Node& node, int num_replicas) {
  const absl::string_view name = node.op->name;
  return name == "parameter" || name == "stablehlo.replica_id" ||
         (name == "stablehlo.all_reduce" && num_replicas == 1) ||
         IsOneOf(ir::ElementwiseOps(), node) || IsOneOf(ir::ShapeOps(), node);
}

// [node][result]: whether the program's results depend on it.
std::vector<std::vector<bool>> Needed(const ir::Graph& graph) {
  std::vector<std::vector<bool>> needed(graph.num_nodes());
  for (int id = 0; id < graph.num_nodes(); ++id) {
    needed[id].assign(std::max<size_t>(1, graph.node(id).results.size()), false);
  }
  for (const Value& value : graph.results()) needed[value.node_id()][value.result()] = true;
  for (int id = graph.num_nodes() - 1; id >= 0; --id) {
    if (std::find(needed[id].begin(), needed[id].end(), true) == needed[id].end()) continue;
    for (const Value& operand : graph.node(id).operands) {
      needed[operand.node_id()][operand.result()] = true;
    }
  }
  return needed;
}

// Whether the value is a constant scalar, such as a loop's trip count.
bool IsScalarConstant(const Value& value) {
  return value.node().operands.empty() && value.rank() == 0 &&
         absl::string_view(value.node().op->name) == "stablehlo.constant";
}

absl::StatusOr<ir::Program> PrintAlone(const Node& node, const std::vector<bool>& needed,
                                       int num_replicas, const PrintFunction& print) {
  ir::Graph graph("operation", num_replicas);
  std::vector<Value> operands;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const Value& operand = node.operands[i];
    const auto same = std::find(node.operands.begin(), node.operands.begin() + i, operand);
    if (same != node.operands.begin() + i) {
      operands.push_back(operands[same - node.operands.begin()]);
    } else if (IsScalarConstant(operand)) {
      const auto constant = graph.Emit(*operand.node().op, {}, operand.node().attributes);
      PENSTOCK_RETURN_IF_ERROR(graph.status());
      operands.push_back(constant[0]);
    } else {
      operands.push_back(graph.Parameter(operand.type(), absl::StrCat("x", i)));
    }
  }
  const std::vector<Value> all = graph.Emit(*node.op, operands, node.attributes, node.regions);
  PENSTOCK_RETURN_IF_ERROR(graph.status());
  std::vector<Value> results;
  for (size_t i = 0; i < all.size(); ++i) {
    if (needed[i]) results.push_back(all[i]);
  }
  graph.SetResults(results);
  return print(graph);
}

// ---- Contents of a row ----

std::string TypesOf(const Node& node, const std::vector<bool>& needed) {
  std::vector<std::string> operands, results;
  for (const Value& operand : node.operands) operands.push_back(operand.type().ToString());
  for (size_t i = 0; i < node.results.size(); ++i) {
    if (needed[i]) results.push_back(node.results[i].ToString());
  }
  return absl::StrCat(absl::StrJoin(operands, ", "), " -> ", absl::StrJoin(results, ", "));
}

// Attributes that distinguish operations of equal types, and the default value of each of their
// elements.
constexpr std::pair<const char*, int64_t> kNotableAttributes[] = {{"strides", 1},
                                                                  {"lhs_dilation", 1},
                                                                  {"rhs_dilation", 1},
                                                                  {"dilation", 1},
                                                                  {"size", 1},
                                                                  {"feature_group_count", 1},
                                                                  {"batch_group_count", 1},
                                                                  {"axes", -1},
                                                                  {"axis", -1},
                                                                  {"count", -1}};

std::string AttributesOf(const Node& node) {
  std::vector<std::string> out;
  for (const auto& [name, attribute] : node.attributes) {
    if (const auto* text = std::get_if<std::string>(&attribute); text && name == "target") {
      out.push_back(*text);
    }
    for (const auto& [attribute_name, usual] : kNotableAttributes) {
      if (name != attribute_name) continue;
      Ints values;
      if (const auto* one = std::get_if<int64_t>(&attribute)) values = {*one};
      if (const auto* many = std::get_if<Ints>(&attribute)) values = *many;
      const bool nothing_special = std::all_of(values.begin(), values.end(),
                                               [u = usual](int64_t value) { return value == u; });
      if (!nothing_special) out.push_back(absl::StrCat(name, " ", absl::StrJoin(values, " ")));
    }
  }
  return absl::StrJoin(out, ", ");
}

// Rough estimate that is independent of the machine; only determines the order of timing.
double ExpectedSeconds(const Node& node, double flops) {
  constexpr double kFlopsPerSecond = 1e11, kBytesPerSecond = 5e9;
  double bytes = 0;
  const auto add = [&](const TensorType& type) {
    bytes += static_cast<double>(type.shape.num_elements() * base::ByteWidth(type.dtype));
  };
  for (const Value& operand : node.operands) add(operand.type());
  for (const TensorType& type : node.results) add(type);
  return flops / kFlopsPerSecond + bytes / kBytesPerSecond;
}

std::string WithoutDialect(absl::string_view name) {
  return std::string(name.substr(name.find('.') + 1));
}

}  // namespace

std::vector<Piece> FindPieces(const ir::Graph& program, const PrintFunction& print) {
  std::vector<Piece> pieces;
  absl::flat_hash_map<std::string, size_t> known;
  const auto needed = Needed(program);
  for (int id = 0; id < program.num_nodes(); ++id) {
    const Node& node = program.node(id);
    if (std::find(needed[id].begin(), needed[id].end(), true) == needed[id].end() ||
        IsFused(node, program.num_replicas())) {
      continue;
    }
    auto alone = PrintAlone(node, needed[id], program.num_replicas(), print);
    const std::string types = TypesOf(node, needed[id]);
    // Pieces are equal if their programs are; the name distinguishes those that cannot be printed.
    const std::string key = absl::StrCat(node.op->name, " ", types, "\n",
                                         alone.ok() ? ir::TextWithoutLocations(*alone) : "");
    const auto [it, is_new] = known.try_emplace(key, pieces.size());
    if (is_new) {
      Piece& piece = pieces.emplace_back();
      piece.cost = {.operation = WithoutDialect(node.op->name),
                    .types = types,
                    .attributes = AttributesOf(node),
                    .layers = {},
                    .count = 0,
                    .flops = ir::Flops(node)};
      if (alone.ok()) {
        piece.program = *std::move(alone);
      } else {
        piece.cost.not_timed = std::string(alone.status().message());
      }
    }
    Piece& piece = pieces[it->second];
    ++piece.cost.count;
    piece.expected_seconds += ExpectedSeconds(node, piece.cost.flops);
    const std::string& layer = program.origins()[node.origin].scope;
    auto& layers = piece.cost.layers;
    if (!layer.empty() && std::find(layers.begin(), layers.end(), layer) == layers.end()) {
      layers.push_back(layer);
    }
  }
  return pieces;
}

}  // namespace penstock::profile
