#include "penstock/session/program_graph.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/ir/stablehlo.h"
#include "penstock/runtime/client.h"
#include "penstock/session/run/plan.h"
#include "penstock/session/run/program_lowering.h"

namespace penstock::session {
namespace {

// Parameters in a given order: first the variables, then the inputs.
class OrderedInputs final : public ProgramInputs {
 public:
  OrderedInputs(const std::vector<const VariableDef*>& variables,
                const std::vector<ProgramInput>& inputs, ir::Graph& graph)
      : graph_(graph) {
    for (const VariableDef* variable : variables) Start(*variable);
    for (const ProgramInput& input : inputs) {
      fed_.emplace(input.tensor, graph.Parameter({input.tensor.dtype(), input.shape}, input.name));
    }
  }

  ir::Value Fed(const Tensor& tensor) override {
    const auto found = fed_.find(tensor);
    return found == fed_.end() ? ir::Value() : found->second;
  }
  bool IsFed(const Tensor& tensor) override { return fed_.contains(tensor); }
  ir::Value Start(const VariableDef& variable) override {
    ir::Value& value = starts_[&variable];
    if (!value.valid()) {
      value = graph_.Parameter({variable.dtype, variable.shape}, variable.name);
      read_.push_back(&variable);
    }
    return value;
  }
  ir::Value RandomKey(const Node&) override {
    graph_.Fail(absl::FailedPreconditionError("it draws random numbers"));
    return ir::Value();
  }
  // For values that must be known when a program is compiled: shapes.
  absl::StatusOr<Array> Evaluate(const ir::Graph& graph) override {
    PENSTOCK_ASSIGN_OR_RETURN(const ir::Program program, ir::PrintStableHlo(graph));
    PENSTOCK_ASSIGN_OR_RETURN(const auto client, runtime::OpenClient({.device = "cpu"}));
    PENSTOCK_ASSIGN_OR_RETURN(const auto executable, client->Compile(program));
    PENSTOCK_ASSIGN_OR_RETURN(const auto results, executable->Execute({{}}));
    return results[0][0].Get();
  }

  const std::vector<const VariableDef*>& read() const { return read_; }

 private:
  ir::Graph& graph_;
  absl::flat_hash_map<Tensor, ir::Value> fed_;
  absl::flat_hash_map<const VariableDef*, ir::Value> starts_;
  std::vector<const VariableDef*> read_;
};

absl::Status CheckIsFunction(const Plan& plan) {
  if (!plan.random.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("'", plan.random[0]->name,
                     "' draws random numbers, which a function of its inputs cannot"));
  }
  for (const Node* node : plan.nodes) {
    const auto fail = [&](absl::string_view what) {
      return absl::FailedPreconditionError(
          absl::StrCat("the outputs depend on '", node->name, "', ", what));
    };
    if (node->num_shards > 1) return fail("which several shards compute");
    const bool is_input = std::any_of(plan.feeds.begin(), plan.feeds.end(),
                                      [&](const Tensor& feed) { return feed.node() == node; });
    if (node->type == "Placeholder" && !is_input) return fail("a placeholder that is not an input");
  }
  if (!plan.host_effects.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("the outputs depend on '",
                                                      plan.host_effects[0]->name,
                                                      "', which has an effect on the host"));
  }
  if (!plan.host_inputs.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the outputs depend on '", plan.host_inputs[0]->name,
                     "', which is read from a dataset: make the features of placeholders"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ProgramGraph> Trace(const Plan& plan, const std::vector<ProgramOutput>& outputs,
                                   const std::vector<ProgramInput>& inputs,
                                   const std::vector<const VariableDef*>& variables) {
  ProgramGraph program;
  program.graph = std::make_unique<ir::Graph>("predict");
  OrderedInputs parameters(variables, inputs, *program.graph);
  ProgramFrame frame(plan, *program.graph, parameters);
  frame.LowerAll(plan.nodes);
  PENSTOCK_RETURN_IF_ERROR(program.graph->status());
  if (const auto assigned = frame.Assigned(); !assigned.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the outputs depend on an assignment to '", assigned[0].first->name, "'"));
  }
  ir::Values results;
  std::vector<std::string> names;
  for (const ProgramOutput& output : outputs) {
    results.push_back(frame.ValueOf(output.tensor));
    names.push_back(output.name);
    PENSTOCK_RETURN_IF_ERROR(program.graph->status());
  }
  program.graph->SetResults(results, names);
  PENSTOCK_RETURN_IF_ERROR(program.graph->status());
  program.variables = parameters.read();
  return program;
}

}  // namespace

absl::StatusOr<ProgramGraph> TraceProgram(const std::vector<ProgramOutput>& outputs,
                                          const std::vector<ProgramInput>& inputs) {
  Tensors fetches, feeds;
  for (const ProgramOutput& output : outputs) fetches.push_back(output.tensor);
  for (const ProgramInput& input : inputs) feeds.push_back(input.tensor);
  Operations targets(fetches.begin(), fetches.end());
  PENSTOCK_ASSIGN_OR_RETURN(const Plan plan,
                            MakePlan(fetches, targets, feeds, /*num_devices=*/1, "the export"));
  PENSTOCK_RETURN_IF_ERROR(CheckIsFunction(plan));
  // Which variables are read is only known afterwards, and they come first.
  PENSTOCK_ASSIGN_OR_RETURN(const ProgramGraph first, Trace(plan, outputs, inputs, {}));
  std::vector<const VariableDef*> variables = first.variables;
  std::sort(variables.begin(), variables.end(),
            [](const VariableDef* a, const VariableDef* b) { return a->index < b->index; });
  return Trace(plan, outputs, inputs, variables);
}

}  // namespace penstock::session
