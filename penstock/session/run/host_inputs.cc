// The host inputs of a Run: which elements it gets, and which of their arrays are arguments.
#include <algorithm>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/session/run/session_state.h"

namespace penstock::session {

absl::Status SessionState::RunHostEffects(const Plan& plan) {
  for (const Node* node : plan.host_effects) {
    const absl::Status status =
        dynamic_cast<HostEffect&>(*node->extra).Run(inputs_, SeedOf(*node, std::nullopt));
    if (!status.ok()) return base::WithContext(status, node->name);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> SessionState::PositionOf(HostInputSource& source) {
  // Opened with the seed that the first Run gives it.
  for (int id = 0; id < graph_->num_nodes(); ++id) {
    const Node& node = *graph_->node(id);
    if (node.extra.get() != &source) continue;
    inputs_.Register(source, SeedOf(node, source.op_seed()));
    break;
  }
  return inputs_.Position(source);
}

absl::Status SessionState::PeekHostInputs(const Prepared& prepared, std::vector<Array>& fed,
                                          int64_t step) {
  for (size_t n = 0; n < prepared.plan.host_inputs.size(); ++n) {
    Node* const node = prepared.plan.host_inputs[n];
    const Prepared::HostElement& place = prepared.host_elements[n];
    const absl::StatusOr<const std::vector<Array>*> values = inputs_.Peek(
        dynamic_cast<HostInputSource&>(*node->extra), step * place.per_step + place.element);
    if (!values.ok()) return base::WithContext(values.status(), node->name);
    if ((*values)->size() != node->outputs.size()) {
      return absl::InternalError(absl::StrCat("'", node->name, "' gave ", (*values)->size(),
                                              " values and has ", node->outputs.size(),
                                              " outputs (a bug)"));
    }
    for (size_t i = 0; i < (*values)->size(); ++i) {
      PENSTOCK_ASSIGN_OR_RETURN(Array value,
                                CheckFeed(Tensor(node, static_cast<int>(i)), (**values)[i]));
      fed.push_back(std::move(value));
    }
  }
  return absl::OkStatus();
}

void SessionState::AddInputPlan(const Plan& plan, StepProgram& program) {
  std::vector<InputSlot> all;  // each output of each host input
  for (const Node* node : plan.host_inputs) {
    auto* const source = dynamic_cast<HostInputSource*>(node->extra.get());
    std::vector<InputPlan::Use>& uses = program.inputs.uses;
    auto use = std::find_if(uses.begin(), uses.end(),
                            [&](const InputPlan::Use& u) { return u.source == source; });
    if (use == uses.end()) use = uses.insert(use, {source, 0});
    const int element = static_cast<int>(use->elements++);
    for (size_t i = 0; i < node->outputs.size(); ++i) {
      all.push_back({.source = source,
                     .element = element,
                     .output = static_cast<int>(i),
                     .sliced = plan.sliced[plan.feeds.size() + all.size()],
                     .name = absl::StrCat(node->name, ":", i)});
    }
  }
  for (const StepGraph::Place& parameter : program.step.parameters) {
    const int output = parameter.index - static_cast<int>(plan.feeds.size());
    const bool is_input = parameter.kind == StepGraph::Kind::kFed && output >= 0;
    program.slots.push_back(is_input ? static_cast<int>(program.inputs.slots.size()) : -1);
    if (is_input) program.inputs.slots.push_back(all[static_cast<size_t>(output)]);
  }
}

}  // namespace penstock::session
