#include "penstock/train/step_program.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"

#include "penstock/ir/gradients.h"
#include "penstock/train/forward.h"

namespace penstock::train {
namespace {

using base::DType;
using ir::Value;
using ir::Values;

Values StateParameters(ir::Graph& graph, const StateLayout& layout, int begin, int end) {
  Values values;
  for (int i = begin; i < end; ++i)
    values.push_back(graph.Parameter(layout.entries[i].type, layout.entries[i].name));
  return values;
}

ir::TensorType Stacked(const ir::TensorType& type, int64_t depth) {
  return depth == 1 ? type : ir::TensorType{type.dtype, type.shape.Prepend(depth)};
}

// Parameters for the network's inputs; stacks if depth is above 1.
Values InputParameters(ir::Graph& graph, const nn::Network& network,
                       const std::vector<ir::TensorType>& types, int64_t depth = 1) {
  Values inputs;
  for (size_t i = 0; i < types.size(); ++i) {
    const nn::Network::Port& port = network.inputs()[i];
    const base::Shape& rows = types[i].shape;
    if (rows.rank() == 0 || !(rows.RowShape() == port.type.shape.RowShape())) {
      graph.Fail(absl::InvalidArgumentError(absl::StrCat("the network's input '", port.name,
                                                         "' is ", port.type.ToString(),
                                                         "; the batch has ", types[i].ToString())));
      return {};
    }
    inputs.push_back(graph.Parameter(Stacked(types[i], depth), port.name));
  }
  return inputs;
}

// Parameters for a batch: inputs..., labels..., weights..., count; stacks if depth is above 1.
Values BatchParameters(ir::Graph& graph, const nn::Network& network, const BatchTypes& types) {
  Values values = InputParameters(graph, network, types.inputs, types.depth);
  const auto add = [&](const std::vector<ir::TensorType>& list, const std::string& name) {
    for (size_t i = 0; i < list.size(); ++i) {
      values.push_back(graph.Parameter(Stacked(list[i], types.depth),
                                       list.size() == 1 ? name : absl::StrCat(name, "_", i)));
    }
  };
  add(types.labels, "label");
  add(types.weights, "sample_weight");
  values.push_back(graph.Parameter(Stacked({DType::kI32, {}}, types.depth), "count"));
  return values;
}

// Batch `index` of the stacks.
Values UnstackBatch(const Values& stacks, Value index) {
  Values values;
  for (const Value& stack : stacks) {
    Values begin{index};
    std::vector<int64_t> sizes(stack.shape().begin(), stack.shape().end());
    sizes[0] = 1;
    for (int i = 1; i < stack.rank(); ++i) begin.push_back(ir::SplatLike(index, 0));
    values.push_back(ir::Squeeze(ir::DynamicSlice(stack, begin, sizes), {0}));
  }
  return values;
}

// RNG key of this step and replica.
Value StepKey(ir::Graph& graph, Value key, Value iteration) {
  const Value step_key = ir::FoldIn(key, iteration);
  return graph.num_replicas() == 1 ? step_key : ir::FoldIn(step_key, ir::ReplicaId(graph));
}

Values Add(const Values& a, const Values& b) {
  Values sums;
  for (size_t i = 0; i < a.size(); ++i) sums.push_back(a[i] + b[i]);
  return sums;
}

// The report: the numbers of ReportNames, then `more`, then the halted step (-1 if invalid).
Value Report(const Objective& objective, const Values& metric_states, Value halted,
             const Values& more = {}) {
  Values numbers;
  const auto add = [&](Value scalar) {
    numbers.push_back(ir::Reshape(ir::Convert(scalar, DType::kF32), {1}));
  };
  size_t at = 0;
  const auto take = [&](size_t count) {
    at += count;
    return Values(metric_states.begin() + (at - count), metric_states.begin() + at);
  };
  for (size_t i = 0; i < NumMeans(objective); ++i) {
    add(nn::MeanResult(take(nn::MeanStates().size())));
  }
  for (const Target& target : objective.targets) {
    for (const auto* metrics : {&target.metrics, &target.weighted_metrics}) {
      for (const nn::Metric& metric : *metrics) add(metric.Result(take(metric.num_states())));
    }
  }
  for (const Value& number : more) add(number);
  add(halted.valid() ? halted : ir::SplatLike(metric_states[0], -1));
  return ir::Concatenate(numbers, 0);
}

// The optimizer's entries of the report, after the step that led to `state`: with a schedule the
// learning rate of the next step; with loss scaling the number of steps skipped so far, and the
// scale.
Values OptimizerReport(ir::Graph& graph, const Objective& objective, const StateLayout& layout,
                       const Values& state) {
  ir::Scope scope(graph, "optimizer");
  Value scale, updates;
  const std::vector<nn::SlotSpec> slots = objective.optimizer.SharedSlots();
  for (size_t i = 0; i < slots.size(); ++i) {
    const Value& value = state[layout.first_shared + static_cast<int>(i)];
    if (slots[i].name == nn::Optimizer::kDynamicScale) scale = value;
    if (slots[i].name == nn::Optimizer::kUpdates) updates = value;
  }
  const Value iteration = state[layout.iteration];
  const bool scaling = objective.optimizer.has_loss_scaling();
  Values report;
  if (layout.learning_rate < 0) {
    // A skipped step does not count (Optimizer::Apply).
    report.push_back(objective.optimizer.learning_rate().At(
        ir::Convert(scaling ? updates : iteration, DType::kF32)));
  }
  if (scaling) report.insert(report.end(), {iteration - updates, scale});
  return report;
}

// Values of a training step's graph: forward, loss, gradients. Shared by TrainStep and
// DiagnoseStep.
struct StepValues {
  Values state;
  BatchValues batch;
  Forward forward;
  Value loss;                // f32 scalar: this replica's share of the mean
  std::vector<int> trained;  // indices of variables
  Values gradients;  // of `trained`, of the loss as the optimizer scales it; summed over replicas
  Values metric_additions;  // summed over replicas
};

// Builds forward, backward and the collective. `batch`: inputs..., labels..., weights..., count. If
// `loss` is invalid, the graph has an error.
StepValues BuildStep(ir::Graph& graph, const Objective& objective, const StateLayout& layout,
                     const Values& state, const Values& batch) {
  StepValues step;
  step.state = state;
  step.batch = MakeBatch(graph, objective, batch);
  if (!graph.status().ok()) return step;
  const Value key = StepKey(graph, step.state[layout.key], step.state[layout.iteration]);
  step.batch = MixBatch(objective, std::move(step.batch), key);
  if (!graph.status().ok()) return step;
  const Values variables(step.state.begin(), step.state.begin() + layout.num_variables);
  step.forward = RunForward(graph, objective, variables, step.batch, /*training=*/true, key);
  if (!graph.status().ok()) return step;

  const Value examples = ir::AllReduce(ir::ReduceSum(step.batch.mask));
  const Value counted = ir::Greater(step.batch.mask, ir::SplatLike(step.batch.mask, 0));
  const Value real =
      ir::Select(counted, step.forward.per_example, ir::SplatLike(step.forward.per_example, 0));
  step.loss = ir::ReduceSum(real) / examples;

  Values targets;
  for (int i = 0; i < layout.num_variables; ++i) {
    if (layout.first_slot[i] < 0) continue;
    step.trained.push_back(i);
    targets.push_back(variables[i]);
  }
  const Values shared(state.begin() + layout.first_shared,
                      state.begin() + layout.first_shared + layout.num_shared);
  Values reduced = ir::Gradients(step.loss, targets, objective.optimizer.LossScale(graph, shared));
  // Sums over replicas are in 32 bits, also for variables of 16 bits.
  for (size_t t = 0; t < reduced.size(); ++t) {
    reduced[t] = ir::Convert(reduced[t], nn::Optimizer::SlotType(targets[t].type()).dtype);
  }
  reduced.insert(reduced.end(), step.forward.metric_additions.begin(),
                 step.forward.metric_additions.end());
  reduced = ir::AllReduce(reduced);
  step.gradients.assign(reduced.begin(), reduced.begin() + targets.size());
  step.metric_additions.assign(reduced.begin() + targets.size(), reduced.end());
  return step;
}

// This replica's term, for an assigned variable, in the sum over replicas from which Aggregated
// computes the value after the step. `share`: this replica's fraction of the examples.
Value ToAggregate(ir::Graph& graph, nn::Aggregation aggregation, Value before, Value assigned,
                  Value share) {
  const DType dtype = assigned.dtype();
  // Sums have at least 32 bits, and bools cannot be summed.
  if (dtype == DType::kBool || (base::IsFloat(dtype) && base::BitWidth(dtype) < 32)) {
    const DType wide = dtype == DType::kBool ? DType::kI32 : DType::kF32;
    assigned = ir::Convert(assigned, wide);
    before = ir::Convert(before, wide);
  }
  if (aggregation == nn::Aggregation::kMean) return assigned * ir::Convert(share, assigned.dtype());
  if (aggregation == nn::Aggregation::kSum) return assigned - before;
  const Value replica = ir::ReplicaId(graph);
  return ir::Select(ir::Equal(replica, ir::SplatLike(replica, 0)), assigned,
                    ir::SplatLike(assigned, 0));
}

Value Aggregated(nn::Aggregation aggregation, Value before, Value sum) {
  sum = ir::Convert(sum, before.dtype());
  return aggregation == nn::Aggregation::kSum ? before + sum : sum;
}

nn::Aggregation AggregationOf(const nn::VariableSpec& variable) {
  if (variable.aggregation != nn::Aggregation::kAuto) return variable.aggregation;
  return base::IsFloat(variable.type.dtype) ? nn::Aggregation::kMean
                                            : nn::Aggregation::kOnlyFirstReplica;
}

// The values after the step of variables assigned by layers (moving averages, counters), combined
// by their aggregation (nn::Aggregation). `which`: their indices.
Values AggregateAssigned(ir::Graph& graph, const Objective& objective, const StepValues& step,
                         std::vector<int>& which) {
  Values assigned;
  for (const auto& [index, value] : step.forward.network.assigned) which.push_back(index);
  std::sort(which.begin(), which.end());
  for (int index : which) assigned.push_back(step.forward.network.assigned.at(index));
  if (graph.num_replicas() == 1 || assigned.empty()) return assigned;
  const Value mine = ir::ReduceSum(step.batch.mask);
  const Value share = mine / ir::AllReduce(mine);
  const auto aggregation = [&](size_t i) {
    return AggregationOf(objective.network.variables()[which[i]]);
  };
  for (size_t i = 0; i < which.size(); ++i) {
    assigned[i] = ToAggregate(graph, aggregation(i), step.state[which[i]], assigned[i], share);
  }
  assigned = ir::AllReduce(assigned);
  for (size_t i = 0; i < which.size(); ++i) {
    assigned[i] = Aggregated(aggregation(i), step.state[which[i]], assigned[i]);
  }
  return assigned;
}

// Whether a step updates the state: not from the first step on whose numbers are not finite. Bool
// scalars; invalid without halt_on_nan.
struct Halting {
  Value fine;     // this step's numbers are finite
  Value running;  // no step has halted before
  Value applies;  // both
};

Halting FindHalting(const nn::Optimizer& optimizer, const StateLayout& layout,
                    const StepValues& step) {
  Values found{step.metric_additions[0]};  // the sum of losses over all replicas
  // Loss scaling skips steps with infinite gradients by itself.
  if (!optimizer.has_loss_scaling()) {
    found.insert(found.end(), step.gradients.begin(), step.gradients.end());
  }
  const Value fine = ir::AllFinite(found);
  const Value halted = step.state[layout.halted],
              running = ir::Less(halted, ir::SplatLike(halted, 0));
  return {fine, running, ir::And(fine, running)};
}

// Computes the optimizer's entries of `next`.
void ApplyOptimizer(const Objective& objective, const StateLayout& layout, const StepValues& step,
                    const Value& applies, Values& next) {
  const auto entries = [&](int begin, int count) {
    return Values(step.state.begin() + begin, step.state.begin() + begin + count);
  };
  nn::OptimizerStep update{.shared = entries(layout.first_shared, layout.num_shared),
                           .iteration = step.state[layout.iteration],
                           .applies = applies};
  if (layout.learning_rate >= 0) update.learning_rate = step.state[layout.learning_rate];
  for (size_t t = 0; t < step.trained.size(); ++t) {
    const int variable = step.trained[t];
    update.variables.push_back(
        {.name = layout.entries[variable].name,
         .constraint = objective.network.variables()[variable].constraint,
         .value = step.state[variable],
         .gradient = step.gradients[t],
         .slots = entries(layout.first_slot[variable], layout.num_slots[variable])});
  }
  const nn::OptimizerResult updated = objective.optimizer.Apply(update);
  if (updated.variables.size() != step.trained.size()) return;  // the graph has an error
  std::copy(updated.shared.begin(), updated.shared.end(), next.begin() + layout.first_shared);
  for (size_t t = 0; t < step.trained.size(); ++t) {
    const int variable = step.trained[t];
    next[variable] = updated.variables[t].value;
    std::copy(updated.variables[t].slots.begin(), updated.variables[t].slots.end(),
              next.begin() + layout.first_slot[variable]);
  }
}

Values NextState(ir::Graph& graph, const Objective& objective, const StateLayout& layout,
                 const StepValues& step, const Halting& halting) {
  ir::Scope scope(graph, "optimizer");
  Values next = step.state;
  ApplyOptimizer(objective, layout, step, halting.applies, next);
  if (!graph.status().ok()) return {};
  const Value iteration = step.state[layout.iteration];
  std::vector<int> which;
  const Values assigned = AggregateAssigned(graph, objective, step, which);
  const auto set = [&](int entry, const Value& value) {
    next[entry] =
        halting.applies.valid() ? ir::Select(halting.applies, value, step.state[entry]) : value;
  };
  for (size_t i = 0; i < which.size(); ++i) set(which[i], assigned[i]);
  set(layout.iteration, iteration + 1.0);
  const Values metrics = Add(Values(step.state.begin() + layout.first_metric, step.state.end()),
                             step.metric_additions);
  for (size_t i = 0; i < metrics.size(); ++i) {
    set(layout.first_metric + static_cast<int>(i), metrics[i]);
  }
  if (halting.fine.valid()) {
    next[layout.halted] = ir::Select(ir::And(halting.running, ir::Not(halting.fine)), iteration,
                                     step.state[layout.halted]);
  }
  return next;
}

// Runs `step` for the first batches of the stacks, in a loop on the device. Adds a parameter, the
// number of batches. The stacks are loop-invariant, which costs nothing; the state is updated in
// place.
Values Loop(ir::Graph& graph, const Values& state, const Values& stacks,
            const std::function<Values(ir::Graph&, const Values&, const Values&)>& step) {
  const ir::TensorType i32{DType::kI32, {}};
  Values carried{ir::Splat(graph, i32, 0), graph.Parameter(i32, "steps")};
  carried.insert(carried.end(), state.begin(), state.end());
  carried.insert(carried.end(), stacks.begin(), stacks.end());
  const auto more = [](ir::Graph&, const Values& at) { return ir::Less(at[0], at[1]); };
  const auto body = [&](ir::Graph& inside, const Values& at) -> Values {
    const auto first_stack = at.begin() + 2 + static_cast<int64_t>(state.size());
    const Values next = step(inside, Values(at.begin() + 2, first_stack),
                             UnstackBatch(Values(first_stack, at.end()), at[0]));
    if (next.empty()) return {};
    Values out{at[0] + 1.0, at[1]};
    out.insert(out.end(), next.begin(), next.end());
    out.insert(out.end(), first_stack, at.end());
    return out;
  };
  const Values done = ir::While(carried, more, body);
  return Values(done.begin() + 2, done.begin() + 2 + static_cast<int64_t>(state.size()));
}

// The step of one batch, with the parameters of TrainStep: of a stack, the batch whose index is the
// parameter `steps`. After an error of the graph the values are not all there.
StepValues StepOfOneBatch(ir::Graph& graph, const Objective& objective, const StateLayout& layout,
                          const BatchTypes& types) {
  const Values state = StateParameters(graph, layout, 0, layout.size());
  Values batch = BatchParameters(graph, objective.network, types);
  if (!graph.status().ok()) return {};
  if (types.depth > 1) {
    batch = UnstackBatch(batch, graph.Parameter({DType::kI32, {}}, "steps"));
  }
  return BuildStep(graph, objective, layout, state, batch);
}

// Print options that donate the first `count` parameters: result i reuses the buffer of parameter
// i.
ir::PrintOptions Donating(int count, const Objective& objective) {
  ir::PrintOptions options{.matmul_precision = objective.matmul_precision};
  for (int i = 0; i < count; ++i) options.donate.push_back({i, i});
  return options;
}

}  // namespace

absl::StatusOr<TrainingGraph> TrainGraph(const Objective& objective, const StateLayout& layout,
                                         const BatchTypes& types, int num_replicas,
                                         bool halt_on_nan) {
  TrainingGraph made = {
      std::make_unique<ir::Graph>(types.depth == 1 ? "train_step" : "train_steps", num_replicas)};
  ir::Graph& graph = *made.graph;
  const Values state = StateParameters(graph, layout, 0, layout.size());
  const Values batch = BatchParameters(graph, objective.network, types);
  PENSTOCK_RETURN_IF_ERROR(graph.status());
  const auto step = [&](ir::Graph& inside, const Values& before, const Values& one) -> Values {
    const StepValues step = BuildStep(inside, objective, layout, before, one);
    if (!inside.status().ok()) return {};
    Halting halting;
    if (halt_on_nan) halting = FindHalting(objective.optimizer, layout, step);
    return NextState(inside, objective, layout, step, halting);
  };
  const Values next =
      types.depth == 1 ? step(graph, state, batch) : Loop(graph, state, batch, step);
  PENSTOCK_RETURN_IF_ERROR(graph.status());
  Values results;
  for (int i = 0; i < layout.size(); ++i) {
    if (next[i] == state[i]) continue;
    made.donate.push_back({i, static_cast<int>(results.size())});
    results.push_back(next[i]);
  }
  const Values metrics(next.begin() + layout.first_metric, next.end());
  // The halted step, counted from the first step of this execution.
  const Value halted = next[layout.halted];
  const Value place = ir::Select(ir::Less(halted, ir::SplatLike(halted, 0)),
                                 ir::SplatLike(halted, -1), halted - state[layout.iteration]);
  results.push_back(Report(objective, metrics, halt_on_nan ? place : Value(),
                           OptimizerReport(graph, objective, layout, next)));
  graph.SetResults(results);
  return made;
}

absl::StatusOr<ir::Program> TrainStep(const Objective& objective, const StateLayout& layout,
                                      const BatchTypes& types, int num_replicas, bool halt_on_nan,
                                      const kernels::Lowering& lowering) {
  PENSTOCK_ASSIGN_OR_RETURN(const TrainingGraph step,
                            TrainGraph(objective, layout, types, num_replicas, halt_on_nan));
  return lowering.Print(*step.graph,
                        {.donate = step.donate, .matmul_precision = objective.matmul_precision});
}

absl::StatusOr<ir::Program> EvaluateStep(const Objective& objective, const StateLayout& layout,
                                         const BatchTypes& types, int num_replicas,
                                         const kernels::Lowering& lowering) {
  ir::Graph graph("evaluate_step", num_replicas);
  // The metrics come first, so that parameter i is donated to result i.
  const Values metrics = StateParameters(graph, layout, layout.first_metric, layout.size());
  const Values variables = StateParameters(graph, layout, 0, layout.num_variables);
  const Values values = BatchParameters(graph, objective.network, types);
  PENSTOCK_RETURN_IF_ERROR(graph.status());
  const BatchValues batch = MakeBatch(graph, objective, values);
  const Forward forward =
      RunForward(graph, objective, variables, batch, /*training=*/false, Value());
  PENSTOCK_RETURN_IF_ERROR(graph.status());
  Values results = Add(metrics, ir::AllReduce(forward.metric_additions));
  results.push_back(Report(objective, results, Value()));
  graph.SetResults(results);
  return lowering.Print(graph, Donating(static_cast<int>(metrics.size()), objective));
}

absl::StatusOr<ir::Program> PredictStep(const Objective& objective,
                                        const std::vector<ir::TensorType>& types, int num_replicas,
                                        const kernels::Lowering& lowering) {
  const nn::Network& network = objective.network;
  ir::Graph graph("predict_step", num_replicas);
  Values variables, inputs;
  for (const nn::VariableSpec& v : network.variables())
    variables.push_back(graph.Parameter(v.type, v.name));
  inputs = ConvertInputs(network, InputParameters(graph, network, types));
  PENSTOCK_RETURN_IF_ERROR(graph.status());
  Values outputs = network.Apply({.graph = &graph, .training = false}, variables, inputs).outputs;
  for (Value& output : outputs) {
    const bool narrow =
        output.valid() && base::IsFloat(output.dtype()) && base::ByteWidth(output.dtype()) < 4;
    if (narrow) output = ir::Convert(output, DType::kF32);
  }
  graph.SetResults(outputs);
  return lowering.Print(graph, Donating(0, objective));
}

absl::StatusOr<ir::Program> GradientsStep(const Objective& objective, const StateLayout& layout,
                                          const BatchTypes& types, int num_replicas,
                                          const kernels::Lowering& lowering) {
  ir::Graph graph("gradients_step", num_replicas);
  const StepValues step = StepOfOneBatch(graph, objective, layout, types);
  PENSTOCK_RETURN_IF_ERROR(graph.status());
  const Values shared(step.state.begin() + layout.first_shared,
                      step.state.begin() + layout.first_shared + layout.num_shared);
  const Value scale = objective.optimizer.LossScale(graph, shared);
  Values results;
  for (const Value& gradient : step.gradients) {
    results.push_back(scale.valid() ? gradient / ir::Convert(scale, gradient.dtype()) : gradient);
  }
  graph.SetResults(results);
  return lowering.Print(graph, Donating(0, objective));
}

absl::StatusOr<Diagnosis> DiagnoseStep(const Objective& objective, const StateLayout& layout,
                                       const BatchTypes& types, int num_replicas,
                                       const kernels::Lowering& lowering) {
  ir::Graph graph("diagnose_step", num_replicas);
  const StepValues step = StepOfOneBatch(graph, objective, layout, types);
  PENSTOCK_RETURN_IF_ERROR(graph.status());
  Diagnosis diagnosis;
  Values found;
  const auto check = [&](std::string place, Value x) {
    if (!x.valid() || !base::IsFloat(x.dtype())) return;
    diagnosis.places.push_back(std::move(place));
    found.push_back(ir::Reshape(ir::Convert(ir::AllFinite({x}), DType::kI32), {1}));
  };
  for (int i = 0; i < layout.num_variables; ++i) {
    check(absl::StrCat("variable ", layout.entries[i].name), step.state[i]);
  }
  const auto& uses = objective.network.uses();
  for (size_t i = 0; i < uses.size(); ++i) {
    const bool input = !uses[i].layer.valid();
    check(input ? absl::StrCat("the input '", uses[i].name, "'")
                : absl::StrCat("the output of layer '", uses[i].name, "' (",
                               uses[i].layer.class_name(), ")"),
          step.forward.network.activations[i][0]);
  }
  check("the loss", step.loss);
  // From the last layer to the first, as gradients are computed.
  for (size_t t = step.trained.size(); t-- > 0;) {
    check(absl::StrCat("the gradient of ", layout.entries[step.trained[t]].name),
          step.gradients[t]);
  }
  // A place is finite if it is on every replica.
  graph.SetResults({ir::AllReduce(ir::Concatenate(found, 0), ir::Reducer::kMin)});
  PENSTOCK_ASSIGN_OR_RETURN(diagnosis.program, lowering.Print(graph, Donating(0, objective)));
  return diagnosis;
}

}  // namespace penstock::train
