#include "penstock/nn/network.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/random.h"
#include "penstock/nn/initializers.h"
#include "penstock/nn/names.h"
#include "penstock/nn/regularizers.h"

namespace penstock::nn {
namespace {

// Placeholder for the unknown batch size during type inference; any size works, because layers
// treat the batch alike.
constexpr int64_t kTraceBatch = 2;

TensorType WithBatch(const TensorType& type, int64_t batch) {
  TensorType out = type;
  if (out.shape.rank() > 0) out.shape.set_dim(0, batch);
  return out;
}

// Recognizes layers that are reached on another path.
class LayerPaths {
 public:
  // The path of `layer`; `resolved` becomes its path if it has none yet.
  VariableScope::LayerPath& Find(const Layer& layer, VariableScope::LayerPath resolved) {
    return layers_.try_emplace(layer.id(), internal::LayerEntry{layer, std::move(resolved)})
        .first->second.resolved;
  }
  const internal::LayerMap& layers() const { return layers_; }
  internal::LayerMap Take() { return std::move(layers_); }

 private:
  internal::LayerMap layers_;
};

// Collects declarations and returns placeholders.
class DeclaringScope : public VariableScope {
 public:
  LayerPath Resolve(const Layer& layer, std::string path, bool trainable) override {
    LayerPath& resolved = layers_.Find(layer, {path, trainable});
    if (resolved.path != path) other_paths_.emplace(std::move(path), resolved.path);
    if (!trainable && resolved.trainable) resolved.trainable = false;
    return resolved;
  }
  Value Get(ir::Graph& graph, const VariableSpec& spec) override {
    for (auto& [declared, value] : declared_) {
      if (declared.name != spec.name) continue;
      if (!(declared.type == spec.type)) {
        graph.Fail(absl::InvalidArgumentError(absl::StrCat(
            "variable ", spec.name, " is ", declared.type.ToString(),
            " from an earlier call of this layer; this call expects ", spec.type.ToString())));
        return Value();
      }
      declared.trainable = declared.trainable && spec.trainable;
      return value;
    }
    for (const absl::Status& status :
         {CheckName("variable", spec.name), CheckAggregation(spec), CheckTrainable(spec)}) {
      if (status.ok()) continue;
      graph.Fail(status);
      return Value();
    }
    const Value value = graph.Parameter(spec.type, spec.name);
    declared_.emplace_back(spec, value);
    return value;
  }
  void Set(ir::Graph& graph, absl::string_view name, Value value) override {
    for (const auto& [declared, placeholder] : declared_) {
      if (declared.name == name) return CheckAssigned(graph, name, declared.type, value);
    }
    graph.Fail(NotDeclared(name));
  }

  // The assigned value must have the variable's type.
  static void CheckAssigned(ir::Graph& graph, absl::string_view name, const TensorType& type,
                            const Value& value) {
    if (value.type() == type) return;
    graph.Fail(absl::InvalidArgumentError(absl::StrCat(
        "variable ", name, " is ", type.ToString(), "; it is assigned ", value.type().ToString())));
  }
  static absl::Status NotDeclared(absl::string_view name) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a value is assigned to ", name, ", but the layer has not declared that variable"));
  }

  const std::vector<std::pair<VariableSpec, Value>>& declared() const { return declared_; }
  internal::LayerMap TakeLayers() { return layers_.Take(); }
  std::map<std::string, std::string> TakeOtherPaths() { return std::move(other_paths_); }

 private:
  static absl::Status CheckAggregation(const VariableSpec& spec) {
    const DType dtype = spec.type.dtype;
    const bool fits = spec.aggregation == Aggregation::kMean  ? base::IsFloat(dtype)
                      : spec.aggregation == Aggregation::kSum ? dtype != DType::kBool
                                                              : true;
    if (fits) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "variable ", spec.name, " is ", spec.type.ToString(), ", whose values of several replicas ",
        spec.aggregation == Aggregation::kMean ? "have no mean: Aggregation::kMean is for floats"
                                               : "cannot be added up",
        "; use kOnlyFirstReplica"));
  }

  static absl::Status CheckTrainable(const VariableSpec& spec) {
    if (!spec.trainable || base::IsFloat(spec.type.dtype)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "variable ", spec.name, " is ", spec.type.ToString(),
        " and trainable; only floats can be trained: declare it with trainable = false"));
  }

  std::vector<std::pair<VariableSpec, Value>> declared_;
  LayerPaths layers_;
  std::map<std::string, std::string> other_paths_;
};

// Returns a program's values and stores assigned ones.
class BoundScope : public VariableScope {
 public:
  BoundScope(const absl::flat_hash_map<std::string, int>& index, const internal::LayerMap& layers,
             Values values)
      : index_(index), layers_(layers), values_(std::move(values)) {}

  LayerPath Resolve(const Layer& layer, std::string path, bool trainable) override {
    const auto found = layers_.find(layer.id());
    if (found != layers_.end()) return found->second.resolved;
    // Created during this call, by a layer that creates new parts each time.
    return made_.Find(layer, {std::move(path), trainable});
  }
  Value Get(ir::Graph& graph, const VariableSpec& spec) override {
    const auto found = index_.find(spec.name);
    if (found != index_.end()) return values_[found->second];
    graph.Fail(absl::InternalError(
        absl::StrCat("variable ", spec.name, " was not declared when the network was built")));
    return Value();
  }
  void Set(ir::Graph& graph, absl::string_view name, Value value) override {
    const auto found = index_.find(std::string(name));
    if (found == index_.end()) return graph.Fail(DeclaringScope::NotDeclared(name));
    const int i = found->second;
    DeclaringScope::CheckAssigned(graph, name, values_[i].type(), value);
    values_[i] = value;  // a second use of the layer in this step reads this value
    assigned_[i] = value;
  }

  absl::flat_hash_map<int, Value> TakeAssigned() { return std::move(assigned_); }

 private:
  const absl::flat_hash_map<std::string, int>& index_;
  const internal::LayerMap& layers_;
  LayerPaths made_;
  Values values_;
  absl::flat_hash_map<int, Value> assigned_;
};

std::string LayerNameForErrors(const Layer& layer) {
  return layer.given_name().empty() ? SnakeCase(layer.class_name()) : layer.given_name();
}

}  // namespace

namespace internal {

std::vector<absl::StatusOr<TensorType>> InferTypes(const Layer& layer,
                                                   const std::vector<Symbol>& inputs) {
  ir::Graph scratch("shapes");
  const std::string name = LayerNameForErrors(layer);
  ir::Scope scope(scratch, name, layer.location());
  Values values;
  for (const Symbol& input : inputs) {
    if (!input.valid()) {
      scratch.Fail(absl::InvalidArgumentError("is called on a tensor that no layer produced"));
      return {scratch.status()};
    }
    if (!input.type().ok()) return {input.type().status()};  // report the first error
    values.push_back(scratch.Parameter(WithBatch(*input.type(), kTraceBatch), "input"));
  }
  DeclaringScope variables;
  const ApplyOptions options{.graph = &scratch, .training = true, .key = ir::RandomKey(scratch, 0)};
  const Outputs outputs =
      CallLayer(layer, options, variables, {.layer_name = name, .key = options.key}, values)
          .outputs;
  if (!scratch.status().ok()) return {scratch.status()};
  std::vector<absl::StatusOr<TensorType>> types;
  for (const Value& output : outputs) {
    if (!output.valid())
      return {absl::InternalError(absl::StrCat(name, " returned an invalid output"))};
    types.push_back(WithBatch(output.type(), -1));
  }
  return types;
}

}  // namespace internal

Network::Network(const std::vector<Symbol>& inputs, const std::vector<Symbol>& outputs,
                 std::string name)
    : Network(inputs, outputs, std::move(name), LayerNames()) {}

Network::Network(const std::vector<Symbol>& inputs, const std::vector<Symbol>& outputs,
                 std::string name, const LayerNames& layer_names)
    : name_(std::move(name)) {
  for (const auto* list : {&inputs, &outputs}) {
    for (const Symbol& symbol : *list) {
      if (!symbol.valid()) {
        status_ = absl::InvalidArgumentError(
            "a network's inputs and outputs must come from Input or a layer");
        return;
      }
      if (status_ = symbol.type().status(); !status_.ok()) return;
    }
  }
  if (inputs.empty() || outputs.empty()) {
    status_ = absl::InvalidArgumentError("a network needs at least one input and one output");
    return;
  }
  const std::vector<int> visited = Collect(inputs, outputs);
  if (!status_.ok()) return;
  NameUses(layer_names);
  if (!status_.ok()) return;
  OrderUses(visited);
  NumberForKeras();
  status_ = Declare();
  auto names = std::make_shared<Symbol::Names>();
  for (size_t i = 0; i < uses_.size(); ++i) {
    const Layer& layer = uses_[i].layer;
    names->emplace(layer.valid() ? layer.id() : nodes_[i].get(), uses_[i].name);
  }
  names_ = std::move(names);
}

std::vector<Symbol> Network::SymbolsOfUse(int use) const {
  std::vector<Symbol> symbols;
  for (size_t i = 0; i < nodes_[use]->types.size(); ++i) {
    symbols.emplace_back(nodes_[use], static_cast<int>(i), names_);
  }
  return symbols;
}

std::vector<Symbol> Network::InputSymbols() const {
  std::vector<Symbol> symbols;
  if (!status_.ok()) return symbols;
  for (const int use : input_uses_) symbols.push_back(SymbolsOfUse(use)[0]);
  return symbols;
}

std::vector<Symbol> Network::OutputSymbols() const {
  std::vector<Symbol> symbols;
  if (!status_.ok()) return symbols;
  for (const Use::From& from : output_uses_) {
    symbols.push_back(SymbolsOfUse(from.use)[from.output]);
  }
  return symbols;
}

absl::StatusOr<std::vector<Symbol>> Network::SymbolsOf(absl::string_view layer_name) const {
  PENSTOCK_RETURN_IF_ERROR(status_);
  std::vector<std::string> names;
  for (size_t i = 0; i < uses_.size(); ++i) {
    if (uses_[i].name == layer_name) return SymbolsOfUse(static_cast<int>(i));
    names.push_back(uses_[i].name);
  }
  constexpr size_t kMaxListed = 20;
  const bool few = names.size() <= kMaxListed;
  return absl::InvalidArgumentError(
      absl::StrCat("network '", name_, "' has no layer '", layer_name,
                   few ? "'; its layers are " : "'; the most similar of its layers are ",
                   few ? absl::StrJoin(names, ", ") : SimilarNames(layer_name, names)));
}

Network Network::WithRemat(const RematOptions& options) const {
  Network out = *this;
  for (const std::string& name : options.layer_names) {
    if (options.mode != RematMode::kListOfLayers || !out.status_.ok()) break;
    out.status_ = SymbolsOf(name).status();
  }
  for (Use& use : out.uses_) {
    const auto& names = options.layer_names;
    const auto size = [&] {
      const Shape& shape = use.type().shape;
      int64_t elements = 1;
      for (int i = 1; i < shape.rank(); ++i) elements *= shape.dim(i);
      return elements;
    };
    const bool fully =
        options.mode == RematMode::kFull ||
        (options.mode == RematMode::kLargerThan && size() > options.output_size_threshold) ||
        (options.mode == RematMode::kListOfLayers &&
         std::find(names.begin(), names.end(), use.name) != names.end());
    use.remat = !use.layer.valid()                        ? Remat::kNone
                : options.mode == RematMode::kActivations ? Remat::kActivations
                : fully                                   ? Remat::kFull
                                                          : Remat::kNone;
  }
  return out;
}

Network Network::AsSequential() const {
  Network out = *this;
  out.sequential_ = true;
  return out;
}

Network Network::Refreshed() const {
  Network out = *this;
  if (out.status_.ok()) out.status_ = out.Declare();
  return out;
}

bool Network::Trains(const Layer& layer) const {
  const auto found = layers_.find(layer.id());
  if (found != layers_.end()) return found->second.resolved.trainable;
  return layer.valid() && layer.trainable();
}

std::map<std::string, Layer> Network::LayersByPath() const {
  std::map<std::string, Layer> by_path;
  for (const auto& [id, entry] : layers_) by_path.emplace(entry.resolved.path, entry.layer);
  for (const auto& [other, first] : other_paths_) {
    if (const auto found = by_path.find(first); found != by_path.end()) {
      by_path.emplace(other, found->second);
    }
  }
  return by_path;
}

absl::Status Network::SetTrainable(bool trainable, const std::vector<std::string>& patterns) const {
  PENSTOCK_RETURN_IF_ERROR(status_);
  const Network again = Refreshed();
  PENSTOCK_RETURN_IF_ERROR(again.status_);
  const std::map<std::string, Layer> layers = LayersByPath(), layers_again = again.LayersByPath();
  std::vector<Layer> chosen;
  for (const std::string& pattern : patterns) {
    std::vector<std::string> paths;
    std::string created_by_call;
    size_t matches = 0;
    for (const auto& [path, layer] : layers) {
      paths.push_back(path);
      if (!MatchesPattern(pattern, path)) continue;
      // Some layers create their inner layers at each call: a flag of such a layer has no effect.
      const auto found = layers_again.find(path);
      if (found == layers_again.end() || !(found->second == layer)) {
        created_by_call = path;
        continue;
      }
      chosen.push_back(layer);
      ++matches;
    }
    if (matches > 0) continue;
    if (!created_by_call.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("'", created_by_call, "' in network '", name_,
                                                     "' is created at each call of ",
                                                     "a layer; select the layer that contains it"));
    }
    return absl::InvalidArgumentError(absl::StrCat("network '", name_, "' has no layer '", pattern,
                                                   "'; the most similar are ",
                                                   SimilarNames(pattern, paths)));
  }
  for (const Layer& layer : chosen) layer.SetTrainable(trainable);
  return absl::OkStatus();
}

absl::Status Network::CheckSerializable() const {
  for (const Use& use : uses_) {
    if (!use.layer.valid()) continue;
    if (absl::Status status = use.layer.body().CheckSerializable(); !status.ok()) {
      return base::WithContext(status, absl::StrCat("layer '", use.name, "'"));
    }
  }
  return absl::OkStatus();
}

Network Network::WithPolicy(const DTypePolicy& policy) const {
  Network out = *this;
  if (!out.status_.ok()) return out;
  absl::StatusOr<Policy> found = Policy::FromName(policy);
  if (out.status_ = found.status(); !out.status_.ok()) return out;
  out.policy_ = *std::move(found);
  out.status_ = out.Declare();
  return out;
}

// Lists the uses in topological order (depth first from the outputs). Returns the order in which
// they were first visited.
std::vector<int> Network::Collect(const std::vector<Symbol>& inputs,
                                  const std::vector<Symbol>& outputs) {
  absl::flat_hash_map<const Symbol::Node*, int> position, met;
  std::set<const Symbol::Names*> seen;
  Symbol::Names earlier;
  const auto remember = [&](const Symbol& symbol) {
    const auto& names = symbol.names();
    if (names == nullptr || !seen.insert(names.get()).second) return;
    earlier.insert(names->begin(), names->end());
  };
  const auto add = [&](const Symbol& symbol, std::vector<Use::From> from) {
    position[symbol.node().get()] = static_cast<int>(uses_.size());
    uses_.push_back({symbol.node()->layer, "", std::move(from), {}});
    nodes_.push_back(symbol.node());
    for (const auto& type : symbol.node()->types) uses_.back().types.push_back(*type);
  };
  for (const Symbol& input : inputs) {
    remember(input);
    if (input.node()->layer.valid()) {
      status_ = absl::InvalidArgumentError("a network's inputs must be made by Input");
      return {};
    }
    if (position.contains(input.node().get())) {
      status_ = absl::InvalidArgumentError("a network's inputs must differ from each other");
      return {};
    }
    input_uses_.push_back(static_cast<int>(uses_.size()));
    add(input, {});
  }
  // An explicit stack: nets may be deeper than the C++ stack allows.
  std::vector<std::pair<Symbol, size_t>> stack;
  for (const Symbol& output : outputs) {
    remember(output);
    if (!position.contains(output.node().get())) stack.push_back({output, 0});
    while (!stack.empty()) {
      const Symbol symbol = stack.back().first;
      const auto& from = symbol.node()->inputs;
      if (!symbol.node()->layer.valid()) {
        status_ = absl::InvalidArgumentError(absl::StrCat(
            "the outputs depend on an Input",
            symbol.node()->input_name.empty() ? "" : " '" + symbol.node()->input_name + "'",
            " that is not among the network's inputs"));
        return {};
      }
      met.emplace(symbol.node().get(), static_cast<int>(met.size()));
      if (stack.back().second < from.size()) {
        const Symbol next = from[stack.back().second++];
        remember(next);
        if (!position.contains(next.node().get())) stack.push_back({next, 0});
        continue;
      }
      std::vector<Use::From> indices;
      for (const Symbol& s : from) indices.push_back({position.at(s.node().get()), s.output()});
      if (!position.contains(symbol.node().get())) add(symbol, std::move(indices));
      stack.pop_back();
    }
    output_uses_.push_back({position.at(output.node().get()), output.output()});
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    uses_[input_uses_[i]].name = inputs[i].node()->input_name;
  names_ = std::make_shared<Symbol::Names>(std::move(earlier));
  std::vector<int> visited(uses_.size(), -1);
  for (const auto& [node, when] : met) visited[position.at(node)] = when;
  return visited;
}

// Orders the uses as Keras does: by distance from the outputs, the farthest first, and at the same
// distance in the order in which a search from the outputs visits them. (Names are assigned before,
// in the order of Collect, which is closer to the order in which the program made the layers.)
void Network::OrderUses(const std::vector<int>& visited) {
  const int count = static_cast<int>(uses_.size()), num_inputs = static_cast<int>(inputs_.size());
  std::vector<int> distance(count, 0), order(count), position(count);
  for (int i = count - 1; i >= 0; --i) {
    for (const Use::From& from : uses_[i].inputs) {
      distance[from.use] = std::max(distance[from.use], distance[i] + 1);
    }
  }
  for (int i = 0; i < count; ++i) order[i] = i;
  std::sort(order.begin() + num_inputs, order.end(), [&](int a, int b) {
    return distance[a] != distance[b] ? distance[a] > distance[b] : visited[a] < visited[b];
  });
  std::vector<Use> ordered;
  std::vector<std::shared_ptr<const Symbol::Node>> nodes;
  for (int i = 0; i < count; ++i) {
    position[order[i]] = i;
    ordered.push_back(std::move(uses_[order[i]]));
    nodes.push_back(std::move(nodes_[order[i]]));
  }
  nodes_ = std::move(nodes);
  for (Use& use : ordered) {
    for (Use::From& from : use.inputs) from.use = position[from.use];
  }
  for (Use::From& from : output_uses_) from.use = position[from.use];
  uses_ = std::move(ordered);
}

// Given names must differ; the others are those that the layers had in the network that they were
// taken from (Symbol::names), where these are free, or numbered for each class, as Keras does.
void Network::NameUses(const LayerNames& layer_names) {
  const auto given_name = [&](const Use& use) -> const std::string& {
    if (!use.layer.valid()) return use.name;
    const auto found = layer_names.find(use.layer.id());
    return found == layer_names.end() ? use.layer.given_name() : found->second;
  };
  absl::flat_hash_map<std::string, const void*> taken;
  for (const Use& use : uses_) {
    const std::string& given = given_name(use);
    if (given.empty()) continue;
    if (status_ = CheckName("layer", given); !status_.ok()) return;
    const void* id = use.layer.valid() ? use.layer.id() : &use;
    const auto [at, fresh] = taken.emplace(given, id);
    if (!fresh && at->second != id) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat("two layers are named '", given, "'; names must differ"));
      return;
    }
  }
  absl::flat_hash_map<std::string, int> counts;
  absl::flat_hash_map<const void*, std::string> names;
  for (size_t i = 0; i < uses_.size(); ++i) {
    const void* id = uses_[i].layer.valid() ? uses_[i].layer.id() : nodes_[i].get();
    const auto earlier = names_->find(id);
    if (earlier == names_->end() || !given_name(uses_[i]).empty() || names.contains(id)) continue;
    if (taken.emplace(earlier->second, id).second) names[id] = earlier->second;
  }
  for (size_t i = 0; i < uses_.size(); ++i) {
    Use& use = uses_[i];
    const std::string& given = given_name(use);
    if (!given.empty()) {
      use.name = given;
      continue;
    }
    const void* id = use.layer.valid() ? use.layer.id() : nodes_[i].get();
    if (names.contains(id)) {
      use.name = names[id];
      continue;
    }
    const std::string base = use.layer.valid() ? SnakeCase(use.layer.class_name()) : "input_layer";
    do {
      const int n = counts[base]++;
      use.name = n == 0 ? base : absl::StrCat(base, "_", n);
    } while (taken.contains(use.name));
    taken.emplace(use.name, nullptr);
    if (use.layer.valid()) names[use.layer.id()] = use.name;
  }
  for (int i : input_uses_) inputs_.push_back({uses_[i].name, uses_[i].type()});
  for (const Use::From& from : output_uses_) {
    outputs_.push_back({uses_[from.use].name, uses_[from.use].types[from.output]});
  }
}

// Collects the variables and the types of all outputs.
absl::Status Network::Declare() {
  ir::Graph scratch("declare");
  DeclaringScope scope;
  const ApplyOptions options{.graph = &scratch, .training = true, .key = ir::RandomKey(scratch, 0)};
  Values inputs;
  for (const Port& input : inputs_) {
    inputs.push_back(scratch.Parameter(WithBatch(input.type, kTraceBatch), input.name));
  }
  const Result result = Run(options, scope, {.key = options.key, .policy = policy_}, inputs);
  PENSTOCK_RETURN_IF_ERROR(scratch.status());
  for (size_t i = 0; i < uses_.size(); ++i) {
    if (!uses_[i].layer.valid()) continue;
    uses_[i].types.clear();
    for (const Value& output : result.activations[i]) {
      uses_[i].types.push_back(WithBatch(output.type(), -1));
    }
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    outputs_[i].type = uses_[output_uses_[i].use].types[output_uses_[i].output];
  }
  variables_.clear();
  variable_index_.clear();
  for (const auto& [spec, value] : scope.declared()) {
    variable_index_[spec.name] = static_cast<int>(variables_.size());
    variables_.push_back(spec);
  }
  layers_ = scope.TakeLayers();
  other_paths_ = scope.TakeOtherPaths();
  return absl::OkStatus();
}

std::vector<int> Network::VariablesUnder(const std::string& path) const {
  std::set<std::string> paths;
  std::vector<std::string> next = {path};
  while (!next.empty()) {
    std::string at = std::move(next.back());
    next.pop_back();
    if (!paths.insert(at).second) continue;
    for (const auto& [other, first] : other_paths_) {
      // The layer itself, a layer inside it, or a layer that contains it.
      if (other == at || absl::StartsWith(other, at + "/")) next.push_back(first);
      if (absl::StartsWith(at, other + "/")) next.push_back(first + at.substr(other.size()));
    }
  }
  std::vector<int> under;
  for (size_t i = 0; i < variables_.size(); ++i) {
    const bool is_under = std::any_of(paths.begin(), paths.end(), [&](const std::string& p) {
      return absl::StartsWith(variables_[i].name, p + "/");
    });
    if (is_under) under.push_back(static_cast<int>(i));
  }
  return under;
}

std::string Network::VariableName(absl::string_view name) const {
  std::string resolved(name);
  // Paths may be nested: each pass resolves one; there are no cycles.
  for (size_t pass = 0; pass <= other_paths_.size(); ++pass) {
    if (variable_index_.contains(resolved)) return resolved;
    const auto found = std::find_if(
        other_paths_.begin(), other_paths_.end(),
        [&](const auto& paths) { return absl::StartsWith(resolved, paths.first + "/"); });
    if (found == other_paths_.end()) break;
    resolved = found->second + resolved.substr(found->first.size());
  }
  return std::string(name);
}

int64_t Network::CountParameters(bool trainable_only) const {
  int64_t n = 0;
  for (const VariableSpec& v : variables_) {
    if (v.trainable || !trainable_only) n += v.type.shape.num_elements();
  }
  return n;
}

Network::Result Network::Run(const ApplyOptions& options, VariableScope& variables,
                             const CallContext::CallSite& site, const Values& inputs) const {
  Result result;
  if (inputs.size() != inputs_.size()) {
    options.graph->Fail(absl::InvalidArgumentError(absl::StrCat(
        "network '", name_, "' takes ", inputs_.size(), " inputs, got ", inputs.size())));
    return result;
  }
  result.activations.resize(uses_.size());
  std::vector<Values> masks(uses_.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    result.activations[input_uses_[i]] = inputs[i];
    masks[input_uses_[i]] = {i < site.input_masks.size() ? site.input_masks[i] : Value()};
  }
  for (size_t i = 0; i < uses_.size(); ++i) {
    const Use& use = uses_[i];
    if (!use.layer.valid()) continue;
    ir::Scope origin(*options.graph, use.name, use.layer.location());
    CallContext::CallSite own{.layer_name = site.layer_name.empty()
                                                ? use.name
                                                : absl::StrCat(site.layer_name, "/", use.name),
                              .key = site.key,
                              .index = static_cast<uint32_t>(i),
                              .policy = site.policy,
                              .trainable = site.trainable,
                              .input_masks = {},
                              .remat = use.remat};
    Values from;
    for (const Use::From& input : use.inputs) {
      from.push_back(result.activations[input.use][input.output]);
      own.input_masks.push_back(masks[input.use][input.output]);
    }
    internal::CallResult called =
        internal::CallLayer(use.layer, options, variables, std::move(own), std::move(from));
    if (!options.graph->status().ok()) return result;
    if (called.outputs.size() != use.types.size()) {
      options.graph->Fail(absl::InvalidArgumentError(
          absl::StrCat("returned ", use.types.size(), " outputs when the network was made, now ",
                       called.outputs.size(), "; a layer always has the same number")));
      return result;
    }
    result.activations[i] = std::move(called.outputs);
    masks[i] = std::move(called.masks);
    result.losses.insert(result.losses.end(), called.losses.begin(), called.losses.end());
  }
  for (const Use::From& from : output_uses_) {
    result.outputs.push_back(result.activations[from.use][from.output]);
    result.output_masks.push_back(masks[from.use][from.output]);
  }
  return result;
}

Network::Result Network::Apply(const ApplyOptions& options, const Values& values,
                               const Values& inputs) const {
  if (!status_.ok() || values.size() != variables_.size()) {
    options.graph->Fail(!status_.ok() ? status_
                                      : absl::InvalidArgumentError(absl::StrCat(
                                            "network '", name_, "' has ", variables_.size(),
                                            " variables, got ", values.size(), " values")));
    Result failed;
    failed.outputs.resize(outputs_.size());
    failed.output_masks.resize(outputs_.size());
    return failed;
  }
  BoundScope scope(variable_index_, layers_, values);
  Result result = Run(options, scope, {.key = options.key, .policy = policy_}, inputs);
  result.assigned = scope.TakeAssigned();
  // After an error there are equally many, invalid outputs.
  result.outputs.resize(outputs_.size());
  result.output_masks.resize(outputs_.size());
  for (size_t i = 0; i < variables_.size(); ++i) {
    const VariableSpec& spec = variables_[i];
    if (!spec.trainable || spec.regularizer.empty() || !values[i].valid()) continue;
    const Value penalty = Regularize(spec.regularizer, ir::Convert(values[i], DType::kF32));
    if (penalty.valid()) result.losses.push_back(penalty);
  }
  return result;
}

absl::StatusOr<absl::flat_hash_map<int, Array>> Network::GivenInitialValues() const {
  // Longer paths first: values of an outer layer replace those of the layers in it.
  std::vector<const internal::LayerEntry*> entries;
  for (const auto& [id, entry] : layers_) {
    if (entry.layer.initial_weights() != nullptr) entries.push_back(&entry);
  }
  std::sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) {
    const std::string &x = a->resolved.path, &y = b->resolved.path;
    return x.size() != y.size() ? x.size() > y.size() : x < y;
  });
  absl::flat_hash_map<int, Array> values;
  for (const internal::LayerEntry* entry : entries) {
    for (const auto& [name, array] : *entry->layer.initial_weights()) {
      const auto found =
          variable_index_.find(VariableName(absl::StrCat(entry->resolved.path, "/", name)));
      if (found == variable_index_.end()) {
        return absl::InvalidArgumentError(absl::StrCat("layer '", entry->resolved.path,
                                                       "' has initial weights for '", name,
                                                       "', but no variable of that name"));
      }
      const VariableSpec& spec = variables_[found->second];
      const bool same_kind = spec.type.dtype == array.dtype() ||
                             (base::IsFloat(spec.type.dtype) && base::IsFloat(array.dtype()));
      if (!same_kind || !(spec.type.shape == array.shape())) {
        return absl::InvalidArgumentError(
            absl::StrCat("variable ", spec.name, " is ", spec.type.ToString(),
                         "; its initial weights are ", array.TypeString()));
      }
      PENSTOCK_ASSIGN_OR_RETURN(values[found->second], array.Cast(spec.type.dtype));
    }
  }
  return values;
}

absl::StatusOr<base::NamedArrays> Network::Initialize(uint64_t seed) const {
  PENSTOCK_RETURN_IF_ERROR(status_);
  PENSTOCK_ASSIGN_OR_RETURN(const auto given, GivenInitialValues());
  base::NamedArrays out;
  for (size_t i = 0; i < variables_.size(); ++i) {
    const VariableSpec& spec = variables_[i];
    if (const auto value = given.find(static_cast<int>(i)); value != given.end()) {
      out.Set(spec.name, value->second);
      continue;
    }
    // Seeded by name, so that adding a layer does not change the initial values of the others.
    uint64_t name_seed = seed;
    for (char c : spec.name) name_seed = base::MixSeeds(name_seed, static_cast<uint8_t>(c));
    absl::StatusOr<Array> array = InitialValue(spec.initializer, spec.type, name_seed);
    if (!array.ok()) return base::WithContext(array.status(), absl::StrCat("variable ", spec.name));
    out.Set(spec.name, *std::move(array));
  }
  return out;
}

}  // namespace penstock::nn
