#include "penstock/session/run/program_lowering.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/ir/rewrite.h"
#include "penstock/session/body.h"
#include "penstock/session/infer.h"
#include "penstock/session/variable_table.h"

namespace penstock::session {
namespace {

// A body's frame. Everything from outside is a parameter of the body's graph.
class BodyFrame final : public Frame {
 public:
  BodyFrame(const Plan& plan, ir::Graph& graph, Frame& parent, const Body& body,
            LoweredBody& lowered)
      : Frame(plan, graph), parent_(parent), body_(body), lowered_(lowered) {}

  void SetIteration(ir::Value iteration) { iteration_ = iteration; }
  void AddArgument(const Tensor& tensor, ir::Value value) { arguments_[tensor] = value; }

  ir::Value RandomKey(const Node& node) override {
    const ir::Value key = Capture(parent_.RandomKey(node), nullptr);
    return iteration_.valid() ? ir::FoldIn(key, iteration_) : key;
  }
  absl::StatusOr<Array> Evaluate(const ir::Graph& graph) override {
    return parent_.Evaluate(graph);
  }

 protected:
  ir::Value Outer(const Tensor& tensor) override {
    const auto argument = arguments_.find(tensor);
    if (argument != arguments_.end()) return argument->second;
    if (tensor.node()->body == &body_) return ir::Value();
    return Capture(parent_.ValueOf(tensor), nullptr);
  }
  bool IsGiven(const Tensor& tensor) override { return arguments_.contains(tensor); }
  ir::Value StartForRead(const VariableDef& v) override {
    return Capture(parent_.ReadBefore(v), &v);
  }
  ir::Value StartForUpdate(const VariableDef& v) override { return Capture(parent_.Read(v), &v); }

  absl::StatusOr<Array> ConstantParameter(ir::Value parameter) override {
    for (const auto& [outer, inner] : parameters_) {
      if (inner == parameter) return parent_.ConstantValue(outer);
    }
    return absl::InvalidArgumentError("it depends on the variables of a loop");
  }

 private:
  ir::Value Capture(ir::Value outer, const VariableDef* variable) {
    if (!outer.valid()) {
      // The outer graph has the error; this one must stop, too.
      graph_.Fail(parent_.graph().status().ok() ? absl::InternalError("a captured value is invalid")
                                                : parent_.graph().status());
      return ir::Value();
    }
    for (size_t i = 0; i < lowered_.captured.size(); ++i) {
      const LoweredBody::Captured& known = lowered_.captured[i];
      if (known.outer == outer && known.variable == variable) return parameters_[i].second;
    }
    lowered_.captured.push_back({outer, variable});
    const ir::Value inner = graph_.Parameter(
        outer.type(), variable == nullptr ? std::string("captured") : variable->name);
    parameters_.push_back({outer, inner});
    return inner;
  }

  Frame& parent_;
  const Body& body_;
  LoweredBody& lowered_;
  ir::Value iteration_;
  absl::flat_hash_map<Tensor, ir::Value> arguments_;
  std::vector<std::pair<ir::Value, ir::Value>> parameters_;  // outer, inner; as lowered_.captured
};

bool IsParameter(const ir::Node& node) { return ir::OpName(node) == "parameter"; }

}  // namespace

// ---- Operations ----

void Frame::LowerAll(const std::vector<Node*>& nodes) {
  for (Node* node : nodes) {
    if (!graph_.status().ok()) return;
    if (!values_.contains(node)) LowerNode(*node);
  }
}

void Frame::MergeVersions(const Node& before, Versions& versions) const {
  const auto found = versions_.find(&before);
  if (found == versions_.end()) return;
  for (const auto& [variable, version] : found->second) {
    const auto same = std::find_if(versions.begin(), versions.end(),
                                   [v = variable](const auto& e) { return e.first == v; });
    if (same == versions.end()) {
      versions.push_back({variable, version});
    } else {
      same->second = std::max(same->second, version);
    }
  }
}

// Whether nothing is left to compute: the values come from the host, as arguments of a body, or are
// fed while a control dependency needs the operation. They become parameters when another operation
// uses them. As in TensorFlow, an operation with side effects runs even if its outputs are fed.
bool Frame::IsGivenWhole(const Node& node) {
  if (node.outputs.empty() || (node.stateful && node.lower != nullptr)) return false;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (!IsGiven(Tensor(const_cast<Node*>(&node), static_cast<int>(i)))) return false;
  }
  return true;
}

void Frame::LowerNode(const Node& node) {
  const ir::Scope scope(graph_, node.name, node.where);
  Versions versions;
  const bool given = IsGivenWhole(node);
  ir::Values inputs;
  for (const Tensor& input : node.inputs) {
    if (!given) inputs.push_back(ValueOf(input));
    if (!IsGiven(input)) MergeVersions(*input.node(), versions);
  }
  if (!graph_.status().ok()) return;
  for (const Node* before : node.control_inputs) MergeVersions(*before, versions);
  if (!versions.empty()) versions_[&node] = std::move(versions);

  const Node* const outer = std::exchange(node_, &node);
  ir::Values outputs;
  const int before = graph_.num_nodes();
  if (!given) outputs = Call(node, inputs);
  const auto* separate = node.graph->FindExtension<DifferentiatedNodes>();
  const auto* use = dynamic_cast<const VariableUse*>(node.extra.get());
  const bool is_read = use != nullptr && use->is_own_tensor;
  if (separate != nullptr && (!node.inputs.empty() || is_read) && separate->contains(&node)) {
    for (ir::Value& output : outputs) {
      const bool shared = is_read || output.node_id() < before;
      if (output.valid() && shared && base::IsFloat(output.dtype())) {
        output = ir::OptimizationBarrier({output})[0];
      }
    }
  }
  node_ = outer;
  values_[&node] = std::move(outputs);
}

ir::Values Frame::Call(const Node& node, const ir::Values& inputs) {
  if (node.lower == nullptr) {
    Fail(absl::InvalidArgumentError(
        "its value is fed or comes from the host; it must be outside of loops and branches"));
    return {};
  }
  ir::Values outputs;
  const absl::Status thrown = base::CatchExceptions([&] {
    outputs = node.lower(*this, inputs);
    return absl::OkStatus();
  });
  if (!thrown.ok()) Fail(thrown);
  if (graph_.status().ok()) CheckOutputs(node, outputs);
  return outputs;
}

void Frame::CheckOutputs(const Node& node, const ir::Values& outputs) {
  if (outputs.size() != node.outputs.size()) {
    return Fail(absl::InternalError(absl::StrCat("it has ", node.outputs.size(),
                                                 " outputs and was lowered to ", outputs.size(),
                                                 " values (a bug)")));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].valid()) {
      return Fail(absl::InternalError(absl::StrCat("output ", i, " has no value (a bug)")));
    }
    const Node::Output& output = node.outputs[i];
    const ir::TensorType& type = outputs[i].type();
    if (type.dtype == output.dtype && output.shape.IsCompatibleWith(type.shape)) continue;
    return Fail(absl::InvalidArgumentError(
        absl::StrCat("output ", i, " is ", TypeString(type.dtype, type.shape),
                     " in this Run, but its static type is ",
                     TypeString(output.dtype, output.shape), "; check SetShape and the feeds")));
  }
}

ir::Value Frame::ValueOf(const Tensor& tensor) {
  if (const ir::Value outer = Outer(tensor); outer.valid()) return outer;
  if (!graph_.status().ok()) return ir::Value();
  auto found = values_.find(tensor.node());
  if (found == values_.end()) {
    LowerNode(*tensor.node());
    found = values_.find(tensor.node());
  }
  const size_t index = static_cast<size_t>(tensor.index());
  if (found == values_.end() || index >= found->second.size()) return ir::Value();
  return found->second[index];
}

// ---- Variables ----

ir::Value Frame::Read(const VariableDef& variable) {
  const auto found = assigned_.find(&variable);
  return found == assigned_.end() ? StartForUpdate(variable) : found->second.back().value;
}

ir::Value Frame::ReadBefore(const VariableDef& variable) {
  const auto found = versions_.find(node_);
  if (found != versions_.end()) {
    for (const auto& [seen, version] : found->second) {
      if (seen != &variable) continue;
      // As in TensorFlow, gradients do not flow through assignments.
      ir::Value& value = assigned_.at(&variable)[static_cast<size_t>(version) - 1].for_reads;
      if (!value.valid()) {
        value = ir::StopGradient(assigned_.at(&variable)[static_cast<size_t>(version) - 1].value);
      }
      return value;
    }
  }
  return StartForRead(variable);
}

ir::Values Frame::ReadsOfAssigned(const VariableDef& variable) {
  ir::Values values;
  const auto found = assigned_.find(&variable);
  if (found == assigned_.end()) return values;
  for (const Version& version : found->second) {
    if (version.for_reads.valid()) values.push_back(version.for_reads);
  }
  return values;
}

void Frame::Assign(const VariableDef& variable, ir::Value value) {
  if (!value.valid()) return;
  const ir::TensorType type{variable.dtype, variable.shape};
  if (!(value.type() == type)) {
    return Fail(absl::InvalidArgumentError(
        absl::StrCat("the variable '", variable.name, "' is ", TypeString(type.dtype, type.shape),
                     ", the value ", TypeString(value.type().dtype, value.type().shape))));
  }
  std::vector<Version>& values = assigned_[&variable];
  if (values.empty()) assigned_order_.push_back(&variable);
  values.push_back({value, {}});
  Versions& versions = versions_[node_];
  std::erase_if(versions, [&](const auto& seen) { return seen.first == &variable; });
  versions.push_back({&variable, static_cast<int>(values.size())});
}

std::vector<std::pair<const VariableDef*, ir::Value>> Frame::Assigned() const {
  std::vector<std::pair<const VariableDef*, ir::Value>> all;
  for (const VariableDef* variable : assigned_order_) {
    all.push_back({variable, assigned_.at(variable).back().value});
  }
  return all;
}

// ---- Bodies ----

LoweredBody Frame::LowerBody(const Body& body, absl::Span<const ir::TensorType> arguments,
                             bool iterations) {
  LoweredBody lowered;
  lowered.graph = std::make_unique<ir::Graph>("body", graph_.num_replicas());
  const ir::Scope scope(*lowered.graph, graph_.current_origin());
  BodyFrame frame(plan_, *lowered.graph, *this, body, lowered);
  if (iterations) {
    frame.SetIteration(lowered.graph->Parameter({DType::kI32, {}}, "iteration"));
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    frame.AddArgument(body.arguments[i], lowered.graph->Parameter(arguments[i], "state"));
  }
  lowered.num_arguments = arguments.size() + (iterations ? 1 : 0);
  lowered.num_results = body.results.size();
  frame.LowerAll(NeededNodes(body));
  ir::Values results;
  for (const Tensor& result : body.results) {
    if (lowered.graph->status().ok()) results.push_back(frame.ValueOf(result));
  }
  for (const auto& [variable, value] : frame.Assigned()) {
    lowered.assigned.push_back(variable);
    results.push_back(value);
  }
  if (lowered.graph->status().ok()) lowered.graph->SetResults(results);
  if (!lowered.graph->status().ok()) {
    Fail(lowered.graph->status());
    lowered.graph = nullptr;
  }
  return lowered;
}

// ---- Constants ----

absl::StatusOr<Array> Frame::ConstantValue(ir::Value value) {
  if (ir::OpName(value.node()) == "stablehlo.constant") {
    return value.node().attributes.Get<Array>("value");
  }
  std::vector<bool> needed(value.node_id() + 1);
  needed[value.node_id()] = true;
  ir::Graph constant("constant");
  ir::Values given, replacements;
  for (int id = value.node_id(); id >= 0; --id) {
    if (!needed[id]) continue;
    const ir::Node& node = graph_.node(id);
    for (const ir::Value& operand : node.operands) needed[operand.node_id()] = true;
    if (!IsParameter(node)) continue;
    PENSTOCK_ASSIGN_OR_RETURN(const Array known, ConstantParameter(graph_.value(id)));
    given.push_back(graph_.value(id));
    replacements.push_back(ir::Constant(constant, known));
  }
  constant.SetResults(constant.Inline(graph_, given, replacements, {value}));
  PENSTOCK_RETURN_IF_ERROR(constant.status());
  return Evaluate(constant);
}

absl::StatusOr<Array> ProgramFrame::ConstantParameter(ir::Value) {
  return absl::InvalidArgumentError("it depends on fed values, variables or random numbers");
}

absl::StatusOr<Array> Frame::ConstantOf(const Node& node, int input, ir::Value value) {
  if (!value.valid()) return absl::InvalidArgumentError("the input has no value");
  const absl::StatusOr<Array> constant = ConstantValue(value);
  if (constant.ok() || !absl::IsInvalidArgument(constant.status())) return constant;
  return absl::InvalidArgumentError(
      absl::StrCat(node.type, " '", node.name, "' (", node.where.file, ":", node.where.line,
                   "): input ", input, ", '", node.inputs[static_cast<size_t>(input)].name(),
                   "', must be known when the program is compiled, but ",
                   constant.status().message(), "; compute it from constants and shapes"));
}

}  // namespace penstock::session
