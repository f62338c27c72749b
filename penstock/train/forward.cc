#include "penstock/train/forward.h"

#include "absl/strings/str_cat.h"

namespace penstock::train {
namespace {

using base::DType;
using ir::Value;
using ir::Values;

// Weights of the rows as f32[rows]; 0 for padding, whatever the batch contains there.
Value WeightOf(Value weight, Value mask) {
  if (weight.rank() == 2 && weight.shape().dim(1) == 1) weight = ir::Squeeze(weight, {1});
  if (!(weight.shape() == mask.shape())) {
    weight.graph()->Fail(absl::InvalidArgumentError(
        absl::StrCat("sample weights are one number for each example, [batch]; got ",
                     weight.type().ToString())));
    return Value();
  }
  weight = ir::Convert(weight, DType::kF32);
  return ir::Select(ir::Greater(mask, ir::SplatLike(mask, 0)), weight, ir::SplatLike(weight, 0));
}

void Append(Values& all, const Values& more) { all.insert(all.end(), more.begin(), more.end()); }

// Increments of the states of the outputs' metrics.
Values UpdateMetrics(const Objective& objective, const BatchValues& batch,
                     const Values& predictions) {
  Values additions;
  for (size_t t = 0; t < objective.targets.size(); ++t) {
    const Target& target = objective.targets[t];
    for (const nn::Metric& metric : target.metrics) {
      Append(additions, metric.Update(batch.labels[t], predictions[t], batch.mask));
    }
    for (const nn::Metric& metric : target.weighted_metrics) {
      Append(additions, metric.Update(batch.labels[t], predictions[t], batch.weights[t]));
    }
  }
  return additions;
}

// Losses of the rows for one set of labels, before the division by what counts.
struct RowLosses {
  nn::LossTerms terms;
  Value each;     // f32[rows], weighted
  Value counted;  // f32[rows]: the fraction of values that count, weighted
};

RowLosses LossesOf(const nn::Loss& loss, const nn::LossArguments& arguments, Value weights) {
  RowLosses rows;
  rows.terms = loss.Terms(arguments);
  if (!rows.terms.sum.valid()) return rows;
  const bool weighed = !(weights == arguments.examples);
  // Selected, not multiplied: the loss of a row with weight 0 may be NaN.
  rows.each = weighed ? ir::Select(ir::Equal(weights, ir::SplatLike(weights, 0)),
                                   ir::SplatLike(rows.terms.sum, 0), rows.terms.sum * weights)
                      : rows.terms.sum;
  rows.counted = rows.terms.count * weights;
  return rows;
}

// Loss of each row for a target. The step divides the sum over all rows by the number of examples E
// of all replicas. For a loss with another divisor D, the rows are multiplied by E / D here.
Value TargetLoss(const Target& target, const BatchValues& batch, size_t t, Value prediction,
                 Value mask) {
  nn::LossArguments arguments{
      .y_true = batch.labels[t], .y_pred = prediction, .mask = mask, .examples = batch.mask};
  RowLosses rows = LossesOf(target.loss, arguments, batch.weights[t]);
  if (!rows.each.valid()) return Value();
  nn::LossTerms& terms = rows.terms;
  Value& each = rows.each;
  const bool weighed = !(batch.weights[t] == batch.mask);
  if (batch.share.valid()) {
    arguments.y_true = batch.other_labels[t];
    const RowLosses other = LossesOf(target.loss, arguments, batch.other_weights[t]);
    if (!other.each.valid()) return Value();
    const auto mix = [&](Value own, Value others) {
      return batch.share * own + (1.0 - batch.share) * others;
    };
    each = mix(each, other.each);
    rows.counted = mix(rows.counted, other.counted);
    terms.count = mix(terms.count, other.terms.count);
  }
  const std::string& reduction = target.loss.reduction();
  const auto over_replicas = [](Value x) { return ir::AllReduce(ir::ReduceSum(x)); };
  Value divisor;
  if (reduction == "sum") {
    return each * terms.values * over_replicas(batch.mask);
  }
  if (reduction == "mean_with_sample_weight" && weighed) {
    divisor = over_replicas(rows.counted);
  } else if (!terms.all_count) {
    divisor = over_replicas(terms.count * batch.mask);
  } else {
    return each;
  }
  const Value nothing = ir::Equal(divisor, ir::SplatLike(divisor, 0));
  return each *
         (over_replicas(batch.mask) / ir::Select(nothing, ir::SplatLike(divisor, 1), divisor));
}

// Losses of all targets; empty after an error.
Values TargetLosses(const Objective& objective, const BatchValues& batch,
                    const nn::Network::Result& network) {
  Values losses;
  for (size_t t = 0; t < objective.targets.size(); ++t) {
    losses.push_back(
        TargetLoss(objective.targets[t], batch, t, network.outputs[t], network.output_masks[t]));
    if (!losses.back().valid()) return {};
  }
  return losses;
}

Value WeightedSum(const Objective& objective, const Values& losses) {
  Value sum;
  for (size_t t = 0; t < losses.size(); ++t) {
    const double weight = objective.targets[t].weight;
    const Value share = weight == 1 ? losses[t] : losses[t] * weight;
    sum = t == 0 ? share : sum + share;
  }
  return sum;
}

// Folded into the RNG key of a custom step's later calls of the network; no layer has this number.
constexpr uint32_t kLaterCalls = 0x61707000;

// Forward pass of a custom step.
Forward RunCustom(ir::Graph& graph, const Objective& objective, const nn::ApplyOptions& options,
                  const Values& variables, const BatchValues& batch) {
  Forward forward;
  StepContext context{.graph = graph,
                      .training = options.training,
                      .inputs = batch.inputs,
                      .labels = batch.labels,
                      .weights = batch.weights,
                      .mask = batch.mask,
                      .key = options.key};
  // Each call starts from the values assigned by the previous calls, and draws other random
  // numbers.
  Values current = variables;
  nn::ApplyOptions next = options;
  uint32_t calls = 0;
  context.apply = [&](const Values& inputs) {
    absl::flat_hash_map<int, Value> before = std::move(forward.network.assigned);
    forward.network = objective.network.Apply(next, current, inputs);
    for (const auto& [index, value] : forward.network.assigned) current[index] = value;
    forward.network.assigned.insert(before.begin(), before.end());
    if (options.key.valid()) next.key = ir::FoldIn(options.key, kLaterCalls + calls++);
    return forward.network.outputs;
  };
  StepResult result;
  try {
    result = objective.custom->function(context);
  } catch (const std::exception& e) {
    // An earlier error is the cause.
    if (graph.status().ok()) {
      graph.Fail(
          absl::InternalError(absl::StrCat("the custom step threw an exception: ", e.what())));
    }
  }
  if (!graph.status().ok()) return forward;
  const auto wrong = [&](const std::string& what) {
    graph.Fail(absl::InvalidArgumentError(absl::StrCat("the custom step ", what)));
    return Forward();
  };
  if (forward.network.activations.empty()) return wrong("never calls apply, so nothing is trained");
  if (!result.loss.valid() || !(result.loss.shape() == batch.mask.shape())) {
    return wrong(absl::StrCat("must give a loss for each example, f32",
                              batch.mask.shape().ToString(), "; got ",
                              result.loss.valid() ? result.loss.type().ToString() : "none"));
  }
  if (result.measured.size() != objective.custom->measures.size()) {
    return wrong(absl::StrCat("gives ", result.measured.size(),
                              " measured values; it has names for ",
                              objective.custom->measures.size()));
  }
  forward.per_example = ir::Convert(result.loss, DType::kF32);
  forward.metric_additions = nn::MeanUpdate(forward.per_example, batch.mask);
  for (const Value& each : result.measured) {
    if (!each.valid() || !(each.shape() == batch.mask.shape())) {
      return wrong("must give each measured value for each example, as the loss");
    }
    Append(forward.metric_additions, nn::MeanUpdate(ir::Convert(each, DType::kF32), batch.mask));
  }
  Append(forward.metric_additions, UpdateMetrics(objective, batch, forward.network.outputs));
  return forward;
}

}  // namespace

Values ConvertInputs(const nn::Network& network, Values inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = ir::Convert(inputs[i], network.inputs()[i].type.dtype);
  }
  return inputs;
}

BatchValues MakeBatch(ir::Graph& graph, const Objective& objective, const Values& values) {
  BatchValues batch;
  const auto labels = values.begin() + static_cast<int64_t>(objective.network.inputs().size());
  const auto weights = labels + static_cast<int64_t>(objective.targets.size());
  batch.inputs = ConvertInputs(objective.network, Values(values.begin(), labels));
  batch.labels = Values(labels, weights);
  batch.count = values.back();
  const int64_t rows = batch.inputs[0].shape().dim(0);
  const Value place = ir::Iota(graph, {DType::kI32, {rows}}, 0);
  batch.mask = ir::Convert(ir::Less(place, batch.count), DType::kF32);
  const Values given(weights, values.end() - 1);
  for (size_t t = 0; t < objective.targets.size(); ++t) {
    batch.weights.push_back(given.empty() ? batch.mask
                                          : WeightOf(given[given.size() == 1 ? 0 : t], batch.mask));
  }
  return batch;
}

namespace {

// Folded into the step's RNG key; no layer has this number.
constexpr uint32_t kMixing = 0x6d697800;

// Rows of `first` where `which` (bool[rows]) is true, of `second` elsewhere.
Value SelectRows(Value which, Value first, Value second) {
  return ir::Select(ir::BroadcastInDim(which, first.shape(), {0}), first, second);
}

}  // namespace

BatchValues MixBatch(const Objective& objective, BatchValues batch, Value key) {
  if (objective.batch_augmentation.empty()) return batch;
  ir::Scope scope(*key.graph(), "batch_augmentation");
  nn::MixedBatch mixed = nn::MixBatch(objective.batch_augmentation, ir::FoldIn(key, kMixing),
                                      batch.inputs, batch.mask);
  if (!mixed.share.valid()) return batch;  // the graph has an error
  batch.inputs = std::move(mixed.inputs);
  const Value is_larger = ir::GreaterEqual(mixed.share, ir::SplatLike(mixed.share, 0.5));
  batch.share = ir::Maximum(mixed.share, 1.0 - mixed.share);
  for (Value& label : batch.labels) {
    const Value own = label, other = ir::Take(label, mixed.partner, 0);
    label = SelectRows(is_larger, own, other);
    batch.other_labels.push_back(SelectRows(is_larger, other, own));
  }
  for (Value& weights : batch.weights) {
    const Value own = weights;
    const Value other = own == batch.mask ? own : ir::Take(own, mixed.partner, 0);
    if (!(own == batch.mask)) weights = SelectRows(is_larger, own, other);
    batch.other_weights.push_back(own == batch.mask ? own : SelectRows(is_larger, other, own));
  }
  return batch;
}

Forward RunForward(ir::Graph& graph, const Objective& objective, const Values& variables,
                   const BatchValues& batch, bool training, Value key) {
  const nn::ApplyOptions options{
      .graph = &graph, .training = training, .key = key, .sample_mask = batch.mask};
  if (objective.custom.has_value()) return RunCustom(graph, objective, options, variables, batch);
  Forward forward;
  forward.network = objective.network.Apply(options, variables, batch.inputs);
  if (!graph.status().ok()) return forward;
  ir::Scope scope(graph, "loss");
  const Values losses = TargetLosses(objective, batch, forward.network);
  if (losses.empty()) return forward;
  forward.per_example = WeightedSum(objective, losses);
  for (const Value& penalty : forward.network.losses) {
    forward.per_example = forward.per_example + penalty;
  }
  forward.metric_additions = nn::MeanUpdate(forward.per_example, batch.mask);
  for (size_t t = 0; t < losses.size() && losses.size() > 1; ++t) {
    Append(forward.metric_additions, nn::MeanUpdate(losses[t], batch.mask));
  }
  Append(forward.metric_additions, UpdateMetrics(objective, batch, forward.network.outputs));
  return forward;
}

}  // namespace penstock::train
