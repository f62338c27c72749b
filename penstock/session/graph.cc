#include "penstock/session/graph.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/status.h"
#include "penstock/session/body.h"
#include "penstock/session/infer.h"
#include "penstock/session/tpu/shard_region.h"

namespace penstock::session {
namespace {

std::vector<Graph*>& DefaultGraphs() {
  thread_local std::vector<Graph*> stack;
  return stack;
}

const PartialShape& UnknownShape() {
  static const PartialShape unknown;
  return unknown;
}

bool IsInNames(char c) {
  return absl::ascii_isalnum(c) || absl::StrContains("_.\\-/>", absl::string_view(&c, 1));
}

// TensorFlow's rule for names of operations. `full`: with its scopes, within which a name may begin
// with a sign, too.
bool IsValidName(absl::string_view full) {
  if (full.empty() || !(absl::ascii_isalnum(full[0]) || full[0] == '.')) return false;
  return std::all_of(full.begin(), full.end(), IsInNames);
}

absl::Status InvalidNameError(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("this is not a name of ", what,
                   ": use letters, digits and _ . - / \\ after a letter, a digit or a dot"));
}

std::string WithScope(absl::string_view scope, absl::string_view name) {
  return scope.empty() ? std::string(name) : absl::StrCat(scope, "/", name);
}

// "MatMul 'layer/MatMul' (train.cc:12)"
std::string Described(absl::string_view name, SourceLocation where) {
  if (where.file[0] == '\0') return std::string(name);
  return absl::StrCat(name, " (", where.file, ":", where.line, ")");
}

// The members of a collection whose names begin with `scope`.
template <typename T>
std::vector<T> MembersOf(const absl::flat_hash_map<std::string, std::vector<T>>& collections,
                         absl::string_view collection, absl::string_view scope) {
  const auto found = collections.find(collection);
  if (found == collections.end()) return {};
  std::vector<T> members = found->second;
  std::erase_if(members, [&](const T& m) { return !absl::StartsWith(m.name(), scope); });
  return members;
}

absl::string_view LastPart(absl::string_view name) {
  const size_t slash = name.rfind('/');
  return slash == absl::string_view::npos ? name : name.substr(slash + 1);
}

}  // namespace

// ---- PartialShape, Tensor, Operation ----

bool PartialShape::IsFullyDefined() const {
  return known_rank_ && std::all_of(shape_.begin(), shape_.end(), [](int64_t d) { return d >= 0; });
}

bool PartialShape::IsCompatibleWith(const PartialShape& other) const {
  if (!known_rank_ || !other.known_rank_) return true;
  if (rank() != other.rank()) return false;
  for (int i = 0; i < rank(); ++i) {
    if (dim(i) >= 0 && other.dim(i) >= 0 && dim(i) != other.dim(i)) return false;
  }
  return true;
}

std::string PartialShape::ToString() const { return known_rank_ ? shape_.ToString() : "<unknown>"; }

Graph* Tensor::graph() const { return valid() ? node_->graph : nullptr; }
DType Tensor::dtype() const { return valid() ? node_->outputs[index_].dtype : DType::kInvalid; }
const PartialShape& Tensor::shape() const {
  return valid() ? node_->outputs[index_].shape : UnknownShape();
}
std::string Tensor::name() const {
  return valid() ? absl::StrCat(node_->name, ":", index_) : std::string();
}

void Tensor::SetShape(const PartialShape& shape, SourceLocation where) {
  if (!valid()) return;
  PartialShape& known = node_->outputs[index_].shape;
  if (!known.IsCompatibleWith(shape)) {
    node_->graph->Fail(absl::InvalidArgumentError(
                           absl::StrCat("SetShape: its shape is ", known.ToString(),
                                        ", which is not compatible with ", shape.ToString())),
                       absl::StrCat(node_->type, " '", node_->name, "'"), where);
    return;
  }
  if (!shape.has_rank()) return;
  Shape merged = shape.shape();
  for (int i = 0; known.has_rank() && i < merged.rank(); ++i) {
    if (merged.dim(i) < 0) merged.set_dim(i, known.dim(i));
  }
  known = merged;
}

std::string Operation::name() const { return valid() ? node_->name : std::string(); }
std::string Operation::type() const { return valid() ? node_->type : std::string(); }
Tensors Operation::outputs() const {
  Tensors outputs;
  for (size_t i = 0; valid() && i < node_->outputs.size(); ++i) {
    outputs.push_back(Tensor(node_, static_cast<int>(i)));
  }
  return outputs;
}

// ---- Graph ----

Graph::Graph() = default;
Graph::~Graph() = default;

Graph::DefaultScope::DefaultScope(Graph* graph) { DefaultGraphs().push_back(graph); }
Graph::DefaultScope::~DefaultScope() { DefaultGraphs().pop_back(); }

Graph* Graph::Default() { return DefaultGraphs().empty() ? nullptr : DefaultGraphs().back(); }

void Graph::Fail(const absl::Status& error, absl::string_view name, SourceLocation where) {
  if (status_.ok()) status_ = base::WithContext(error, Described(name, where));
}

std::string Graph::UniqueName(absl::string_view name) {
  std::string full = WithScope(name_scope_, name);
  // As in TensorFlow, names that differ only in case are not both used.
  const std::string key = absl::AsciiStrToLower(full);
  int& uses = name_counts_[key];
  int count = uses++;
  if (count == 0) return full;
  std::string unique;
  do {
    unique = absl::StrCat(full, "_", count++);
  } while (name_counts_.contains(absl::AsciiStrToLower(unique)));
  name_counts_[key] = count;
  name_counts_[absl::AsciiStrToLower(unique)] = 1;
  return unique;
}

bool Graph::has_control_dependencies() const {
  return !control_dependencies_.empty() && !control_dependencies_.back().empty();
}

void Graph::AddControlInputs(Node& node, const std::vector<Node*>& given) const {
  node.control_inputs = given;
  if (!control_dependencies_.empty()) {
    const std::vector<Node*>& around = control_dependencies_.back();
    node.control_inputs.insert(node.control_inputs.end(), around.begin(), around.end());
  }
  std::vector<Node*>& all = node.control_inputs;
  all.erase(std::remove(all.begin(), all.end(), nullptr), all.end());
  std::sort(all.begin(), all.end(), [](const Node* a, const Node* b) { return a->id < b->id; });
  all.erase(std::unique(all.begin(), all.end()), all.end());
}

absl::Status Graph::CheckInputs(const Node& node) const {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Tensor& input = node.inputs[i];
    if (!input.valid()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input ", i, " is an invalid tensor; make it with an operation of this graph first"));
    }
    if (input.graph() != this) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input ", i, ", '", input.name(),
          "', belongs to another graph; build all operations of a program in one graph"));
    }
    if (!IsWithin(body_, input.node()->body)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input ", i, ", '", input.name(), "', was made in the body of '",
          input.node()->body->name, "' and has no value outside; return it from that body"));
    }
  }
  for (const Node* before : node.control_inputs) {
    if (before->graph != this) {
      return absl::InvalidArgumentError(
          absl::StrCat("the control dependency '", before->name, "' belongs to another graph"));
    }
    if (!IsWithin(body_, before->body)) {
      return absl::InvalidArgumentError(absl::StrCat("the control dependency '", before->name,
                                                     "' is in the body of '", before->body->name,
                                                     "', which this operation is not"));
    }
  }
  return absl::OkStatus();
}

Node* Graph::AddNode(NodeOptions options, Tensors inputs, LowerFunction lower,
                     SourceLocation where) {
  auto node = std::make_unique<Node>();
  node->graph = this;
  node->type = std::move(options.type);
  node->inputs = std::move(inputs);
  node->where = where;
  node->body = body_;
  node->num_shards = options.num_shards > 1 ? options.num_shards : num_shards_;
  node->stateful = options.stateful;
  node->extra = std::move(options.extra);
  AddControlInputs(*node, options.control_inputs);
  const std::string wanted = options.name.empty() ? node->type : options.name;
  absl::Status status = CheckInputs(*node);
  if (status.ok()) status = CheckShardBoundary(*node);
  if (status.ok() && (wanted.empty() || !IsValidName(WithScope(name_scope_, wanted)))) {
    status = InvalidNameError("an operation");
  }
  if (!status.ok()) {
    Fail(status, absl::StrCat(node->type, " '", wanted, "'"), where);
    return nullptr;
  }
  node->name = UniqueName(wanted);
  if (options.outputs.has_value()) {
    node->outputs = *std::move(options.outputs);
  } else {
    absl::StatusOr<std::vector<Node::Output>> inferred = InferOutputs(lower, *node);
    if (!inferred.ok()) {
      Fail(inferred.status(), absl::StrCat(node->type, " '", node->name, "'"), where);
      return nullptr;
    }
    node->outputs = *std::move(inferred);
  }
  node->lower = std::move(lower);
  node->id = num_nodes();
  by_name_[node->name] = node->id;
  nodes_.push_back(std::move(node));
  Node* const added = nodes_.back().get();
  if (body_ != nullptr) body_->nodes.push_back(added);
  return added;
}

absl::StatusOr<Operation> Graph::GetOperationByName(absl::string_view name) const {
  const auto found = by_name_.find(name);
  if (found != by_name_.end()) return Operation(node(found->second));
  std::vector<std::string> similar;
  const std::string last = absl::AsciiStrToLower(LastPart(name));
  for (const auto& node : nodes_) {
    if (similar.size() == 5) break;
    if (absl::StrContains(absl::AsciiStrToLower(node->name), last)) similar.push_back(node->name);
  }
  return absl::NotFoundError(absl::StrCat(
      "the graph has no operation '", name, "'",
      similar.empty() ? std::string()
                      : absl::StrCat("; similar names: ", absl::StrJoin(similar, ", "))));
}

absl::StatusOr<Tensor> Graph::GetTensorByName(absl::string_view name) const {
  const size_t colon = name.rfind(':');
  int index = 0;
  if (colon == absl::string_view::npos || !absl::SimpleAtoi(name.substr(colon + 1), &index)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", name,
        "' is not the name of a tensor, which is an operation's name and the number of "
        "one of its outputs: '",
        name, ":0'"));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const Operation operation, GetOperationByName(name.substr(0, colon)));
  const int count = static_cast<int>(operation.node()->outputs.size());
  if (index < 0 || index >= count) {
    return absl::NotFoundError(absl::StrCat("'", name, "': the operation has ", count, " outputs"));
  }
  return Tensor(operation.node(), index);
}

Operations Graph::GetOperations() const {
  Operations all;
  for (const auto& node : nodes_) all.push_back(Operation(node.get()));
  return all;
}

void Graph::AddToCollection(absl::string_view collection, const Tensor& value) {
  if (value.valid()) collections_[std::string(collection)].push_back(value);
}

void Graph::AddToCollection(absl::string_view collection, const Operation& value) {
  if (value.valid()) operation_collections_[std::string(collection)].push_back(value);
}

Tensors Graph::GetCollection(absl::string_view collection, absl::string_view scope) const {
  return MembersOf(collections_, collection, scope);
}

Operations Graph::GetCollectionOperations(absl::string_view collection,
                                          absl::string_view scope) const {
  return MembersOf(operation_collections_, collection, scope);
}

std::string AsName(absl::string_view text) {
  std::string name;
  for (const char c : text) {
    const bool continues = (static_cast<unsigned char>(c) & 0xc0) == 0x80;  // a character of UTF-8
    if (!continues) name += IsInNames(c) && c != '>' && c != '\\' ? c : '_';
  }
  return name;
}

// ---- Scopes ----

NameScope::NameScope(absl::string_view name) : graph_(Graph::Default()) {
  if (graph_ == nullptr) return;
  outer_ = graph_->name_scope_;
  const bool absolute = !name.empty() && name.back() == '/';
  if (!name.empty() && !IsValidName(absolute ? name : WithScope(outer_, name))) {
    graph_->Fail(InvalidNameError("a scope"), absl::StrCat("NameScope '", name, "'"), {});
  }
  if (name.empty()) {
    name_ = "";
  } else if (absolute) {
    name_ = std::string(name.substr(0, name.size() - 1));
  } else {
    name_ = graph_->UniqueName(name);
  }
  graph_->name_scope_ = name_;
}

NameScope::~NameScope() {
  if (graph_ != nullptr) graph_->name_scope_ = outer_;
}

ControlDependencies::ControlDependencies(const Operations& after) : graph_(Graph::Default()) {
  if (graph_ == nullptr) return;
  std::vector<Node*> all;
  if (!graph_->control_dependencies_.empty()) all = graph_->control_dependencies_.back();
  for (const Operation& operation : after) all.push_back(operation.node());
  graph_->control_dependencies_.push_back(std::move(all));
}

ControlDependencies::ControlDependencies(std::nullopt_t) : graph_(Graph::Default()) {
  if (graph_ != nullptr) graph_->control_dependencies_.push_back({});
}

ControlDependencies::~ControlDependencies() {
  if (graph_ != nullptr) graph_->control_dependencies_.pop_back();
}

ShardsScope::ShardsScope(Graph* graph, int num_shards) : graph_(graph), outer_(graph->num_shards_) {
  graph_->num_shards_ = num_shards;
}

ShardsScope::~ShardsScope() { graph_->num_shards_ = outer_; }

// ---- Adding operations ----

namespace {

Graph* GraphOf(const Tensors& inputs) {
  for (const Tensor& input : inputs) {
    if (input.valid()) return input.graph();
  }
  return Graph::Default();
}

}  // namespace

Tensors AddOps(absl::string_view type, const Tensors& inputs, absl::string_view name,
               SourceLocation where, PureFunctions lower) {
  Graph* const graph = GraphOf(inputs);
  if (graph == nullptr) return {};
  Node* const node = graph->AddNode(
      {.type = std::string(type), .name = std::string(name)}, inputs,
      [lower = std::move(lower)](Lowering&, const ir::Values& in) { return lower(in); }, where);
  return Operation(node).outputs();
}

Tensor AddOp(absl::string_view type, const Tensors& inputs, absl::string_view name,
             SourceLocation where, PureFunction lower) {
  const Tensors outputs =
      AddOps(type, inputs, name, where,
             [lower = std::move(lower)](const ir::Values& in) { return ir::Values{lower(in)}; });
  return outputs.empty() ? Tensor() : outputs[0];
}

Tensor FailOp(const Tensors& inputs, absl::string_view type, absl::string_view message,
              SourceLocation where) {
  if (Graph* const graph = GraphOf(inputs)) {
    graph->Fail(absl::InvalidArgumentError(message), type, where);
  }
  return Tensor();
}

}  // namespace penstock::session
