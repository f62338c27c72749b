#include "penstock/session/variable.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/nn/regularizers.h"
#include "penstock/session/body.h"
#include "penstock/session/infer.h"
#include "penstock/session/lowering.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/tpu/shard_region.h"
#include "penstock/session/variable_table.h"

namespace penstock::session {
namespace {

VariableTable& TableOf(Graph* graph) { return graph->Extension<VariableTable>(); }

std::vector<Node::Output> OutputOf(const VariableDef& def) {
  return {Node::Output{def.dtype, def.shape}};
}

// An operation that uses the variable, in the name scope of the place.
Node* AddUse(const VariableDef& def, std::string type, std::string name, Tensors inputs,
             LowerFunction lower, SourceLocation where, bool is_own_tensor = false) {
  const bool assigns = !inputs.empty();
  return def.graph->AddNode({.type = std::move(type),
                             .name = std::move(name),
                             .outputs = OutputOf(def),
                             .stateful = assigns,
                             .extra = std::make_shared<VariableUse>(&def, is_own_tensor)},
                            std::move(inputs), std::move(lower), where);
}

ir::Values LowerRead(Lowering& lowering, const VariableDef& def) {
  return {lowering.ReadBefore(def)};
}

Tensor AddRead(const VariableDef& def, bool is_own_tensor, SourceLocation where) {
  const Graph::DefaultScope scope = def.graph->AsDefault();
  const NameScope absolute("");
  Node* const node = AddUse(
      def, "ReadVariableOp", absl::StrCat(def.name, "/read"), {},
      [&def](Lowering& l, const ir::Values&) { return LowerRead(l, def); }, where, is_own_tensor);
  return node == nullptr ? Tensor() : Tensor(node, 0);
}

absl::Status CheckInitialValue(const Tensor& value) {
  if (!value.valid()) {
    return absl::InvalidArgumentError("its initial value is invalid; see the graph's first error");
  }
  if (!value.shape().IsFullyDefined()) {
    return absl::InvalidArgumentError(
        absl::StrCat("its initial value is ", TypeString(value),
                     "; a variable needs a shape that is known when the graph is built"));
  }
  if (value.node()->body != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("its initial value, '", value.name(), "', is in the body of '",
                     value.node()->body->name, "'; make variables outside of loops and branches"));
  }
  return absl::OkStatus();
}

std::vector<std::string> CollectionsOf(const VariableOptions& options) {
  std::vector<std::string> names = options.collections;
  if (names.empty()) names.push_back(graph_keys::kGlobalVariables);
  const bool listed =
      std::find(names.begin(), names.end(), graph_keys::kTrainableVariables) != names.end();
  if (options.trainable && !listed) names.push_back(graph_keys::kTrainableVariables);
  return names;
}

// Makes a variable of this type whose operations have the name `name` (absolute) and names within
// it. `initial_value` is called with the variable's name.
const VariableDef* MakeVariable(Graph* graph, const std::string& name, const Node::Output& type,
                                const std::function<Tensor(const std::string&)>& initial_value,
                                const VariableOptions& options, SourceLocation where) {
  const Graph::DefaultScope scope = graph->AsDefault();
  const BodyScope top_level(graph, nullptr);
  const ShardsScope outside(graph, 1);
  const NameScope absolute("");
  VariableTable& table = TableOf(graph);
  auto owned = std::make_unique<VariableDef>();
  VariableDef& def = *owned;
  def.graph = graph;
  def.index = static_cast<int>(table.all.size());
  def.dtype = type.dtype;
  def.shape = type.shape.shape();
  def.trainable = options.trainable;
  def.constraint = options.constraint;
  def.where = where;
  def.handle = AddUse(
      def, "VariableV2", name, {},
      [&def](Lowering& l, const ir::Values&) { return LowerRead(l, def); }, where);
  if (def.handle == nullptr) return nullptr;
  def.name = def.handle->name;
  def.initial_value = initial_value(def.name);
  if (!def.initial_value.valid()) return nullptr;
  if (const absl::Status lifted = LiftOutOfShard(def.initial_value); !lifted.ok()) {
    graph->Fail(lifted, absl::StrCat("Variable '", def.name, "'"), where);
    return nullptr;
  }
  def.initializer = Operation(AddUse(
      def, "Assign", absl::StrCat(def.name, "/Assign"), {def.initial_value},
      [&def](Lowering& l, const ir::Values& in) {
        l.Assign(def, in[0]);
        return in;
      },
      where));
  table.by_name[def.name] = &def;
  for (const std::string& collection : CollectionsOf(options)) {
    graph->AddToCollection(collection, Tensor(def.handle, 0));
  }
  table.all.push_back(std::move(owned));
  return &def;
}

std::string InScope(const Graph& graph, absl::string_view name) {
  const std::string& scope = graph.name_scope();
  return scope.empty() ? std::string(name) : absl::StrCat(scope, "/", name);
}

// The value that a variable gets, of its value now and those of the operation's inputs.
using Combine = ir::Value (*)(ir::Value now, const ir::Values& in);

// `combine`: null if the variable gets the value of the one input.
Tensor Update(const Variable& variable, const Tensors& values, const char* type,
              absl::string_view name, SourceLocation where, Combine combine) {
  if (!variable.valid()) return FailOp(values, type, "the variable is invalid", where);
  const VariableDef& def = *variable.def();
  const std::string full = name.empty() ? absl::StrCat(def.name, "/", type) : std::string(name);
  const Tensor handle(def.handle, 0);
  const std::string what = absl::StrCat(type, " '", full, "'");
  for (const Tensor& value : values) {
    if (!value.valid()) return FailOp({handle}, what, "the value is an invalid tensor", where);
    if (value.dtype() == def.dtype && value.shape().IsCompatibleWith(def.shape)) continue;
    return FailOp(
        {handle}, what,
        absl::StrCat("the variable is ", TypeString(handle), ", the value ", TypeString(value)),
        where);
  }
  const auto lower = [&def, combine](Lowering& l, const ir::Values& in) -> ir::Values {
    const ir::Value after = combine == nullptr ? in[0] : combine(l.Read(def), in);
    if (!after.valid()) return {};
    if (!(after.shape() == def.shape)) {
      l.Fail(absl::InvalidArgumentError(absl::StrCat("the variable '", def.name, "' has the shape ",
                                                     def.shape.ToString(), ", the value ",
                                                     after.shape().ToString())));
      return {};
    }
    l.Assign(def, after);
    return {after};
  };
  // As a conversion of the variable does, an unnamed operation is named after it.
  const Graph::DefaultScope scope = def.graph->AsDefault();
  std::optional<NameScope> absolute;
  if (name.empty()) absolute.emplace("");
  Node* const node = AddUse(def, type, full, values, lower, where);
  return node == nullptr ? Tensor() : Tensor(node, 0);
}

}  // namespace

// ---- Variable ----

Variable::Variable(const Tensor& initial_value, absl::string_view name,
                   const VariableOptions& options, SourceLocation where) {
  const std::string what = absl::StrCat("Variable '", name, "'");
  if (const absl::Status s = CheckInitialValue(initial_value); !s.ok()) {
    FailOp({initial_value}, what, s.message(), where);
    return;
  }
  if (options.dtype != DType::kInvalid && options.dtype != initial_value.dtype()) {
    FailOp({initial_value}, what,
           absl::StrCat("its initial value is ", TypeString(initial_value), ", not ",
                        base::DTypeName(options.dtype), "; convert it with Cast"),
           where);
    return;
  }
  def_ = MakeVariable(
      initial_value.graph(), InScope(*initial_value.graph(), name),
      {initial_value.dtype(), initial_value.shape()},
      [&](const std::string&) { return initial_value; }, options, where);
}

Variable::Variable(const Array& initial_value, absl::string_view name,
                   const VariableOptions& options, SourceLocation where) {
  Graph* const graph = Graph::Default();
  if (graph == nullptr) return;
  if (!base::IsNumeric(initial_value.dtype())) {
    FailOp({}, absl::StrCat("Variable '", name, "'"),
           absl::StrCat("its initial value is ",
                        initial_value.valid() ? initial_value.TypeString() : "an invalid array",
                        "; variables are numbers"),
           where);
    return;
  }
  Array value = initial_value;
  if (options.dtype != DType::kInvalid) {
    absl::StatusOr<Array> cast = initial_value.Cast(options.dtype);
    if (!cast.ok()) {
      FailOp({}, absl::StrCat("Variable '", name, "'"), cast.status().message(), where);
      return;
    }
    value = *std::move(cast);
  }
  def_ = MakeVariable(
      graph, InScope(*graph, name), {value.dtype(), value.shape()},
      [&](const std::string& unique) {
        return InitialArray(value, absl::StrCat(unique, "/initial_value"), where);
      },
      options, where);
}

std::string Variable::name() const { return valid() ? absl::StrCat(def_->name, ":0") : ""; }
DType Variable::dtype() const { return valid() ? def_->dtype : DType::kInvalid; }
PartialShape Variable::shape() const { return valid() ? def_->shape : PartialShape(); }
Operation Variable::initializer() const { return valid() ? def_->initializer : Operation(); }
Tensor Variable::initial_value() const { return valid() ? def_->initial_value : Tensor(); }

Tensor Variable::Value(SourceLocation where) const {
  if (!valid()) return Tensor();
  // Without dependencies a read is the value at the start of the Run: one operation for all.
  if (!def_->graph->has_control_dependencies() && def_->graph->body() == nullptr) {
    return Tensor(def_->handle, 0);
  }
  return AddRead(*def_, /*is_own_tensor=*/false, where);
}

Tensor Variable::ReadValue(SourceLocation where) const {
  return valid() ? AddRead(*def_, /*is_own_tensor=*/true, where) : Tensor();
}

Tensor Assign(const Variable& variable, const Tensor& value, absl::string_view name,
              SourceLocation where) {
  return Update(variable, {value}, "Assign", name, where, nullptr);
}

Tensor AssignAdd(const Variable& variable, const Tensor& delta, absl::string_view name,
                 SourceLocation where) {
  return Update(variable, {delta}, "AssignAdd", name, where,
                [](ir::Value now, const ir::Values& in) { return now + in[0]; });
}

Tensor AssignSub(const Variable& variable, const Tensor& delta, absl::string_view name,
                 SourceLocation where) {
  return Update(variable, {delta}, "AssignSub", name, where,
                [](ir::Value now, const ir::Values& in) { return now - in[0]; });
}

Tensor AssignMoved(const Variable& variable, const Tensor& before, const Tensor& after,
                   absl::string_view name, SourceLocation where) {
  return Update(variable, {before, after}, "AssignMoved", name, where,
                [](ir::Value now, const ir::Values& in) {
                  return now == in[0] ? in[1] : now + (in[1] - in[0]);
                });
}

Variables GetCollectionVariables(absl::string_view collection, absl::string_view scope) {
  Variables variables;
  const Graph* const graph = Graph::Default();
  if (graph == nullptr) return variables;
  absl::flat_hash_set<const VariableDef*> seen;
  for (const Tensor& tensor : graph->GetCollection(collection, scope)) {
    const auto* use = dynamic_cast<const VariableUse*>(tensor.node()->extra.get());
    const bool is_read = use != nullptr && tensor.node()->inputs.empty();
    if (is_read && seen.insert(use->variable).second) variables.push_back(Variable(use->variable));
  }
  return variables;
}

Variables GlobalVariables(absl::string_view scope) {
  return GetCollectionVariables(graph_keys::kGlobalVariables, scope);
}

Variables LocalVariables(absl::string_view scope) {
  return GetCollectionVariables(graph_keys::kLocalVariables, scope);
}

Variables TrainableVariables(absl::string_view scope) {
  return GetCollectionVariables(graph_keys::kTrainableVariables, scope);
}

Operation GlobalVariablesInitializer() { return VariablesInitializer(GlobalVariables(), "init"); }
Operation LocalVariablesInitializer() { return VariablesInitializer(LocalVariables(), "init"); }

Operation VariablesInitializer(const Variables& variables, absl::string_view name) {
  Operations initializers;
  for (const Variable& variable : variables) initializers.push_back(variable.initializer());
  return Group(initializers, name);
}

std::string InitializersOf(const std::vector<const VariableDef*>& variables) {
  std::vector<std::string> operations;
  size_t found = 0;
  for (const auto& [collection, operation] :
       {std::pair(graph_keys::kGlobalVariables, "GlobalVariablesInitializer()"),
        std::pair(graph_keys::kLocalVariables, "LocalVariablesInitializer()")}) {
    const Tensors members =
        variables.empty() ? Tensors() : variables[0]->graph->GetCollection(collection);
    const absl::flat_hash_set<Tensor> all(members.begin(), members.end());
    const size_t before = found;
    for (const VariableDef* variable : variables)
      found += all.contains(Tensor(variable->handle, 0));
    if (found > before) operations.emplace_back(operation);
  }
  // Of other collections.
  if (found < variables.size()) operations.emplace_back("VariablesInitializer() of them");
  return absl::StrJoin(operations, " and ");
}

// ---- Variable scopes ----

struct VariableScope::State {
  Graph* graph = nullptr;
  size_t depth = 0;                     // its place among the open scopes
  std::optional<NameScope> names = {};  // none: the scope around it, entered again
  absl::flat_hash_map<std::string, int> outer_counts = {};  // of that scope, when it was entered
};

std::string VariableTable::ScopePrefix() const {
  return scopes.empty() || scopes.back().name.empty() ? "" : absl::StrCat(scopes.back().name, "/");
}

void VariableTable::ForgetCountsWithin() {
  absl::erase_if(scope_counts, [inside = ScopePrefix()](const auto& entry) {
    return absl::StartsWith(entry.first, inside);
  });
}

VariableScope::VariableScope(absl::string_view name, Reuse reuse, Initializer initializer) {
  Graph* const graph = Graph::Default();
  if (graph == nullptr) return;
  Enter(graph, std::string(name), reuse, std::move(initializer));
}

VariableScope::VariableScope(std::nullopt_t, absl::string_view default_name, Reuse reuse,
                             Initializer initializer) {
  Graph* const graph = Graph::Default();
  if (graph == nullptr) return;
  const VariableTable& table = TableOf(graph);
  const std::string outer = table.ScopePrefix();
  std::string name(default_name);
  for (int i = 1; table.scope_counts.contains(absl::StrCat(outer, name)); ++i) {
    name = absl::StrCat(default_name, "_", i);
  }
  Enter(graph, name, reuse, std::move(initializer));
}

void VariableScope::Enter(Graph* graph, const std::string& name, Reuse reuse,
                          Initializer initializer) {
  state_ = std::make_unique<State>();
  state_->graph = graph;
  VariableTable& table = TableOf(graph);
  state_->depth = table.scopes.size();
  if (name.empty()) {
    state_->outer_counts = table.scope_counts;
  } else {
    state_->names.emplace(name);
  }
  VariableTable::Scope scope{absl::StrCat(table.ScopePrefix(), name), reuse,
                             std::move(initializer)};
  if (!table.scopes.empty()) {
    const VariableTable::Scope& outer = table.scopes.back();
    if (name.empty()) scope.name = outer.name;
    // As in TensorFlow, reuse is inherited and cannot be switched off within.
    if (scope.reuse == Reuse::kNone) scope.reuse = outer.reuse;
    if (scope.initializer == nullptr) scope.initializer = outer.initializer;
  }
  if (!name.empty()) ++table.scope_counts[scope.name];
  table.scopes.push_back(std::move(scope));
}

VariableScope::~VariableScope() {
  if (state_ == nullptr) return;
  VariableTable& table = TableOf(state_->graph);
  if (state_->names.has_value()) {
    table.ForgetCountsWithin();
  } else {
    table.scope_counts = std::move(state_->outer_counts);
  }
  table.scopes.pop_back();
}

void VariableScope::ReuseVariables() {
  if (state_ != nullptr) TableOf(state_->graph).scopes[state_->depth].reuse = Reuse::kReuse;
}

namespace {

// The existing variable, if it has this shape and type.
Variable Reused(const VariableDef& def, const Shape& shape, DType dtype, SourceLocation where) {
  if (def.shape == shape && def.dtype == dtype) return Variable(&def);
  FailOp({Tensor(def.handle, 0)}, absl::StrCat("GetVariable '", def.name, "'"),
         absl::StrCat("it exists as ", TypeString(def.dtype, def.shape), " (", def.where.file, ":",
                      def.where.line, "), not ", TypeString(dtype, shape)),
         where);
  return Variable();
}

void AddRegularizationLoss(const Variable& variable, const std::string& regularizer,
                           SourceLocation where) {
  Graph* const graph = variable.def()->graph;
  const BodyScope top_level(graph, nullptr);
  const NameScope absolute("");
  const Tensor loss = AddOp("Regularizer", {variable.Value(where)},
                            absl::StrCat(variable.def()->name, "/Regularizer"), where,
                            [regularizer](const ir::Values& in) {
                              const ir::Value w = ir::Convert(in[0], DType::kF32);
                              return ::penstock::nn::Regularize(regularizer, w);
                            });
  graph->AddToCollection(graph_keys::kRegularizationLosses, loss);
}

// The variable that GetVariable of this name reuses; null: it makes one. An error if the scope does
// not allow what it would do.
absl::StatusOr<const VariableDef*> FindShared(const VariableTable& table, const std::string& name) {
  const Reuse reuse = table.scopes.empty() ? Reuse::kNone : table.scopes.back().reuse;
  const auto found = table.shared.find(name);
  if (found != table.shared.end() && reuse == Reuse::kNone) {
    const SourceLocation first = found->second->where;
    return absl::InvalidArgumentError(
        absl::StrCat("it exists already (", first.file, ":", first.line,
                     "); to share it, use a VariableScope with Reuse::kReuse or Reuse::kAuto"));
  }
  if (found == table.shared.end() && reuse == Reuse::kReuse) {
    return absl::InvalidArgumentError(
        "it does not exist, and the scope reuses variables only; make it with GetVariable "
        "outside of that scope first, or use Reuse::kAuto");
  }
  return found == table.shared.end() ? nullptr : found->second;
}

absl::StatusOr<Tensor> InitialValueOf(const std::string& name, const Shape& shape, DType dtype,
                                      Initializer initializer) {
  if (std::any_of(shape.begin(), shape.end(), [](int64_t extent) { return extent < 0; })) {
    return absl::InvalidArgumentError(
        absl::StrCat("its shape is ", shape.ToString(),
                     "; a variable needs a shape that is known when the graph is built"));
  }
  if (initializer == nullptr) {
    initializer = base::IsFloat(dtype) ? GlorotUniformInitializer() : ZerosInitializer();
  }
  const BodyScope top_level(Graph::Default(), nullptr);
  const NameScope within(absl::StrCat(name, "/Initializer/"));
  PENSTOCK_ASSIGN_OR_RETURN(
      const Tensor value,
      base::CatchExceptions([&]() -> absl::StatusOr<Tensor> { return initializer(shape, dtype); }));
  PENSTOCK_RETURN_IF_ERROR(CheckInitialValue(value));
  if (value.shape() == PartialShape(shape) && value.dtype() == dtype) return value;
  return absl::InvalidArgumentError(absl::StrCat("its initializer returns ", TypeString(value),
                                                 ", not ", TypeString(dtype, shape)));
}

}  // namespace

Variable GetVariable(absl::string_view name, const Shape& shape, DType dtype,
                     Initializer initializer, const GetVariableOptions& options,
                     SourceLocation where) {
  Graph* const graph = Graph::Default();
  if (graph == nullptr) return Variable();
  VariableTable& table = TableOf(graph);
  const std::string full = absl::StrCat(table.ScopePrefix(), name);
  const auto fail = [&](const absl::Status& error) {
    FailOp({}, absl::StrCat("GetVariable '", full, "'"), error.message(), where);
    return Variable();
  };
  if (name.empty()) return fail(absl::InvalidArgumentError("a variable needs a name"));
  const absl::StatusOr<const VariableDef*> existing = FindShared(table, full);
  if (!existing.ok()) return fail(existing.status());
  if (*existing != nullptr) return Reused(**existing, shape, dtype, where);
  if (initializer == nullptr && !table.scopes.empty())
    initializer = table.scopes.back().initializer;
  table.initializer_where = where;
  const absl::StatusOr<Tensor> initial_value =
      InitialValueOf(full, shape, dtype, std::move(initializer));
  if (!initial_value.ok()) return fail(initial_value.status());
  const VariableDef* const def = MakeVariable(
      graph, full, {dtype, shape}, [&](const std::string&) { return *initial_value; },
      {.trainable = options.trainable,
       .collections = options.collections,
       .constraint = options.constraint},
      where);
  if (def == nullptr) return Variable();
  table.all[def->index]->regularizer = options.regularizer;
  table.shared[full] = def;
  if (!options.regularizer.empty()) {
    AddRegularizationLoss(Variable(def), options.regularizer, where);
  }
  return Variable(def);
}

// ---- Global step ----

Variable GetGlobalStep() {
  const Variables steps = GetCollectionVariables(graph_keys::kGlobalStep);
  if (!steps.empty()) return steps[0];
  // As in TensorFlow, a variable of that name is the global step without being in the collection.
  Graph* const graph = Graph::Default();
  const auto* const table = graph == nullptr ? nullptr : graph->FindExtension<VariableTable>();
  if (table == nullptr) return Variable();
  const auto named = table->by_name.find("global_step");
  if (named == table->by_name.end()) return Variable();
  const VariableDef& step = *named->second;
  if (base::IsInteger(step.dtype) && step.shape.rank() == 0) return Variable(&step);
  graph->Fail(absl::InvalidArgumentError(absl::StrCat(
                  "the variable 'global_step' is ", base::DTypeName(step.dtype),
                  step.shape.ToString(), ", but a global step is an integer without axes")),
              "GetGlobalStep", step.where);
  return Variable();
}

Variable GetOrCreateGlobalStep() {
  if (const Variable step = GetGlobalStep(); step.valid()) return step;
  Graph* const graph = Graph::Default();
  if (graph == nullptr) return Variable();
  const BodyScope top_level(graph, nullptr);
  const NameScope absolute("");
  const Tensor zero = Constant(Array::Scalar<int64_t>(0), "global_step/Initializer/zeros");
  return Variable(
      zero, "global_step",
      {.trainable = false, .collections = {graph_keys::kGlobalVariables, graph_keys::kGlobalStep}});
}

}  // namespace penstock::session
