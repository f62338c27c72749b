#include "penstock/session/metrics.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/session/body.h"
#include "penstock/session/lowering.h"
#include "penstock/session/variable.h"

namespace penstock::session::metrics {
namespace {

constexpr char kMetricVariables[] = "metric_variables";

struct State {
  std::string name;  // "total", "true_positives/count"
  Shape shape = {};
};

// A metric: sums over batches, and a number computed of them.
struct Streaming {
  const char* name;
  std::vector<State> states;
  // What a batch adds to each state, f32.
  std::function<ir::Values(const ir::Values& in)> additions;
  // The metric's value, an f32 scalar.
  std::function<ir::Value(const ir::Values& states)> result;
};

// A local variable of zeros, outside of control dependencies, loops and branches.
Variable MakeState(const State& state, SourceLocation where) {
  const ControlDependencies none(std::nullopt);
  const BodyScope top_level(Graph::Default(), nullptr);
  return Variable(
      ZerosInitializer()(state.shape, DType::kF32), state.name,
      {.trainable = false, .collections = {graph_keys::kLocalVariables, kMetricVariables}}, where);
}

// The operation that adds to the states and returns the value after it.
Tensor AddUpdate(Graph& graph, const Streaming& metric, const Variables& states,
                 const Tensors& additions, SourceLocation where) {
  std::vector<const VariableDef*> defs;
  for (const Variable& state : states) defs.push_back(state.def());
  Node* const node = graph.AddNode(
      {.type = "UpdateMetric",
       .name = "update_op",
       .outputs = std::vector<Node::Output>{{DType::kF32, PartialShape(Shape())}},
       .stateful = true},
      additions,
      [defs, result = metric.result](Lowering& lowering, const ir::Values& in) -> ir::Values {
        ir::Values sums;
        for (size_t i = 0; i < defs.size(); ++i) {
          sums.push_back(lowering.Read(*defs[i]) + in[i]);
          if (!sums.back().valid()) return {};
          lowering.Assign(*defs[i], sums.back());
        }
        return {result(sums)};
      },
      where);
  return node == nullptr ? Tensor() : Tensor(node, 0);
}

MetricResult AddStreaming(const Streaming& metric, Tensors inputs, const Tensor& weights,
                          const MetricOptions& options, SourceLocation where) {
  if (weights.valid()) inputs.push_back(weights);
  for (const Tensor& input : inputs) {
    if (!input.valid()) return {};
  }
  Graph* const graph = inputs[0].graph();
  const Graph::DefaultScope scope = graph->AsDefault();
  const NameScope names(options.name.empty() ? metric.name : options.name);
  const Tensors additions = AddOps(metric.name, inputs, "additions", where, metric.additions);
  if (additions.size() != metric.states.size() || !additions[0].valid()) return {};
  Variables states;
  for (const State& state : metric.states) {
    states.push_back(MakeState(state, where));
    if (!states.back().valid()) return {};
  }
  const Tensors reads(states.begin(), states.end());
  MetricResult out{.value = AddOp("MetricValue", reads, "value", where, metric.result),
                   .update_op = AddUpdate(*graph, metric, states, additions, where)};
  for (const std::string& collection : options.metrics_collections) {
    graph->AddToCollection(collection, out.value);
  }
  for (const std::string& collection : options.updates_collections) {
    graph->AddToCollection(collection, out.update_op);
  }
  return out;
}

ir::Value FailValue(const ir::Value& at, absl::string_view message) {
  at.graph()->Fail(absl::InvalidArgumentError(message));
  return ir::Value();
}

// a / b, 0 where b is 0.
ir::Value DivideNoNan(ir::Value a, ir::Value b) {
  const ir::Value zero = ir::SplatLike(b, 0), is_zero = ir::Equal(b, zero);
  return ir::Select(is_zero, zero, a / ir::Select(is_zero, ir::SplatLike(b, 1), b));
}

bool EndsWithOne(const ir::Value& x) { return x.rank() > 0 && x.shape().dim(-1) == 1; }

// Labels, predictions and weights of one shape; weights are invalid, or f32 and broadcast.
struct Batch {
  ir::Value labels, predictions, weights;
  bool ok = false;
};

// Weights of the shape of `like`.
ir::Value FitWeights(ir::Value weights, const ir::Value& like) {
  weights = ir::Convert(weights, DType::kF32);
  const int rank = like.rank();
  if (weights.rank() == rank + 1 && EndsWithOne(weights)) weights = ir::Squeeze(weights, {-1});
  if (weights.rank() > 0 && weights.rank() == rank - 1) weights = ir::ExpandDims(weights, -1);
  bool fits = weights.rank() == 0 || weights.rank() == rank;
  for (int i = 0; fits && i < weights.rank(); ++i) {
    fits = weights.shape().dim(i) == 1 || weights.shape().dim(i) == like.shape().dim(i);
  }
  if (fits) return ir::BroadcastTo(weights, like.shape());
  return FailValue(
      like, absl::StrCat("weights of shape ", weights.shape().ToString(),
                         " cannot be broadcast to values of shape ", like.shape().ToString()));
}

// `in`: labels, predictions, and weights if there are any.
Batch FitBatch(const ir::Values& in) {
  Batch batch{in[0], in[1], {}, false};
  if (!batch.labels.valid() || !batch.predictions.valid()) return batch;
  const int difference = batch.predictions.rank() - batch.labels.rank();
  if (difference == 1 && EndsWithOne(batch.predictions)) {
    batch.predictions = ir::Squeeze(batch.predictions, {-1});
  } else if (difference == -1 && EndsWithOne(batch.labels)) {
    batch.labels = ir::Squeeze(batch.labels, {-1});
  }
  if (!(batch.labels.shape() == batch.predictions.shape())) {
    FailValue(in[0], absl::StrCat("labels have shape ", in[0].shape().ToString(), ", predictions ",
                                  in[1].shape().ToString(), "; they must be equal"));
    return batch;
  }
  if (in.size() > 2) {
    batch.weights = FitWeights(in[2], batch.labels);
    if (!batch.weights.valid()) return batch;
  }
  batch.ok = true;
  return batch;
}

ir::Value Bool(ir::Value x) {
  return x.dtype() == DType::kBool ? x : ir::Compare(x, ir::SplatLike(x, 0), ir::Comparison::kNe);
}

// {sum of the weighted values, sum of the weights}.
ir::Values SumAndCount(ir::Value values, ir::Value weights) {
  if (!values.valid()) return {};
  values = ir::Convert(values, DType::kF32);
  if (!weights.valid()) {
    const ir::Value sum = ir::ReduceSum(values);
    return {sum, ir::SplatLike(sum, static_cast<double>(values.shape().num_elements()))};
  }
  return {ir::ReduceSum(values * weights), ir::ReduceSum(weights)};
}

ir::Value MeanOf(const ir::Values& states) { return DivideNoNan(states[0], states[1]); }

// The mean of a function of labels and predictions.
MetricResult AddMean(const char* name, std::function<ir::Value(ir::Value, ir::Value)> each,
                     const Tensor& labels, const Tensor& predictions, const Tensor& weights,
                     const MetricOptions& options, SourceLocation where,
                     std::function<ir::Value(const ir::Values&)> result = MeanOf) {
  const auto additions = [each = std::move(each)](const ir::Values& in) -> ir::Values {
    const Batch batch = FitBatch(in);
    if (!batch.ok) return {};
    return SumAndCount(each(batch.labels, batch.predictions), batch.weights);
  };
  return AddStreaming({name, {{"total"}, {"count"}}, additions, std::move(result)},
                      {labels, predictions}, weights, options, where);
}

ir::Value InFloat32(ir::Value x) { return ir::Convert(x, DType::kF32); }

ir::Value SquaredDifference(ir::Value labels, ir::Value predictions) {
  return ir::Square(InFloat32(predictions) - InFloat32(labels));
}

// One of the four counts of labels and predictions.
struct Count {
  const char* name;
  bool label, prediction;
};
constexpr Count kTruePositives{"true_positives", true, true};
constexpr Count kTrueNegatives{"true_negatives", false, false};
constexpr Count kFalsePositives{"false_positives", false, true};
constexpr Count kFalseNegatives{"false_negatives", true, false};

ir::Value CountOf(const Batch& batch, const Count& count) {
  const ir::Value label = Bool(batch.labels), prediction = Bool(batch.predictions);
  const ir::Value counted = ir::And(count.label ? label : ir::Not(label),
                                    count.prediction ? prediction : ir::Not(prediction));
  const ir::Value number = ir::Convert(counted, DType::kF32);
  return ir::ReduceSum(batch.weights.valid() ? number * batch.weights : number);
}

MetricResult AddCounts(const char* name, const std::vector<Count>& counts,
                       std::vector<State> states,
                       std::function<ir::Value(const ir::Values&)> result, const Tensor& labels,
                       const Tensor& predictions, const Tensor& weights,
                       const MetricOptions& options, SourceLocation where) {
  const auto additions = [counts](const ir::Values& in) -> ir::Values {
    const Batch batch = FitBatch(in);
    if (!batch.ok) return {};
    ir::Values sums;
    for (const Count& count : counts) sums.push_back(CountOf(batch, count));
    return sums;
  };
  return AddStreaming({name, std::move(states), additions, std::move(result)},
                      {labels, predictions}, weights, options, where);
}

MetricResult AddCount(const Count& count, const Tensor& labels, const Tensor& predictions,
                      const Tensor& weights, const MetricOptions& options, SourceLocation where) {
  return AddCounts(
      count.name, {count}, {{"count"}}, [](const ir::Values& states) { return states[0]; }, labels,
      predictions, weights, options, where);
}

// first / (first + second).
MetricResult AddRatio(const char* name, const Count& first, const Count& second,
                      const Tensor& labels, const Tensor& predictions, const Tensor& weights,
                      const MetricOptions& options, SourceLocation where) {
  const std::vector<State> states{{absl::StrCat(first.name, "/count")},
                                  {absl::StrCat(second.name, "/count")}};
  return AddCounts(
      name, {first, second}, states,
      [](const ir::Values& s) { return DivideNoNan(s[0], s[0] + s[1]); }, labels, predictions,
      weights, options, where);
}

// ---- Curves ----

// Counts at each threshold: true positives, false negatives, true negatives, false positives.
ir::Values CountsAtThresholds(const ir::Values& in, const Array& thresholds) {
  const Batch batch = FitBatch(in);
  if (!batch.ok) return {};
  const int64_t size = batch.labels.shape().num_elements();
  const ir::Value predictions = ir::Reshape(InFloat32(batch.predictions), {1, size});
  const ir::Value label = ir::Reshape(Bool(batch.labels), {1, size});
  const ir::Value limits = ir::ExpandDims(ir::Constant(*predictions.graph(), thresholds), 1);
  const ir::Value positive = ir::Greater(predictions, limits);
  const auto sum = [&](ir::Value counted) {
    const ir::Value number = ir::Convert(counted, DType::kF32);
    if (!batch.weights.valid()) return ir::ReduceSum(number, {1});
    return ir::ReduceSum(number * ir::Reshape(batch.weights, {1, size}), {1});
  };
  const ir::Value negative = ir::Not(positive), other = ir::Not(label);
  return {sum(ir::And(label, positive)), sum(ir::And(label, negative)),
          sum(ir::And(other, negative)), sum(ir::And(other, positive))};
}

ir::Value Upper(ir::Value x) { return ir::SliceAxis(x, 0, 0, x.shape().dim(0) - 1); }
ir::Value Lower(ir::Value x) { return ir::SliceAxis(x, 0, 1, x.shape().dim(0)); }

ir::Value AtLeastZero(ir::Value x) { return ir::Maximum(x, ir::SplatLike(x, 0)); }

// Davis and Goadrich: The relationship between precision-recall and ROC curves, 2006.
ir::Value InterpolatedPrAuc(ir::Value tp, ir::Value fp, ir::Value fn) {
  const ir::Value dtp = Upper(tp) - Lower(tp), p = tp + fp;
  const ir::Value slope = DivideNoNan(dtp, AtLeastZero(Upper(p) - Lower(p)));
  const ir::Value intercept = Lower(tp) - slope * Lower(p);
  const ir::Value zero = ir::SplatLike(Lower(p), 0);
  const ir::Value both = ir::And(ir::Greater(Upper(p), zero), ir::Greater(Lower(p), zero));
  const ir::Value ratio =
      ir::Select(both, DivideNoNan(Upper(p), AtLeastZero(Lower(p))), ir::SplatLike(zero, 1));
  return ir::ReduceSum(
      DivideNoNan(slope * (dtp + intercept * ir::Log(ratio)), AtLeastZero(Lower(tp) + Lower(fn))));
}

// `s`: the counts at each threshold, as CountsAtThresholds orders them.
ir::Value AreaUnderCurve(const ir::Values& s, const std::string& curve, const std::string& method) {
  constexpr double kEpsilon = 1e-6;
  const ir::Value tp = s[0], fn = s[1], tn = s[2], fp = s[3];
  if (curve == "PR" && method == "careful_interpolation") return InterpolatedPrAuc(tp, fp, fn);
  const ir::Value recall = (tp + kEpsilon) / (tp + fn + kEpsilon);
  const bool roc = curve == "ROC";
  const ir::Value x = roc ? fp / (fp + tn + kEpsilon) : recall;
  const ir::Value y = roc ? recall : (tp + kEpsilon) / (tp + fp + kEpsilon);
  const ir::Value height = method == "minoring"   ? ir::Minimum(Upper(y), Lower(y))
                           : method == "majoring" ? ir::Maximum(Upper(y), Lower(y))
                                                  : (Upper(y) + Lower(y)) / 2.0;
  return ir::ReduceSum((Upper(x) - Lower(x)) * height);
}

absl::Status CheckAuc(const AucOptions& options) {
  if (options.curve != "ROC" && options.curve != "PR") {
    return absl::InvalidArgumentError(
        absl::StrCat("the curve is \"ROC\" or \"PR\", not \"", options.curve, "\""));
  }
  const char* const methods[] = {"trapezoidal", "careful_interpolation", "minoring", "majoring"};
  if (std::find(std::begin(methods), std::end(methods), options.summation_method) ==
      std::end(methods)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the summation_method is \"trapezoidal\", \"careful_interpolation\", \"minoring\" or "
        "\"majoring\", not \"",
        options.summation_method, "\""));
  }
  if (options.thresholds.empty() && options.num_thresholds < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_thresholds must be 2 or more, got ", options.num_thresholds));
  }
  return absl::OkStatus();
}

Array ThresholdsOf(const AucOptions& options) {
  constexpr double kEpsilon = 1e-7;  // the first threshold is below 0, the last one above 1
  std::vector<double> given = options.thresholds;
  std::sort(given.begin(), given.end());
  if (given.empty()) {
    for (int64_t i = 1; i < options.num_thresholds - 1; ++i) {
      given.push_back(static_cast<double>(i) / static_cast<double>(options.num_thresholds - 1));
    }
  }
  std::vector<float> all{static_cast<float>(-kEpsilon)};
  for (const double threshold : given) all.push_back(static_cast<float>(threshold));
  all.push_back(static_cast<float>(1 + kEpsilon));
  return Array::Of<float>({static_cast<int64_t>(all.size())}, absl::MakeConstSpan(all));
}

// Whether each label is among the k largest predictions of its row: as tf.nn.in_top_k, ties with
// the k-th count, and rows whose label has no finite prediction do not.
ir::Value InTopK(ir::Value labels, ir::Value predictions, int64_t k) {
  if (labels.rank() == predictions.rank() && EndsWithOne(labels)) {
    labels = ir::Squeeze(labels, {-1});
  }
  if (predictions.rank() != 2 || labels.rank() != 1 ||
      labels.shape().dim(0) != predictions.shape().dim(0) || base::IsFloat(labels.dtype())) {
    return FailValue(
        predictions,
        absl::StrCat("predictions are [batch, classes] and labels class indices "
                     "[batch]; got ",
                     predictions.type().ToString(), " and ", labels.type().ToString()));
  }
  const ir::Value index = ir::ExpandDims(labels, 1);
  const ir::Value own = ir::TakeAlongAxis(predictions, index, 1);  // [batch, 1]
  const ir::Value larger = ir::Convert(ir::Greater(predictions, own), DType::kI32);
  const ir::Value count = ir::ReduceSum(larger, {1});
  const auto classes = static_cast<double>(predictions.shape().dim(1));
  const ir::Value known = ir::And(ir::GreaterEqual(labels, ir::SplatLike(labels, 0)),
                                  ir::Less(labels, ir::SplatLike(labels, classes)));
  const ir::Value finite = ir::And(ir::IsFinite(ir::Squeeze(own, {1})), known);
  return ir::And(finite, ir::Less(count, ir::SplatLike(count, static_cast<double>(k))));
}

}  // namespace

MetricResult Mean(const Tensor& values, const Tensor& weights, const MetricOptions& options,
                  SourceLocation where) {
  const auto additions = [](const ir::Values& in) -> ir::Values {
    const ir::Value weight = in.size() > 1 ? FitWeights(in[1], in[0]) : ir::Value();
    if (in.size() > 1 && !weight.valid()) return {};
    return SumAndCount(in[0], weight);
  };
  return AddStreaming({"mean", {{"total"}, {"count"}}, additions, MeanOf}, {values}, weights,
                      options, where);
}

MetricResult Accuracy(const Tensor& labels, const Tensor& predictions, const Tensor& weights,
                      const MetricOptions& options, SourceLocation where) {
  const auto each = [](ir::Value y, ir::Value p) {
    return ir::Equal(ir::Convert(p, y.dtype()), y);
  };
  return AddMean("accuracy", each, labels, predictions, weights, options, where);
}

MetricResult MeanAbsoluteError(const Tensor& labels, const Tensor& predictions,
                               const Tensor& weights, const MetricOptions& options,
                               SourceLocation where) {
  const auto each = [](ir::Value y, ir::Value p) { return ir::Abs(InFloat32(p) - InFloat32(y)); };
  return AddMean("mean_absolute_error", each, labels, predictions, weights, options, where);
}

MetricResult MeanSquaredError(const Tensor& labels, const Tensor& predictions,
                              const Tensor& weights, const MetricOptions& options,
                              SourceLocation where) {
  return AddMean("mean_squared_error", SquaredDifference, labels, predictions, weights, options,
                 where);
}

MetricResult RootMeanSquaredError(const Tensor& labels, const Tensor& predictions,
                                  const Tensor& weights, const MetricOptions& options,
                                  SourceLocation where) {
  return AddMean("root_mean_squared_error", SquaredDifference, labels, predictions, weights,
                 options, where, [](const ir::Values& s) { return ir::Sqrt(MeanOf(s)); });
}

MetricResult TruePositives(const Tensor& labels, const Tensor& predictions, const Tensor& weights,
                           const MetricOptions& options, SourceLocation where) {
  return AddCount(kTruePositives, labels, predictions, weights, options, where);
}
MetricResult TrueNegatives(const Tensor& labels, const Tensor& predictions, const Tensor& weights,
                           const MetricOptions& options, SourceLocation where) {
  return AddCount(kTrueNegatives, labels, predictions, weights, options, where);
}
MetricResult FalsePositives(const Tensor& labels, const Tensor& predictions, const Tensor& weights,
                            const MetricOptions& options, SourceLocation where) {
  return AddCount(kFalsePositives, labels, predictions, weights, options, where);
}
MetricResult FalseNegatives(const Tensor& labels, const Tensor& predictions, const Tensor& weights,
                            const MetricOptions& options, SourceLocation where) {
  return AddCount(kFalseNegatives, labels, predictions, weights, options, where);
}

MetricResult Precision(const Tensor& labels, const Tensor& predictions, const Tensor& weights,
                       const MetricOptions& options, SourceLocation where) {
  return AddRatio("precision", kTruePositives, kFalsePositives, labels, predictions, weights,
                  options, where);
}

MetricResult Recall(const Tensor& labels, const Tensor& predictions, const Tensor& weights,
                    const MetricOptions& options, SourceLocation where) {
  return AddRatio("recall", kTruePositives, kFalseNegatives, labels, predictions, weights, options,
                  where);
}

MetricResult Auc(const Tensor& labels, const Tensor& predictions, const Tensor& weights,
                 const AucOptions& options, SourceLocation where) {
  if (const absl::Status status = CheckAuc(options); !status.ok()) {
    FailOp({labels, predictions}, "auc", status.message(), where);
    return {};
  }
  const Array thresholds = ThresholdsOf(options);
  std::vector<State> states;
  for (const char* name :
       {"true_positives", "false_negatives", "true_negatives", "false_positives"}) {
    states.push_back({name, thresholds.shape()});
  }
  return AddStreaming(
      {"auc", states,
       [thresholds](const ir::Values& in) { return CountsAtThresholds(in, thresholds); },
       [curve = options.curve, method = options.summation_method](const ir::Values& s) {
         return AreaUnderCurve(s, curve, method);
       }},
      {labels, predictions}, weights,
      {.metrics_collections = options.metrics_collections,
       .updates_collections = options.updates_collections,
       .name = options.name},
      where);
}

MetricResult SparseTopKAccuracy(const Tensor& labels, const Tensor& predictions, int64_t k,
                                const Tensor& weights, const MetricOptions& options,
                                SourceLocation where) {
  const auto additions = [k](const ir::Values& in) -> ir::Values {
    const ir::Value hits = InTopK(in[0], in[1], k);
    if (!hits.valid()) return {};
    const ir::Value weight = in.size() > 2 ? FitWeights(in[2], hits) : ir::Value();
    if (in.size() > 2 && !weight.valid()) return {};
    return SumAndCount(hits, weight);
  };
  return AddStreaming({"sparse_top_k_accuracy", {{"total"}, {"count"}}, additions, MeanOf},
                      {labels, predictions}, weights, options, where);
}

}  // namespace penstock::session::metrics
