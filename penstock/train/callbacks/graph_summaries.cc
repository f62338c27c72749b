#include "penstock/train/callbacks/graph_summaries.h"

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "penstock/ir/op_def.h"
#include "penstock/train/callbacks/event_writer.h"

namespace penstock::train {
namespace {

using base::DType;

// Node names are [A-Za-z0-9.][A-Za-z0-9_.\-/]*.
std::string NodeName(absl::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.';
    const bool inner = c == '_' || c == '-' || c == '/';
    if (out.empty() && !plain) out += '.';
    out += plain || inner ? c : '_';
  }
  return out.empty() ? "." : out;
}

// TensorFlow's DataType (framework/types.proto); 0 (DT_INVALID) for types that it lacks.
uint64_t TensorFlowType(DType type) {
  switch (type) {
    case DType::kF32:
      return 1;
    case DType::kF64:
      return 2;
    case DType::kI32:
      return 3;
    case DType::kU8:
      return 4;
    case DType::kI16:
      return 5;
    case DType::kI8:
      return 6;
    case DType::kI64:
      return 9;
    case DType::kBool:
      return 10;
    case DType::kBF16:
      return 14;
    case DType::kU16:
      return 17;
    case DType::kF16:
      return 19;
    case DType::kU32:
      return 22;
    case DType::kU64:
      return 23;
    default:
      return 0;
  }
}

// tensorflow.TensorShapeProto { 2: repeated Dim { 1: size } }.
std::string ShapeProto(const base::Shape& shape) {
  std::string proto;
  for (int i = 0; i < shape.rank(); ++i) {
    std::string dim;
    AppendVarintField(dim, 1, static_cast<uint64_t>(shape.dim(i)));
    AppendBytesField(proto, 2, dim);
  }
  return proto;
}

// NodeDef, whose attributes are AttrValue { 1: ListValue { 7: repeated TensorShapeProto }, 6: type }.
class NodeDef {
 public:
  NodeDef(absl::string_view name, absl::string_view op) {
    AppendBytesField(bytes_, 1, name);
    AppendBytesField(bytes_, 2, op);
  }
  void AddInput(absl::string_view name) { AppendBytesField(bytes_, 3, name); }
  void SetTypes(const std::vector<ir::TensorType>& types) {
    if (types.empty()) return;
    std::string list, shapes, type;
    for (const ir::TensorType& output : types) AppendBytesField(list, 7, ShapeProto(output.shape));
    AppendBytesField(shapes, 1, list);
    AddAttribute("_output_shapes", shapes);
    AppendVarintField(type, 6, TensorFlowType(types[0].dtype));
    AddAttribute("dtype", type);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void AddAttribute(absl::string_view name, absl::string_view value) {
    std::string entry;
    AppendBytesField(entry, 1, name);
    AppendBytesField(entry, 2, value);
    AppendBytesField(bytes_, 5, entry);
  }

  std::string bytes_;
};

std::string NodeNameOf(const nn::Network::Use& use) {
  return use.layer.valid() ? NodeName(absl::StrCat(use.name, "/", use.layer.class_name()))
                           : NodeName(use.name);
}

void AppendVersion(std::string& graph) {
  std::string version;
  AppendVarintField(version, 1, 1);
  AppendBytesField(graph, 4, version);
}

// Translates the operations of a graph, and of the bodies within it.
class Operations {
 public:
  // Adds the nodes of `graph` below `scope`. Returns the names of its results.
  std::vector<std::string> Add(const ir::Graph& graph, absl::string_view scope) {
    const std::vector<bool> needed = ir::NeededNodes(graph, {}, graph.results());
    std::map<int, std::string> parameters;
    for (size_t i = 0; i < graph.parameters().size(); ++i) {
      parameters[graph.parameters()[i].node_id()] = graph.parameter_names()[i];
    }
    std::vector<std::string> names(static_cast<size_t>(graph.num_nodes()));
    const auto name_of = [&](const ir::Value& value) {
      const std::string& name = names[static_cast<size_t>(value.node_id())];
      return value.result() == 0 ? name : absl::StrCat(name, ":", value.result());
    };
    for (int id = 0; id < graph.num_nodes(); ++id) {
      if (!needed[static_cast<size_t>(id)]) continue;
      const ir::Node& node = graph.node(id);
      const std::string op = OpName(node);
      const auto parameter = parameters.find(id);
      std::string& name = names[static_cast<size_t>(id)];
      name = Unique(parameter != parameters.end()
                        ? Join(scope, parameter->second)
                        : Join(scope, Join(graph.origins()[node.origin].scope, op)));
      NodeDef out(name, op);
      for (const ir::Value& operand : node.operands) out.AddInput(name_of(operand));
      for (size_t i = 0; i < node.regions.size(); ++i) {
        for (const std::string& result :
             Add(*node.regions[i],
                 absl::StrCat(name, "/body", i == 0 ? "" : absl::StrCat("_", i)))) {
          out.AddInput(result);
        }
      }
      out.SetTypes(node.results);
      AppendBytesField(graph_, 1, out.bytes());
    }
    std::vector<std::string> results;
    for (const ir::Value& result : graph.results()) results.push_back(name_of(result));
    return results;
  }
  std::string Take() {
    AppendVersion(graph_);
    return std::move(graph_);
  }

 private:
  // "dot_general" of "stablehlo.dot_general".
  static std::string OpName(const ir::Node& node) {
    const absl::string_view name = node.op->name;
    return std::string(name.substr(name.rfind('.') + 1));  // npos + 1 is 0
  }
  static std::string Join(absl::string_view scope, absl::string_view name) {
    return scope.empty() ? std::string(name) : absl::StrCat(scope, "/", name);
  }
  // The name of a node, made different from those before as TensorFlow does: "x", "x_1".
  std::string Unique(absl::string_view name) {
    const std::string wanted = NodeName(name);
    int& used = used_[wanted];
    std::string unique = wanted;
    while (!names_.insert(unique).second) unique = absl::StrCat(wanted, "_", ++used);
    return unique;
  }

  std::string graph_;
  std::map<std::string, int> used_;
  std::set<std::string> names_;
};

}  // namespace

std::string GraphDefOf(const nn::Network& network) {
  std::string graph;
  std::vector<bool> written(network.variables().size());
  for (const nn::Network::Use& use : network.uses()) {
    NodeDef node(NodeNameOf(use), use.layer.valid() ? use.layer.class_name() : "Placeholder");
    for (const nn::Network::Use::From& from : use.inputs) {
      const std::string name = NodeNameOf(network.uses()[static_cast<size_t>(from.use)]);
      node.AddInput(from.output == 0 ? name : absl::StrCat(name, ":", from.output));
    }
    for (const int index :
         use.layer.valid() ? network.VariablesUnder(use.name) : std::vector<int>()) {
      const nn::VariableSpec& variable = network.variables()[static_cast<size_t>(index)];
      const std::string name = NodeName(variable.name);
      node.AddInput(name);
      if (written[static_cast<size_t>(index)]) continue;
      written[static_cast<size_t>(index)] = true;
      NodeDef own(name, "VarHandleOp");
      own.SetTypes({variable.type});
      AppendBytesField(graph, 1, own.bytes());
    }
    node.SetTypes(use.types);
    AppendBytesField(graph, 1, node.bytes());
  }
  AppendVersion(graph);
  return graph;
}

std::string GraphDefOf(const ir::Graph& graph) {
  Operations operations;
  operations.Add(graph, "");
  return operations.Take();
}

std::string GraphSummary(absl::string_view tag, absl::string_view graph_def) {
  constexpr uint64_t kString = 7;  // DT_STRING
  std::string functions, run, tensor, plugin, metadata, value, summary;
  AppendBytesField(functions, 2, graph_def);
  AppendBytesField(run, 4, functions);
  AppendVarintField(tensor, 1, kString);  // TensorProto { 1: dtype, 2: shape, 8: string_val }
  AppendBytesField(tensor, 2, "");        // a scalar
  AppendBytesField(tensor, 8, run);
  // SummaryMetadata { 1: PluginData { 1: plugin_name, 2: content } }; the content is a version.
  AppendBytesField(plugin, 1, "graph_run_metadata_graph");
  AppendBytesField(plugin, 2, "1");
  AppendBytesField(metadata, 1, plugin);
  AppendBytesField(value, 1, tag);  // Summary { 1: Value { 1: tag, 8: tensor, 9: metadata } }
  AppendBytesField(value, 8, tensor);
  AppendBytesField(value, 9, metadata);
  AppendBytesField(summary, 1, value);
  return summary;
}

}  // namespace penstock::train
