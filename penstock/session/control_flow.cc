#include "penstock/session/control_flow.h"

#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/session/body.h"
#include "penstock/session/infer.h"
#include "penstock/session/run/loop_lowering.h"

namespace penstock::session {
namespace {

absl::Status CheckBodyResults(const Graph& graph, const Body& body) {
  for (size_t i = 0; i < body.results.size(); ++i) {
    const Tensor& result = body.results[i];
    if (!result.valid() || result.graph() != &graph || !IsWithin(&body, result.node()->body)) {
      return absl::InvalidArgumentError(
          absl::StrCat("result ", i, " of a function is ",
                       result.valid() ? "of another body or graph" : "an invalid tensor"));
    }
  }
  for (const Operation& effect : body.effects) {
    if (!effect.valid() || !IsWithin(&body, effect.node()->body)) {
      return absl::InvalidArgumentError("a function returns an invalid operation");
    }
  }
  return absl::OkStatus();
}

}  // namespace

const Body* BuildBody(Graph* graph, const std::string& name,
                      const std::vector<Node::Output>& arguments, SourceLocation where,
                      const std::function<BranchResult(const Tensors&)>& function) {
  Body* const body =
      graph->Extension<GraphBodies>().all.emplace_back(std::make_unique<Body>()).get();
  body->outer = graph->body();
  body->name = name;
  const BodyScope scope(graph, body);
  for (const Node::Output& argument : arguments) {
    Node* const node = graph->AddNode(
        {.type = "LoopVariable", .name = "Identity", .outputs = std::vector{argument}}, {}, nullptr,
        where);
    if (node == nullptr) return nullptr;
    body->arguments.push_back(Tensor(node, 0));
  }
  absl::Status status = base::CatchExceptions([&] {
    BranchResult result = function(body->arguments);
    body->results = std::move(result.tensors);
    body->effects = std::move(result.operations);
    return graph->status();
  });
  if (status.ok()) status = CheckBodyResults(*graph, *body);
  if (status.ok()) return body;
  graph->Fail(status, name, where);
  return nullptr;
}

Operation AddOwner(Graph* graph, NodeOptions options, Tensors inputs,
                   std::shared_ptr<BodyOwner> owner, LowerFunction lower, SourceLocation where) {
  for (const Body* body : owner->bodies) {
    const Captures captures = CapturesOf(*body);
    inputs.insert(inputs.end(), captures.tensors.begin(), captures.tensors.end());
    options.control_inputs.insert(options.control_inputs.end(), captures.control_inputs.begin(),
                                  captures.control_inputs.end());
  }
  options.stateful = true;
  options.extra = std::move(owner);
  return Operation(graph->AddNode(std::move(options), std::move(inputs), std::move(lower), where));
}

namespace {

// The shape that both have, with unknown extents where they differ.
PartialShape CommonShape(const PartialShape& a, const PartialShape& b) {
  if (!a.has_rank() || !b.has_rank() || a.rank() != b.rank()) return {};
  Shape shape = a.shape();
  for (int i = 0; i < shape.rank(); ++i) {
    if (b.dim(i) != shape.dim(i)) shape.set_dim(i, -1);
  }
  return shape;
}

bool IsBoolScalar(const Tensor& pred) {
  return pred.valid() && pred.dtype() == DType::kBool && pred.shape().IsCompatibleWith(Shape());
}

// Outputs of a Cond with these branches; an error if they do not return the same types.
absl::StatusOr<std::vector<Node::Output>> BranchOutputs(const Body& yes, const Body& no) {
  if (yes.results.size() != no.results.size()) {
    return absl::InvalidArgumentError(absl::StrCat("true_fn returns ", yes.results.size(),
                                                   " tensors, false_fn ", no.results.size(),
                                                   "; both return the same"));
  }
  std::vector<Node::Output> outputs;
  for (size_t i = 0; i < yes.results.size(); ++i) {
    const Tensor &a = yes.results[i], &b = no.results[i];
    if (a.dtype() != b.dtype() || !a.shape().IsCompatibleWith(b.shape())) {
      return absl::InvalidArgumentError(absl::StrCat("result ", i, " of true_fn is ", TypeString(a),
                                                     ", of false_fn ", TypeString(b),
                                                     "; both return the same types"));
    }
    outputs.push_back({a.dtype(), CommonShape(a.shape(), b.shape())});
  }
  return outputs;
}

}  // namespace

// ---- Cond ----

Operation AddCond(const Tensor& pred, const Branch& true_fn, const Branch& false_fn,
                  absl::string_view name, SourceLocation where) {
  const std::string given(name.empty() ? "cond" : name);
  if (true_fn == nullptr || false_fn == nullptr) {
    FailOp({pred}, absl::StrCat("Cond '", given, "'"),
           absl::StrCat("it needs a function as its ", true_fn == nullptr ? "true_fn" : "false_fn"),
           where);
    return Operation();
  }
  if (!IsBoolScalar(pred)) {
    FailOp({pred}, absl::StrCat("Cond '", given, "'"),
           absl::StrCat("the predicate must be a bool scalar, got ",
                        pred.valid() ? TypeString(pred) : std::string("an invalid tensor")),
           where);
    return Operation();
  }
  Graph* const graph = pred.graph();
  const Graph::DefaultScope default_graph = graph->AsDefault();
  const NameScope scope(given);
  auto owner = std::make_shared<BodyOwner>();
  for (const Branch* branch : {&true_fn, &false_fn}) {
    const Body* const body =
        BuildBody(graph, scope.name(), {}, where, [&](const Tensors&) { return (*branch)(); });
    if (body == nullptr) return Operation();
    owner->bodies.push_back(body);
  }
  const Body &yes = *owner->bodies[0], &no = *owner->bodies[1];
  absl::StatusOr<std::vector<Node::Output>> outputs = BranchOutputs(yes, no);
  if (!outputs.ok()) {
    graph->Fail(outputs.status(), absl::StrCat("Cond '", scope.name(), "'"), where);
    return Operation();
  }
  return AddOwner(
      graph, {.type = "Cond", .name = "Merge", .outputs = *std::move(outputs)}, {pred}, owner,
      [&yes, &no](Lowering& lowering, const ir::Values& in) {
        return LowerCond(lowering, in[0], yes, no);
      },
      where);
}

Tensors Case(const std::vector<CaseBranch>& branches, const std::function<Tensors()>& otherwise,
             absl::string_view name, SourceLocation where) {
  bool is_complete = otherwise != nullptr;
  Tensors preds;
  for (const CaseBranch& branch : branches) {
    is_complete = is_complete && branch.function != nullptr;
    preds.push_back(branch.pred);
  }
  if (!is_complete) {
    FailOp(preds, absl::StrCat("Case '", name, "'"),
           "each branch, and what is done otherwise, needs a function", where);
    return {};
  }
  std::function<Tensors()> rest = otherwise;
  for (auto at = branches.rbegin(); at != branches.rend(); ++at) {
    rest = [branch = *at, otherwise = rest, name = std::string(name), where] {
      return Cond(branch.pred, branch.function, otherwise, name, where);
    };
  }
  return rest();
}

Tensors SwitchCase(const Tensor& index, const std::vector<std::function<Tensors()>>& branches,
                   absl::string_view name, SourceLocation where) {
  if (branches.empty() || !index.valid()) {
    FailOp({index}, "SwitchCase", "it needs an index and at least one branch", where);
    return {};
  }
  if (!base::IsInteger(index.dtype()) || !index.shape().IsCompatibleWith(Shape())) {
    FailOp({index}, "SwitchCase",
           absl::StrCat("the index must be an integer scalar, got ", TypeString(index)), where);
    return {};
  }
  std::vector<CaseBranch> cases;
  for (size_t i = 0; i + 1 < branches.size(); ++i) {
    const Tensor is_it = AddOp("Equal", {index}, "", where, [i](const ir::Values& in) {
      return ir::Equal(in[0], ir::SplatLike(in[0], static_cast<double>(i)));
    });
    cases.push_back({is_it, branches[i]});
  }
  return Case(cases, branches.back(), name, where);
}

// ---- WhileLoop ----

namespace {

// Types of the loop variables in the body.
absl::StatusOr<std::vector<Node::Output>> LoopTypes(const Tensors& loop_vars,
                                                    const WhileLoopOptions& options) {
  if (loop_vars.empty()) return absl::InvalidArgumentError("a loop needs at least one variable");
  const size_t given = options.shape_invariants.size();
  if (given != 0 && given != loop_vars.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(loop_vars.size(), " loop variables have ", given, " shape_invariants"));
  }
  std::vector<Node::Output> types;
  for (size_t i = 0; i < loop_vars.size(); ++i) {
    const Tensor& variable = loop_vars[i];
    if (!variable.valid()) {
      return absl::InvalidArgumentError(absl::StrCat("loop variable ", i, " is an invalid tensor"));
    }
    types.push_back(
        {variable.dtype(), given == 0 ? variable.shape() : options.shape_invariants[i]});
    if (!types.back().shape.IsCompatibleWith(variable.shape())) {
      return absl::InvalidArgumentError(absl::StrCat("loop variable ", i, " is ",
                                                     TypeString(variable), ", its invariant ",
                                                     types.back().shape.ToString()));
    }
  }
  return types;
}

absl::Status CheckLoopResults(const std::vector<Node::Output>& types, const Body& condition,
                              const Body& body) {
  if (condition.results.size() != 1 || !IsBoolScalar(condition.results[0])) {
    return absl::InvalidArgumentError("the condition must return a bool scalar");
  }
  if (body.results.size() != types.size()) {
    return absl::InvalidArgumentError(absl::StrCat("there are ", types.size(),
                                                   " loop variables, and the body returns ",
                                                   body.results.size(), " tensors"));
  }
  for (size_t i = 0; i < types.size(); ++i) {
    const Tensor& result = body.results[i];
    if (result.dtype() == types[i].dtype && result.shape().IsCompatibleWith(types[i].shape)) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat("loop variable ", i, " is ",
                                                   TypeString(types[i].dtype, types[i].shape),
                                                   ", and the body returns ", TypeString(result),
                                                   "; types and shapes stay the same in a loop"));
  }
  return absl::OkStatus();
}

}  // namespace

Tensors WhileLoop(const std::function<Tensor(const Tensors&)>& cond,
                  const std::function<Tensors(const Tensors&)>& body, const Tensors& loop_vars,
                  const WhileLoopOptions& options, SourceLocation where) {
  const std::string what = absl::StrCat("WhileLoop '", options.name, "'");
  if (cond == nullptr || body == nullptr) {
    FailOp(loop_vars, what,
           absl::StrCat("it needs a function as its ", cond == nullptr ? "cond" : "body"), where);
    return {};
  }
  const absl::StatusOr<std::vector<Node::Output>> types = LoopTypes(loop_vars, options);
  if (!types.ok()) {
    FailOp(loop_vars, what, types.status().message(), where);
    return {};
  }
  Graph* const graph = loop_vars[0].graph();
  const Graph::DefaultScope default_graph = graph->AsDefault();
  const NameScope scope(options.name);
  auto owner = std::make_shared<BodyOwner>();
  owner->is_unlimited_loop = options.maximum_iterations < 0;
  for (const auto& function : {std::function<BranchResult(const Tensors&)>(cond),
                               std::function<BranchResult(const Tensors&)>(body)}) {
    const Body* const built = BuildBody(graph, scope.name(), *types, where, function);
    if (built == nullptr) return {};
    owner->bodies.push_back(built);
  }
  const Body &condition = *owner->bodies[0], &repeated = *owner->bodies[1];
  if (const absl::Status s = CheckLoopResults(*types, condition, repeated); !s.ok()) {
    graph->Fail(s, what, where);
    return {};
  }
  const LoopBodies loop{&condition, &repeated, options.maximum_iterations};
  return AddOwner(
             graph, {.type = "WhileLoop", .name = "Exit", .outputs = *types}, loop_vars, owner,
             [loop, n = loop_vars.size()](Lowering& lowering, const ir::Values& in) {
               return LowerWhile(lowering, ir::Values(in.begin(), in.begin() + n), loop);
             },
             where)
      .outputs();
}

}  // namespace penstock::session
