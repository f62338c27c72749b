#include "penstock/ir/graph.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <type_traits>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
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

// ---- Equality with a template ----

bool SameAttribute(const Attribute& a, const Attribute& b) {
  if (a.index() != b.index()) return false;
  if (const auto* x = std::get_if<Array>(&a)) return base::BitwiseEqual(*x, std::get<Array>(b));
  if (const auto* x = std::get_if<double>(&a)) {
    return std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(std::get<double>(b));
  }
  return std::visit(
      [&](const auto& x) {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, Array>) return false;  // see above
        if constexpr (!std::is_same_v<T, Array>) return x == std::get<T>(b);
      },
      a);
}

bool SameAttributes(const Attributes& a, const Attributes& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && SameAttribute(x.second, y.second);
  });
}

bool SameRegion(const Graph& a, const Graph& b);

bool SameRegions(const std::vector<std::shared_ptr<const Graph>>& a,
                 const std::vector<std::shared_ptr<const Graph>>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x == y || SameRegion(*x, *y); });
}

// Values of two graphs by their places.
bool SameValues(absl::Span<const Value> a, absl::Span<const Value> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Value& x, const Value& y) {
    return x.node_id() == y.node_id() && x.result() == y.result();
  });
}

bool SameRegion(const Graph& a, const Graph& b) {
  if (a.num_nodes() != b.num_nodes() || a.num_replicas() != b.num_replicas() ||
      a.name() != b.name() || !SameValues(a.parameters(), b.parameters()) ||
      !SameValues(a.results(), b.results())) {
    return false;
  }
  for (int id = 0; id < a.num_nodes(); ++id) {
    const Node &x = a.node(id), &y = b.node(id);
    if (x.op != y.op || !SameValues(x.operands, y.operands) || x.results != y.results ||
        !SameAttributes(x.attributes, y.attributes) || !SameRegions(x.regions, y.regions)) {
      return false;
    }
  }
  return true;
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
  if (num_nodes_ < static_cast<int>(nodes_.size()) && nodes_[num_nodes_].op == &kParameter &&
      nodes_[num_nodes_].results[0] == type) {
    nodes_[num_nodes_++].origin = current_origin_;
  } else {
    node.op = &kParameter;
    node.results = {std::move(type)};
    Append(std::move(node));
  }
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
  for (const auto& region : regions) {
    if (!region->status().ok()) {
      if (status_.ok()) status_ = region->status();  // the region's error has its own origin
      return {};
    }
  }
  const auto results_of = [this](const Node& node) {
    std::vector<Value> results;
    results.reserve(node.results.size());
    for (size_t i = 0; i < node.results.size(); ++i) {
      results.push_back(Value(this, num_nodes_ - 1, static_cast<int>(i)));
    }
    return results;
  };
  if (num_nodes_ < static_cast<int>(nodes_.size())) {
    Node& known = nodes_[num_nodes_];
    if (known.op == &op && known.operands == operands &&
        SameAttributes(known.attributes, attributes) && SameRegions(known.regions, regions)) {
      known.origin = current_origin_;
      ++num_nodes_;
      return results_of(known);
    }
  }
  Node node;
  node.op = &op;
  node.operands = std::move(operands);
  node.attributes = std::move(attributes);
  node.regions = std::move(regions);
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
  return results_of(Append(std::move(node)));
}

Node& Graph::Append(Node node) {
  DropTemplate();
  node.origin = current_origin_;
  nodes_.push_back(std::move(node));
  ++num_nodes_;
  return nodes_.back();
}

void Graph::DropTemplate() {
  if (num_nodes_ == static_cast<int>(nodes_.size())) return;
  nodes_.resize(num_nodes_);
  ++num_divergences_;
}

void Graph::Restart() {
  num_nodes_ = 0;
  num_origins_ = 1;
  current_origin_ = 0;
  parameters_.clear();
  parameter_names_.clear();
  results_.clear();
  result_names_.clear();
  status_ = absl::OkStatus();
}

void Graph::Repeat(Position end) {
  PENSTOCK_CHECK(end.nodes >= num_nodes_ && end.nodes <= static_cast<int>(nodes_.size()) &&
                 end.origins >= num_origins_ && end.origins <= static_cast<int>(origins_.size()));
  num_nodes_ = end.nodes;
  num_origins_ = end.origins;
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
  ++num_divergences_;
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

void Graph::SetOrigin(Origin origin) {
  if (num_origins_ < static_cast<int>(origins_.size())) {
    origins_.resize(num_origins_);
    ++num_divergences_;
  }
  origins_.push_back(std::move(origin));
  current_origin_ = num_origins_++;
}

namespace {

// Whether `joined` is the scope `name` in the scope `outer`.
bool IsJoined(absl::string_view joined, absl::string_view outer, absl::string_view name) {
  const absl::string_view separator = outer.empty() || name.empty() ? "" : "/";
  return joined.size() == outer.size() + separator.size() + name.size() &&
         absl::StartsWith(joined, outer) && absl::EndsWith(joined, name) &&
         joined.substr(outer.size(), separator.size()) == separator;
}

}  // namespace

Scope::Scope(Graph& graph, absl::string_view name, std::optional<base::SourceLocation> location)
    : graph_(graph), outer_(graph.current_origin_) {
  const Origin& outer = graph.current_origin();
  // A location without a file comes from a saved model, not from the user's source.
  const bool has_line = location.has_value() && location->file[0] != '\0';
  const absl::string_view file = has_line ? absl::string_view(location->file) : outer.file;
  const int line = has_line ? location->line : outer.line;
  if (graph.num_origins_ < static_cast<int>(graph.origins_.size())) {
    const Origin& known = graph.origins_[graph.num_origins_];
    if (known.line == line && known.file == file && IsJoined(known.scope, outer.scope, name)) {
      graph.current_origin_ = graph.num_origins_++;
      return;
    }
  }
  Origin origin{.scope = outer.scope, .file = std::string(file), .line = line};
  absl::StrAppend(&origin.scope, origin.scope.empty() || name.empty() ? "" : "/", name);
  graph.SetOrigin(std::move(origin));
}

Scope::Scope(Graph& graph, int origin) : graph_(graph), outer_(graph.current_origin_) {
  graph.current_origin_ = origin;
}

Scope::Scope(Graph& graph, const Origin& origin) : graph_(graph), outer_(graph.current_origin_) {
  // Consecutive nodes mostly have the same origin.
  if (graph.origins().back() == origin) {
    graph.current_origin_ = graph.num_origins_ - 1;
  } else if (graph.num_origins_ < static_cast<int>(graph.origins_.size()) &&
             graph.origins_[graph.num_origins_] == origin) {
    graph.current_origin_ = graph.num_origins_++;
  } else {
    graph.SetOrigin(origin);
  }
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
