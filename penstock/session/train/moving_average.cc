#include "penstock/session/train/moving_average.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

#include "penstock/session/body.h"
#include "penstock/session/lowering.h"
#include "penstock/session/variable_table.h"

namespace penstock::session::train {

struct ExponentialMovingAverage::State {
  double decay = 0;
  Tensor num_updates;             // invalid: none
  Variable num_updates_variable;  // instead of it
  std::string name;
};

namespace {

// The averages of a graph, by who made them: an ExponentialMovingAverage may outlive a graph.
struct AveragesOfGraph {
  absl::flat_hash_map<std::pair<std::shared_ptr<const void>, const VariableDef*>, Variable> all;
};

// What Apply updates: pairs of averages and variables.
struct Averages {
  double decay = 0;
  bool has_num_updates = false;
  std::vector<const VariableDef*> shadows = {};
};

// `in`: the variables, then num_updates if there is one.
ir::Values LowerAverages(Lowering& lowering, const Averages& averages, const ir::Values& in) {
  ir::Value weight = ir::Splat(lowering.graph(), {DType::kF32, {}}, 1 - averages.decay);
  if (averages.has_num_updates) {
    const ir::Value updates = ir::Convert(in.back(), DType::kF32);
    const ir::Value early = (updates + 1.0) / (updates + 10.0);
    weight = 1.0 - ir::Minimum(ir::SplatLike(early, averages.decay), early);
  }
  for (size_t i = 0; i < averages.shadows.size(); ++i) {
    const ir::Value shadow = lowering.Read(*averages.shadows[i]);
    if (!shadow.valid() || !in[i].valid()) return {};
    const ir::Value moved = (shadow - in[i]) * ir::Convert(weight, shadow.dtype());
    lowering.Assign(*averages.shadows[i], shadow - moved);
  }
  return {};
}

// TensorFlow's default: the trainable ones and those of which any average was made.
Variables AveragedVariables() {
  Variables averaged = TrainableVariables();
  const Graph* const graph = Graph::Default();
  const auto* const made = graph == nullptr ? nullptr : graph->FindExtension<AveragesOfGraph>();
  if (made == nullptr) return averaged;
  absl::flat_hash_set<const VariableDef*> with_average;
  for (const auto& [key, average] : made->all) {
    if (average.valid()) with_average.insert(key.second);
  }
  for (const Variable& variable : GlobalVariables()) {
    const bool added = !variable.def()->trainable && with_average.contains(variable.def());
    if (added) averaged.push_back(variable);
  }
  return averaged;
}

}  // namespace

ExponentialMovingAverage::ExponentialMovingAverage(double decay, absl::string_view name)
    : state_(std::make_shared<State>()) {
  state_->decay = decay;
  state_->name = std::string(name);
}

ExponentialMovingAverage::ExponentialMovingAverage(double decay, const Tensor& num_updates,
                                                   absl::string_view name)
    : ExponentialMovingAverage(decay, name) {
  state_->num_updates = num_updates;
}

ExponentialMovingAverage::ExponentialMovingAverage(double decay, const Variable& num_updates,
                                                   absl::string_view name)
    : ExponentialMovingAverage(decay, name) {
  state_->num_updates_variable = num_updates;
}

std::string ExponentialMovingAverage::AverageName(const Variable& variable) const {
  if (!variable.valid()) return "";
  const Variable average = Average(variable);
  return average.valid() ? average.def()->name
                         : absl::StrCat(variable.def()->name, "/", state_->name);
}

Variable ExponentialMovingAverage::Average(const Variable& variable) const {
  const auto* made =
      variable.valid() ? variable.def()->graph->FindExtension<AveragesOfGraph>() : nullptr;
  if (made == nullptr) return Variable();
  const auto found = made->all.find({state_, variable.def()});
  return found == made->all.end() ? Variable() : found->second;
}

Operation ExponentialMovingAverage::Apply(const Variables& variables, SourceLocation where) {
  const Variables all = variables.empty() ? TrainableVariables() : variables;
  Graph* graph = Graph::Default();
  for (const Variable& variable : all) {
    if (variable.valid()) graph = variable.def()->graph;
  }
  if (graph == nullptr) return Operation();
  const auto fail = [&](absl::string_view message) {
    graph->Fail(absl::InvalidArgumentError(message), state_->name, where);
    return Operation();
  };
  if (all.empty()) return fail("there are no variables to average");
  const Tensor num_updates = state_->num_updates_variable.valid()
                                 ? state_->num_updates_variable.Value(where)
                                 : state_->num_updates;
  Averages averages{.decay = state_->decay, .has_num_updates = num_updates.valid()};
  Tensors inputs;
  for (const Variable& variable : all) {
    if (!variable.valid()) return fail("a variable is invalid");
    if (!base::IsFloat(variable.dtype())) {
      return fail(absl::StrCat("variable '", variable.def()->name, "' is ",
                               base::DTypeName(variable.dtype()), "; only floats have averages"));
    }
    Variable& average =
        variable.def()->graph->Extension<AveragesOfGraph>().all[{state_, variable.def()}];
    if (!average.valid()) {
      const ControlDependencies none(std::nullopt);
      const BodyScope top_level(graph, nullptr);
      // As in TensorFlow, a variable scope in which Apply is called is part of the name.
      const std::string within = graph->Extension<VariableTable>().ScopePrefix();
      const NameScope top("");
      average = Variable(variable.initial_value(),
                         absl::StrCat(within, variable.def()->name, "/", state_->name),
                         {.trainable = false}, where);
    }
    if (!average.valid()) return Operation();
    averages.shadows.push_back(average.def());
    inputs.push_back(variable.Value(where));
  }
  if (averages.has_num_updates) inputs.push_back(num_updates);
  return Operation(graph->AddNode(
      {.type = "AssignMovingAvg",
       .name = state_->name,
       .outputs = std::vector<Node::Output>(),
       .stateful = true},
      std::move(inputs),
      [averages = std::move(averages)](Lowering& lowering, const ir::Values& in) {
        return LowerAverages(lowering, averages, in);
      },
      where));
}

std::map<std::string, Variable> ExponentialMovingAverage::VariablesToRestore(
    const Variables& moving_average_variables) const {
  std::map<std::string, Variable> names;
  const Variables averaged =
      moving_average_variables.empty() ? AveragedVariables() : moving_average_variables;
  absl::flat_hash_map<const VariableDef*, bool> done;
  for (const Variable& variable : averaged) {
    names[AverageName(variable)] = variable;
    done[variable.def()] = true;
  }
  for (const Variable& variable : GlobalVariables()) {
    // An average is restored as the variable's value.
    if (done.contains(variable.def()) || names.contains(variable.def()->name)) continue;
    names[variable.def()->name] = variable;
  }
  return names;
}

}  // namespace penstock::session::train
