#include "penstock/session/run/step_graph.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/session/run/program_lowering.h"
#include "penstock/session/tpu/replica_agreement.h"
#include "penstock/session/tpu/shard_region.h"

namespace penstock::session {
namespace {

using Kind = StepGraph::Kind;

// Makes the parameters of a program when an operation first uses them.
class StepInputs final : public ProgramInputs {
 public:
  StepInputs(const Plan& plan, const FedTypes& fed, uint64_t graph_seed,
             const std::function<absl::StatusOr<Array>(const ir::Graph&)>& evaluate,
             StepGraph& step)
      : plan_(plan), fed_(fed), graph_seed_(graph_seed), evaluate_(evaluate), step_(step) {
    for (const Tensor& feed : plan.feeds) AddFed(feed);
    for (Node* node : plan.host_inputs) {
      for (size_t i = 0; i < node->outputs.size(); ++i) {
        // A feed of the output takes precedence, but the host's value is there, too.
        AddFed(Tensor(node, static_cast<int>(i)));
      }
    }
    fed_values_.resize(fed.size());
  }

  ir::Value Fed(const Tensor& tensor) override {
    const int index = FedIndex(tensor);
    if (index < 0) return ir::Value();
    ir::Value& value = fed_values_[index];
    if (value.valid()) return value;
    const absl::StatusOr<ir::TensorType> type = ArgumentType(tensor, index);
    if (!type.ok()) {
      step_.graph->Fail(type.status());
      return ir::Value();
    }
    value = Parameter({Kind::kFed, index}, *type, tensor.node()->name);
    if (plan_.sliced[index]) sliced_.push_back(value);
    return value;
  }
  bool IsFed(const Tensor& tensor) override {
    return places_.contains(tensor) || FedIndex(tensor) >= 0;
  }

  // Place in FedTypes of a tensor whose value comes from the host; -1 if it does not. A value that
  // is sent in slices is that of the slices.
  int FedIndex(const Tensor& tensor) const {
    auto found = places_.find(tensor);
    if (found != places_.end()) return plan_.sliced[found->second] ? -1 : found->second;
    if (tensor.node()->num_shards == 1 || ShardInputOf(*tensor.node()) == nullptr) return -1;
    found = places_.find(tensor.node()->inputs[0]);
    return found != places_.end() && plan_.sliced[found->second] ? found->second : -1;
  }
  // Parameters that differ between replicas.
  const ir::Values& sliced() const { return sliced_; }

  ir::Value Start(const VariableDef& variable) override {
    if (const ir::Value fed = Fed(Tensor(variable.handle, 0)); fed.valid()) return fed;
    ir::Value& value = starts_[&variable];
    if (!value.valid()) {
      value = Parameter({Kind::kVariable, variable.index}, {variable.dtype, variable.shape},
                        variable.name);
      step_.read.push_back(&variable);
    }
    return value;
  }

  ir::Value RandomKey(const Node& node) override {
    ir::Graph& graph = *step_.graph;
    const auto at = std::find(plan_.random.begin(), plan_.random.end(), &node);
    if (at == plan_.random.end()) {
      graph.Fail(absl::InternalError("it draws random numbers and has no RandomSeed (a bug)"));
      return ir::Value();
    }
    if (!random_.valid()) {
      const int64_t count = static_cast<int64_t>(plan_.random.size());
      random_ = Parameter({Kind::kRandom, 0}, {DType::kU32, {count, 2}}, "random");
    }
    const int64_t row = at - plan_.random.begin();
    const auto number = [&](int64_t column) {
      return ir::Reshape(ir::Slice(random_, {row, column}, {row + 1, column + 1}), {});
    };
    const ir::Value key =
        ir::FoldIn(ir::FoldIn(ir::RandomKey(graph, graph_seed_), number(0)), number(1));
    return node.num_shards > 1 ? ir::FoldIn(key, ir::ReplicaId(graph)) : key;
  }

  absl::StatusOr<Array> Evaluate(const ir::Graph& graph) override { return evaluate_(graph); }

  // Where the value of a fetched or assigned tensor is without being a result: kNone if it is not
  // a parameter.
  StepGraph::Place ParameterPlace(const ir::Value& value) const {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (parameters_[i] == value) return step_.parameters[i];
    }
    return {};
  }

 private:
  // The type of the parameter for a value from the host.
  absl::StatusOr<ir::TensorType> ArgumentType(const Tensor& tensor, int index) const {
    ir::TensorType type = fed_[index];
    if (!plan_.sliced[index]) return type;
    const int shards = plan_.num_replicas;
    if (!HasRowsForShards(type.shape, /*axis=*/0, shards)) {
      return NotDivisibleError(tensor.node()->inputs[0].name(), type.shape, /*axis=*/0, shards);
    }
    type.shape.set_dim(0, type.shape.dim(0) / shards);
    return type;
  }

  void AddFed(const Tensor& tensor) {
    places_.try_emplace(tensor, next_fed_);
    ++next_fed_;
  }

  ir::Value Parameter(StepGraph::Place place, const ir::TensorType& type, const std::string& name) {
    step_.parameters.push_back(place);
    parameters_.push_back(step_.graph->Parameter(type, name));
    return parameters_.back();
  }

  const Plan& plan_;
  const FedTypes& fed_;
  const uint64_t graph_seed_;
  const std::function<absl::StatusOr<Array>(const ir::Graph&)>& evaluate_;
  StepGraph& step_;
  absl::flat_hash_map<Tensor, int> places_;  // index into fed_
  int next_fed_ = 0;
  ir::Values fed_values_, parameters_, sliced_;
  absl::flat_hash_map<const VariableDef*, ir::Value> starts_;
  ir::Value random_;
};

// The results of a program, each value once.
class StepResults {
 public:
  int Add(const ir::Value& value) {
    values_.push_back(value);
    return static_cast<int>(values_.size()) - 1;
  }
  int AddOnce(const ir::Value& value) {
    for (size_t i = first_fetched_; i < values_.size(); ++i) {
      if (values_[i] == value) return static_cast<int>(i);
    }
    return Add(value);
  }
  // Results from here on are fetched: an assigned variable's result is never fetched itself,
  // because the next execution donates it.
  void BeginFetched() { first_fetched_ = values_.size(); }
  const ir::Values& values() const { return values_; }

 private:
  ir::Values values_;
  size_t first_fetched_ = 0;
};

// Whether the buffer that holds a value from the host can become the variable's: the memory of
// arrays that a program feeds is the program's.
bool CanKeepBuffer(const Plan& plan, const StepGraph& step, const StepGraph::Place& place) {
  if (place.kind != Kind::kFed || place.index < static_cast<int>(plan.feeds.size())) return false;
  return std::none_of(step.assigned.begin(), step.assigned.end(), [&](const auto& other) {
    return other.value.kind == Kind::kFed && other.value.index == place.index;
  });
}

void AddAssigned(const Plan& plan, const Frame& frame, const StepInputs& inputs, StepGraph& step,
                 StepResults& results) {
  const auto variables = frame.Assigned();
  ir::Values values;
  for (const auto& [variable, value] : variables) values.push_back(value);
  values = AgreeOverReplicas(*step.graph, values, inputs.sliced());
  for (size_t v = 0; v < variables.size(); ++v) {
    const VariableDef* const variable = variables[v].first;
    const ir::Value& value = values[v];
    const StepGraph::Place place = inputs.ParameterPlace(value);
    if (place.kind == Kind::kVariable && place.index == variable->index) continue;  // unchanged
    StepGraph::Assignment assignment{.variable = variable};
    for (size_t i = 0; i < step.parameters.size(); ++i) {
      const StepGraph::Place& parameter = step.parameters[i];
      const bool is_start = parameter.kind == Kind::kVariable && parameter.index == variable->index;
      if (is_start) assignment.parameter = static_cast<int>(i);
    }
    if (assignment.parameter < 0 && CanKeepBuffer(plan, step, place)) {
      assignment.value = place;
      step.assigned.push_back(assignment);
      continue;
    }
    const int result = results.Add(value);
    assignment.value = {Kind::kResult, result};
    if (assignment.parameter >= 0) step.donate.push_back({assignment.parameter, result});
    step.assigned.push_back(assignment);
  }
}

void AddFetched(const Plan& plan, Frame& frame, StepInputs& inputs, StepGraph& step,
                StepResults& results) {
  for (const Tensor& fetch : plan.fetches) {
    StepGraph::Place place;
    if (fetch.valid() && inputs.IsFed(fetch)) {
      place = {Kind::kFed, inputs.FedIndex(fetch)};
    } else if (fetch.valid()) {
      const ir::Value value = frame.ValueOf(fetch);
      if (!value.valid()) return;
      place = inputs.ParameterPlace(value);
      const bool is_assigned =
          place.kind == Kind::kVariable &&
          std::any_of(step.assigned.begin(), step.assigned.end(),
                      [&](const auto& a) { return a.variable->index == place.index; });
      if (place.kind == Kind::kNone || place.kind == Kind::kRandom || is_assigned) {
        place = {Kind::kResult, results.AddOnce(value)};
      }
    }
    step.fetched.push_back(place);
  }
}

// Room ir calls the origin of an error a layer.
absl::Status InTermsOfOperations(const absl::Status& error) {
  if (error.ok() || !absl::StartsWith(error.message(), "layer \"")) return error;
  return absl::Status(error.code(), absl::StrCat("operation", error.message().substr(5)));
}

}  // namespace

absl::StatusOr<StepGraph> BuildStepGraph(
    const Plan& plan, const FedTypes& fed, uint64_t graph_seed,
    const std::function<absl::StatusOr<Array>(const ir::Graph&)>& evaluate) {
  StepGraph step;
  step.graph = std::make_unique<ir::Graph>("session_run", plan.num_replicas);
  StepInputs inputs(plan, fed, graph_seed, evaluate, step);
  ProgramFrame frame(plan, *step.graph, inputs);
  frame.LowerAll(plan.nodes);
  PENSTOCK_RETURN_IF_ERROR(InTermsOfOperations(step.graph->status()));
  for (Node* node : plan.nodes) {
    const ShardInput* const slice = ShardInputOf(*node);
    if (slice == nullptr || step.shard_rows >= 0) continue;
    const ir::Value rows = frame.ValueOf(Tensor(node, 0));
    if (rows.valid()) step.shard_rows = rows.shape().dim(slice->axis);
  }
  StepResults results;
  AddAssigned(plan, frame, inputs, step, results);
  results.BeginFetched();
  AddFetched(plan, frame, inputs, step, results);
  step.graph->SetResults(results.values());
  PENSTOCK_RETURN_IF_ERROR(InTermsOfOperations(step.graph->status()));
  return step;
}

}  // namespace penstock::session
