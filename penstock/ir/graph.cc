#include "penstock/ir/graph.h"

#include <algorithm>
#include <stdexcept>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/checked_size.h"
#include "penstock/ir/op_def.h"

namespace penstock::ir {

std::string TensorType::ToString() const {
  const absl::string_view name = base::DTypeStableHlo(dtype);
  return absl::StrCat(name.empty() ? base::DTypeName(dtype) : name, shape.ToString());
}

namespace {

// Throws instead of a CHECK: user-defined functions get invalid values when an operation fails, and
// may ask them for their shape. The rooms that call such functions convert the exception to an
// error.
[[noreturn]] void ThrowEmptyValue() {
  throw std::logic_error(
      "an invalid value, ir::Value(), was used; the operation that should have returned it failed");
}

}  // namespace

Graph* Value::graph() const {
  if (!valid()) ThrowEmptyValue();
  return graph_;
}

const Node& Value::node() const {
  if (!valid()) ThrowEmptyValue();
  return graph_->node(node_);
}

const TensorType& Value::type() const { return node().results[result_]; }

Attributes::Attributes(std::initializer_list<std::pair<absl::string_view, Attribute>> entries) {
  for (const auto& [name, value] : entries) Set(name, value);
}

void Attributes::Set(absl::string_view name, Attribute value) {
  const auto at =
      std::lower_bound(entries_.begin(), entries_.end(), name,
                       [](const auto& entry, absl::string_view n) { return entry.first < n; });
  if (at != entries_.end() && at->first == name) {
    at->second = std::move(value);
  } else {
    entries_.emplace(at, std::string(name), std::move(value));
  }
}

const Attribute* Attributes::Find(absl::string_view name) const {
  for (const auto& entry : entries_) {
    if (entry.first == name) return &entry.second;
  }
  return nullptr;
}

std::string Origin::ToString() const {
  std::string out;
  if (!scope.empty()) absl::StrAppend(&out, "layer \"", scope, "\"");
  if (!file.empty()) absl::StrAppend(&out, out.empty() ? "" : " ", "(", file, ":", line, ")");
  return out;
}

namespace {

InferResult InferNothing(const Node&) { return std::vector<TensorType>(); }

// Options from outside may describe types whose number of elements overflows; after this check,
// products of extents do not overflow.
absl::Status CheckSize(const TensorType& type) {
  if (base::CheckedBytes(type.dtype, type.shape).has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the result would be ", type.ToString(), ", which exceeds any memory"));
}

// Parameters are nodes, so that every value has one. They are never printed as lines.
const OpDef kParameter = {.name = "parameter", .infer = InferNothing, .zero_gradient = true};

}  // namespace

Graph::Graph(std::string name, int num_replicas)
    : name_(std::move(name)), num_replicas_(num_replicas) {
  PENSTOCK_CHECK(num_replicas > 0);
  origins_.push_back(Origin());
}

Value Graph::Parameter(TensorType type, absl::string_view name) {
  Node node;
  if (const absl::Status status = CheckSize(type); !status.ok()) {
    Fail(base::WithContext(status, name));
    // A handle must be returned, but nothing is computed from it: the graph has failed.
    type.shape = Shape(std::vector<int64_t>(static_cast<size_t>(type.shape.rank()), 1));
  }
  node.op = &kParameter;
  node.results = {std::move(type)};
  node.origin = current_origin_;
  nodes_.push_back(std::move(node));
  const Value value(this, num_nodes() - 1, 0);
  parameters_.push_back(value);
  parameter_names_.emplace_back(name);
  return value;
}

void Graph::SetResults(absl::Span<const Value> results, absl::Span<const std::string> names) {
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].valid())
      Fail(absl::InvalidArgumentError(absl::StrCat("result ", i, " is not a value")));
    if (results[i].valid() && results[i].graph() != this) FailForeign(absl::StrCat("result ", i));
  }
  if (!status_.ok()) return;
  results_.assign(results.begin(), results.end());
  result_names_.assign(names.begin(), names.end());
  for (size_t i = names.size(); i < results.size(); ++i)
    result_names_.push_back(absl::StrCat("result", i));
}

std::vector<Value> Graph::Emit(const OpDef& op, std::vector<Value> operands, Attributes attributes,
                               std::vector<std::shared_ptr<const Graph>> regions) {
  for (const Value& operand : operands) {
    // The graph already has the error that made the operand invalid.
    if (!operand.valid()) return {};
    if (operand.graph() != this) {
      FailForeign(absl::StrCat("an operand of ", op.name));
      return {};
    }
  }
  Node node;
  node.op = &op;
  node.operands = std::move(operands);
  node.attributes = std::move(attributes);
  node.regions = std::move(regions);
  node.origin = current_origin_;
  for (const auto& region : node.regions) {
    if (!region->status().ok()) {
      if (status_.ok()) status_ = region->status();  // the region's error has its own origin
      return {};
    }
  }
  absl::StatusOr<std::vector<TensorType>> types = op.infer(node);
  if (!types.ok()) {
    Fail(types.status());
    return {};
  }
  node.results = *std::move(types);
  for (const TensorType& type : node.results) {
    if (const absl::Status status = CheckSize(type); !status.ok()) {
      Fail(OpError(node, status.message()));
      return {};
    }
  }
  std::vector<Value> results;
  for (size_t i = 0; i < node.results.size(); ++i) {
    results.push_back(Value(this, num_nodes(), static_cast<int>(i)));
  }
  nodes_.push_back(std::move(node));
  return results;
}

std::vector<Value> Graph::Inline(const Graph& body, absl::Span<const Value> arguments) {
  return Inline(body, body.parameters(), arguments, body.results());
}

std::vector<Value> Graph::Inline(const Graph& body, absl::Span<const Value> given,
                                 absl::Span<const Value> replacements,
                                 absl::Span<const Value> wanted) {
  if (given.size() != replacements.size()) {
    Fail(absl::InvalidArgumentError(absl::StrCat("inlining ", body.name(), ": ", given.size(),
                                                 " values have ", replacements.size(),
                                                 " replacements")));
  }
  if (!body.status().ok()) Fail(body.status());
  if (!status_.ok()) return {};
  absl::flat_hash_map<std::pair<int, int>, Value> copies;  // by node of the body and result
  for (size_t i = 0; i < given.size(); ++i) {
    copies[{given[i].node_id(), given[i].result()}] = replacements[i];
  }
  const auto copy_of = [&](const Value& v) { return copies.at({v.node_id(), v.result()}); };
  const std::vector<bool> needed = NeededNodes(body, given, wanted);
  for (int id = 0; id < body.num_nodes(); ++id) {
    if (!needed[id]) continue;
    const Node& node = body.node(id);
    const Scope scope(*this, body.origins()[node.origin]);
    std::vector<Value> operands;
    for (const Value& v : node.operands) operands.push_back(copy_of(v));
    const std::vector<Value> results =
        Emit(*node.op, std::move(operands), node.attributes, node.regions);
    if (results.empty()) return {};
    for (size_t i = 0; i < results.size(); ++i) {
      copies.try_emplace({id, static_cast<int>(i)}, results[i]);  // a replacement takes precedence
    }
  }
  std::vector<Value> results;
  for (const Value& v : wanted) results.push_back(copy_of(v));
  return results;
}

std::vector<Value> Graph::Extend(int node, std::vector<std::shared_ptr<const Graph>> regions) {
  Node& extended = nodes_[node];
  const std::vector<TensorType> before = std::move(extended.results);
  extended.regions = std::move(regions);
  absl::StatusOr<std::vector<TensorType>> types = extended.op->infer(extended);
  PENSTOCK_CHECK_OK(types.status());
  PENSTOCK_CHECK(types->size() >= before.size() &&
                 std::equal(before.begin(), before.end(), types->begin()));
  extended.results = *std::move(types);
  std::vector<Value> added;
  for (size_t i = before.size(); i < extended.results.size(); ++i) {
    added.push_back(Value(this, node, static_cast<int>(i)));
  }
  return added;
}

void Graph::Fail(const absl::Status& error) {
  if (!status_.ok()) return;
  const std::string where = current_origin().ToString();
  status_ = where.empty() ? error : base::WithContext(error, where);
}

void Graph::FailForeign(absl::string_view what) {
  Fail(absl::InvalidArgumentError(
      absl::StrCat(what, " belongs to another graph than '", name_,
                   "'. The body of a loop or a branch refers only to its arguments: pass the value "
                   "as part of the state.")));
}

const Origin& Graph::current_origin() const { return origins_[current_origin_]; }

Scope::Scope(Graph& graph, absl::string_view name, std::optional<base::SourceLocation> location)
    : graph_(graph), outer_(graph.current_origin_) {
  Origin origin = graph.current_origin();
  absl::StrAppend(&origin.scope, origin.scope.empty() || name.empty() ? "" : "/", name);
  // A location without a file comes from a saved model, not from the user's source.
  if (location.has_value() && location->file[0] != '\0') {
    origin.file = location->file;
    origin.line = location->line;
  }
  graph.origins_.push_back(std::move(origin));
  graph.current_origin_ = static_cast<int>(graph.origins_.size()) - 1;
}

Scope::Scope(Graph& graph, int origin) : graph_(graph), outer_(graph.current_origin_) {
  graph.current_origin_ = origin;
}

Scope::Scope(Graph& graph, const Origin& origin) : graph_(graph), outer_(graph.current_origin_) {
  // Consecutive nodes mostly have the same origin.
  if (!(graph.origins_.back() == origin)) graph.origins_.push_back(origin);
  graph.current_origin_ = static_cast<int>(graph.origins_.size()) - 1;
}

Scope::~Scope() { graph_.current_origin_ = outer_; }

std::vector<bool> NeededNodes(const Graph& graph, absl::Span<const Value> given,
                              absl::Span<const Value> wanted, std::vector<bool>* read) {
  absl::flat_hash_map<std::pair<int, int>, size_t> places;
  for (size_t i = 0; i < given.size(); ++i) places[{given[i].node_id(), given[i].result()}] = i;
  if (read != nullptr) read->assign(given.size(), false);
  std::vector<bool> needed(graph.num_nodes());
  const auto need = [&](const Value& v) {
    const auto at = places.find({v.node_id(), v.result()});
    if (at == places.end()) {
      needed[v.node_id()] = true;
    } else if (read != nullptr) {
      (*read)[at->second] = true;
    }
  };
  for (const Value& v : wanted) need(v);
  for (int id = graph.num_nodes(); id-- > 0;) {
    if (!needed[id]) continue;
    for (const Value& v : graph.node(id).operands) need(v);
  }
  return needed;
}

std::vector<Value> ExpensiveValues(const Graph& body) {
  std::vector<Value> expensive;
  const std::vector<bool> needed = NeededNodes(body, body.parameters(), body.results());
  for (int id = 0; id < body.num_nodes(); ++id) {
    const Node& node = body.node(id);
    if (needed[id] && node.op->expensive && node.results.size() == 1) {
      expensive.push_back(const_cast<Graph&>(body).value(id));
    }
  }
  return expensive;
}

Value EmitOne(const OpDef& op, Values operands, Attributes attributes) {
  for (const Value& operand : operands) {
    if (!operand.valid()) return Value();
  }
  if (operands.empty()) return Value();
  Graph* graph = operands[0].graph();
  const Values results = graph->Emit(op, std::move(operands), std::move(attributes));
  return results.empty() ? Value() : results[0];
}

absl::Status OpError(const Node& node, absl::string_view message) {
  absl::string_view name = node.op->name;
  if (const size_t dot = name.find('.'); dot != absl::string_view::npos)
    name = name.substr(dot + 1);
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", message));
}

std::string TypesOf(const Node& node) {
  std::string out;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const bool last = i + 1 == node.operands.size();
    absl::StrAppend(&out, i == 0 ? "" : last ? " and " : ", ", node.operands[i].type().ToString());
  }
  return out;
}

bool IsDifferentiable(const TensorType& type) { return base::IsFloat(type.dtype); }

bool NormalizeAxis(Value x, int64_t& axis, absl::string_view what) {
  const int64_t given = axis;
  if (axis < 0) axis += x.rank();
  if (axis >= 0 && axis < x.rank()) return true;
  x.graph()->Fail(absl::InvalidArgumentError(
      absl::StrCat(what, ": there is no axis ", given, " in ", x.type().ToString())));
  return false;
}

bool NormalizeAxes(Value x, Axes& axes, absl::string_view what) {
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!NormalizeAxis(x, axes[i], what)) return false;
    if (std::find(axes.begin(), axes.begin() + i, axes[i]) != axes.begin() + i) {
      x.graph()->Fail(
          absl::InvalidArgumentError(absl::StrCat(what, ": axis ", axes[i], " is repeated")));
      return false;
    }
  }
  return true;
}

std::vector<const OpDef*> AllOps() {
  std::vector<const OpDef*> all;
  for (OpList family : {ElementwiseOps(), SpecialOps(), ShapeOps(), SplitOps(), DotOps(),
                        LinalgOps(), FftOps(), ConvolutionOps(), ReductionOps(), WindowOps(),
                        NormalizationOps(), IndexingOps(), SortingOps(), CumulativeOps(), ScanOps(),
                        ControlFlowOps(), CustomGradientOps(), CollectiveOps(), CustomCallOps()}) {
    all.insert(all.end(), family.begin(), family.end());
  }
  return all;
}

}  // namespace penstock::ir
