#include "penstock/session/losses.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/nn/losses.h"
#include "penstock/session/lowering.h"

namespace penstock::session::losses {
namespace {

// Losses of labels and predictions before weights.
using LossFunction = std::function<ir::Value(ir::Value labels, ir::Value predictions)>;

// A loss of this file: its name, its losses, and the loss of room nn whose mean is the same.
struct Formula {
  const char* name;
  LossFunction each;
  std::optional<::penstock::nn::Loss> mean = {};
  // The losses lack the predictions' last axis: class indices, or one loss for each row.
  bool reduces_last_axis = false;
  bool has_class_indices = false;
};

ir::Value FailValue(const ir::Value& at, absl::string_view message) {
  at.graph()->Fail(absl::InvalidArgumentError(message));
  return ir::Value();
}

// As tf.weights_broadcast_ops.assert_broadcastable.
bool IsBroadcastable(const Shape& weights, const Shape& losses) {
  if (weights.rank() == 0) return true;
  if (weights.rank() != losses.rank()) return false;
  for (int i = 0; i < weights.rank(); ++i) {
    if (weights.dim(i) != 1 && weights.dim(i) != losses.dim(i)) return false;
  }
  return true;
}

// a / b, 0 where b is 0.
ir::Value SafeDivide(ir::Value a, ir::Value b) {
  const ir::Value zero = ir::SplatLike(b, 0), is_zero = ir::Equal(b, zero);
  return ir::Select(is_zero, zero, a / ir::Select(is_zero, ir::SplatLike(b, 1), b));
}

// `weights`: an f32 value, broadcastable to the losses.
ir::Value Reduce(ir::Value losses, ir::Value weights, Reduction reduction) {
  if (!losses.valid() || !weights.valid()) return ir::Value();
  weights = ir::Convert(weights, DType::kF32);
  if (!IsBroadcastable(weights.shape(), losses.shape())) {
    return FailValue(
        losses, absl::StrCat("weights of shape ", weights.shape().ToString(),
                             " cannot be broadcast to losses of shape ", losses.shape().ToString(),
                             ": they need rank 0, or the same rank with extents "
                             "that are equal or 1"));
  }
  const ir::Value weighted = losses * weights;
  if (reduction == Reduction::kNone) return weighted;
  const ir::Value total = ir::ReduceSum(weighted);
  const auto over_losses = [&](ir::Value x) {
    return ir::ReduceSum(ir::BroadcastTo(x, losses.shape()));
  };
  switch (reduction) {
    case Reduction::kMean:
      return SafeDivide(total, over_losses(weights));
    case Reduction::kSumByNonzeroWeights: {
      const ir::Value present =
          ir::Compare(weights, ir::SplatLike(weights, 0), ir::Comparison::kNe);
      return SafeDivide(total, over_losses(ir::Convert(present, DType::kF32)));
    }
    case Reduction::kSumOverBatchSize:
      return SafeDivide(total,
                        ir::SplatLike(total, static_cast<double>(losses.shape().num_elements())));
    default:
      return total;
  }
}

// Keras's mean over the examples, in the operations of a training step (train/step_program.cc).
ir::Value MeanOverExamples(const ::penstock::nn::Loss& loss, ir::Value labels,
                           ir::Value predictions) {
  const ir::Value each = loss.Terms({.y_true = labels, .y_pred = predictions}).sum;
  if (!each.valid()) return ir::Value();
  if (each.shape().num_elements() == 0) return ir::ReduceSum(each);  // 0, as TensorFlow's safe mean
  const ir::Value examples =
      ir::SplatLike(ir::ReduceSum(each), static_cast<double>(each.shape().num_elements()));
  return ir::ReduceSum(each) / examples;
}

bool IsMean(Reduction reduction) {
  return reduction != Reduction::kNone && reduction != Reduction::kSum;
}

// x without its last axis, if that is 1.
ir::Value WithoutLastOne(ir::Value x) {
  const bool drops = x.rank() > 0 && x.shape().dim(-1) == 1;
  return drops ? ir::Squeeze(x, {-1}) : x;
}

// Labels and weights as the formula takes them.
struct Arguments {
  ir::Value labels, predictions, weights;
};
bool Prepare(const Formula& formula, Arguments& arguments) {
  auto& [labels, predictions, weights] = arguments;
  if (!labels.valid() || !predictions.valid()) return false;
  predictions = ir::Convert(predictions, DType::kF32);
  if (!formula.has_class_indices) {
    labels = ir::Convert(labels, DType::kF32);
    if (labels.shape() == predictions.shape()) return true;
    FailValue(labels,
              absl::StrCat("labels have shape ", labels.shape().ToString(), ", predictions ",
                           predictions.shape().ToString(), "; they must be equal"));
    return false;
  }
  if (base::IsFloat(labels.dtype()) || labels.dtype() == DType::kBool) {
    FailValue(labels,
              absl::StrCat("labels are class indices, integers; got ", labels.type().ToString()));
    return false;
  }
  if (labels.rank() == predictions.rank()) labels = WithoutLastOne(labels);
  if (labels.rank() + 1 != predictions.rank()) {
    FailValue(labels, absl::StrCat("labels of class indices need one axis less than the logits; "
                                   "got labels ",
                                   labels.shape().ToString(), " and logits ",
                                   predictions.shape().ToString()));
    return false;
  }
  if (weights.valid() && weights.rank() == labels.rank() + 1) weights = WithoutLastOne(weights);
  return true;
}

Tensor AddFormula(const Formula& formula, const Tensor& labels, const Tensor& predictions,
                  const Weights& weights, const LossOptions& options, SourceLocation where) {
  Tensors inputs{labels, predictions};
  if (weights.is_tensor()) inputs.push_back(weights.tensor());
  const std::string scope = options.scope.empty() ? formula.name : options.scope;
  const Tensor loss =
      AddOp(formula.name, inputs, absl::StrCat(scope, "/value"), where,
            [formula, reduction = options.reduction,
             number = weights.is_tensor() ? std::optional<double>()
                                          : weights.number()](const ir::Values& in) {
              Arguments a{in[0], in[1], in.size() > 2 ? in[2] : ir::Value()};
              if (!Prepare(formula, a)) return ir::Value();
              const bool rows = formula.reduces_last_axis || a.predictions.rank() > 1;
              if (number == 1 && IsMean(reduction) && formula.mean.has_value() && rows) {
                return MeanOverExamples(*formula.mean, a.labels, a.predictions);
              }
              if (number.has_value()) {
                a.weights = ir::Splat(*in[0].graph(), {DType::kF32, {}}, *number);
              }
              return Reduce(formula.each(a.labels, a.predictions), a.weights, reduction);
            });
  if (!options.loss_collection.empty()) AddLoss(loss, options.loss_collection);
  return loss;
}

// The losses of a loss of room nn, one for each row.
LossFunction RowsOf(const ::penstock::nn::Loss& loss) {
  return [loss](ir::Value labels, ir::Value predictions) {
    return loss.Unreduced({.y_true = labels, .y_pred = predictions}).each;
  };
}

}  // namespace

Tensor SparseSoftmaxCrossEntropy(const Tensor& labels, const Tensor& logits, const Weights& weights,
                                 const LossOptions& options, SourceLocation where) {
  const ::penstock::nn::Loss loss =
      ::penstock::nn::SparseCategoricalCrossentropy({.from_logits = true});
  return AddFormula({.name = "sparse_softmax_cross_entropy_loss",
                     .each = RowsOf(loss),
                     .mean = loss,
                     .reduces_last_axis = true,
                     .has_class_indices = true},
                    labels, logits, weights, options, where);
}

Tensor SoftmaxCrossEntropy(const Tensor& onehot_labels, const Tensor& logits,
                           const Weights& weights, double label_smoothing,
                           const LossOptions& options, SourceLocation where) {
  const ::penstock::nn::Loss loss = ::penstock::nn::CategoricalCrossentropy(
      {.from_logits = true, .label_smoothing = label_smoothing});
  const Tensor labels =
      AddOp("StopGradient", {onehot_labels},
            absl::StrCat(options.scope.empty() ? "softmax_cross_entropy_loss" : options.scope,
                         "/labels_stop_gradient"),
            where, [](const ir::Values& in) { return ir::StopGradient(in[0]); });
  return AddFormula({.name = "softmax_cross_entropy_loss",
                     .each = RowsOf(loss),
                     .mean = loss,
                     .reduces_last_axis = true},
                    labels, logits, weights, options, where);
}

Tensor SigmoidCrossEntropy(const Tensor& multi_class_labels, const Tensor& logits,
                           const Weights& weights, double label_smoothing,
                           const LossOptions& options, SourceLocation where) {
  const ::penstock::nn::Loss loss =
      ::penstock::nn::BinaryCrossentropy({.from_logits = true, .label_smoothing = label_smoothing});
  const auto each = [label_smoothing](ir::Value z, ir::Value x) {
    if (label_smoothing > 0) z = z * (1 - label_smoothing) + 0.5 * label_smoothing;
    return ir::Maximum(x, ir::SplatLike(x, 0)) - x * z + ir::Log1p(ir::Exp(-ir::Abs(x)));
  };
  return AddFormula({.name = "sigmoid_cross_entropy_loss", .each = each, .mean = loss},
                    multi_class_labels, logits, weights, options, where);
}

Tensor MeanSquaredError(const Tensor& labels, const Tensor& predictions, const Weights& weights,
                        const LossOptions& options, SourceLocation where) {
  const auto each = [](ir::Value y, ir::Value p) { return ir::Square(p - y); };
  return AddFormula(
      {.name = "mean_squared_error", .each = each, .mean = ::penstock::nn::MeanSquaredError()},
      labels, predictions, weights, options, where);
}

Tensor AbsoluteDifference(const Tensor& labels, const Tensor& predictions, const Weights& weights,
                          const LossOptions& options, SourceLocation where) {
  const auto each = [](ir::Value y, ir::Value p) { return ir::Abs(p - y); };
  return AddFormula(
      {.name = "absolute_difference", .each = each, .mean = ::penstock::nn::MeanAbsoluteError()},
      labels, predictions, weights, options, where);
}

Tensor HuberLoss(const Tensor& labels, const Tensor& predictions, const Weights& weights,
                 double delta, const LossOptions& options, SourceLocation where) {
  const auto each = [delta](ir::Value y, ir::Value p) {
    const ir::Value error = ir::Abs(p - y);
    const ir::Value quadratic = ir::Minimum(error, ir::SplatLike(error, delta));
    return ir::Square(quadratic) * 0.5 + (error - quadratic) * delta;
  };
  return AddFormula(
      {.name = "huber_loss", .each = each, .mean = ::penstock::nn::Huber({.delta = delta})}, labels,
      predictions, weights, options, where);
}

Tensor HingeLoss(const Tensor& labels, const Tensor& logits, const Weights& weights,
                 const LossOptions& options, SourceLocation where) {
  const auto each = [](ir::Value y, ir::Value x) { return ir::Relu(1.0 - (y * 2.0 - 1.0) * x); };
  return AddFormula({.name = "hinge_loss", .each = each}, labels, logits, weights, options, where);
}

Tensor LogLoss(const Tensor& labels, const Tensor& predictions, const Weights& weights,
               double epsilon, const LossOptions& options, SourceLocation where) {
  const auto each = [epsilon](ir::Value y, ir::Value p) {
    return -(y * ir::Log(p + epsilon)) - (1.0 - y) * ir::Log(1.0 - p + epsilon);
  };
  return AddFormula({.name = "log_loss", .each = each}, labels, predictions, weights, options,
                    where);
}

Tensor CosineDistance(const Tensor& labels, const Tensor& predictions, int64_t axis,
                      const Weights& weights, const LossOptions& options, SourceLocation where) {
  const auto each = [axis](ir::Value y, ir::Value p) {
    return 1.0 - ir::ReduceSum(y * p, {axis}, /*keep_dims=*/true);
  };
  return AddFormula({.name = "cosine_distance_loss", .each = each}, labels, predictions, weights,
                    options, where);
}

namespace {

ir::Value PairwiseSquares(const ir::Value& labels, const ir::Value& predictions,
                          const ir::Value& weights) {
  if (!(labels.shape() == predictions.shape()) || labels.rank() < 1) {
    return FailValue(labels, absl::StrCat("labels have shape ", labels.shape().ToString(),
                                          ", predictions ", predictions.shape().ToString(),
                                          "; they must be equal, and have a batch axis"));
  }
  if (!IsBroadcastable(weights.shape(), labels.shape())) {
    return FailValue(labels, absl::StrCat("weights of shape ", weights.shape().ToString(),
                                          " cannot be broadcast to labels of shape ",
                                          labels.shape().ToString()));
  }
  ir::Axes axes;
  for (int i = 1; i < labels.rank(); ++i) axes.push_back(i);
  // Without axes besides the batch, each example is its only element.
  const auto over_elements = [&](ir::Value x) {
    return axes.empty() ? x : ir::ReduceSum(x, axes, /*keep_dims=*/true);
  };
  const ir::Value difference = predictions - labels;
  const ir::Value counted = ir::Convert(
      ir::Compare(weights, ir::SplatLike(weights, 0), ir::Comparison::kNe), DType::kF32);
  const ir::Value present = over_elements(ir::BroadcastTo(counted, labels.shape()));
  const ir::Value others = ir::Maximum(present - 1.0, ir::SplatLike(present, 0));
  const ir::Value squares = SafeDivide(over_elements(ir::Square(difference)), others) * 2.0;
  const ir::Value products =
      SafeDivide(ir::Square(over_elements(difference)), present * others) * 2.0;
  const ir::Value loss = ir::ReduceSum((squares - products) * weights);
  const ir::Value any = ir::ReduceSum(present);
  return ir::Select(ir::Greater(any, ir::SplatLike(any, 0)), loss, ir::SplatLike(loss, 0));
}

}  // namespace

Tensor MeanPairwiseSquaredError(const Tensor& labels, const Tensor& predictions,
                                const Weights& weights, const LossOptions& options,
                                SourceLocation where) {
  Tensors inputs{labels, predictions};
  if (weights.is_tensor()) inputs.push_back(weights.tensor());
  constexpr char kName[] = "mean_pairwise_squared_error";
  const std::string scope = options.scope.empty() ? kName : options.scope;
  const Tensor loss = AddOp(kName, inputs, absl::StrCat(scope, "/value"), where,
                            [number = weights.number()](const ir::Values& in) {
                              const ir::Value weight =
                                  in.size() > 2
                                      ? ir::Convert(in[2], DType::kF32)
                                      : ir::Splat(*in[0].graph(), {DType::kF32, {}}, number);
                              return PairwiseSquares(ir::Convert(in[0], DType::kF32),
                                                     ir::Convert(in[1], DType::kF32), weight);
                            });
  if (!options.loss_collection.empty()) AddLoss(loss, options.loss_collection);
  return loss;
}

Tensor ComputeWeightedLoss(const Tensor& losses, const Weights& weights, const LossOptions& options,
                           SourceLocation where) {
  Tensors inputs{losses};
  if (weights.is_tensor()) inputs.push_back(weights.tensor());
  const std::string scope = options.scope.empty() ? "weighted_loss" : options.scope;
  const Tensor loss =
      AddOp("weighted_loss", inputs, absl::StrCat(scope, "/value"), where,
            [reduction = options.reduction, number = weights.number()](const ir::Values& in) {
              const ir::Value weight =
                  in.size() > 1 ? in[1] : ir::Splat(*in[0].graph(), {DType::kF32, {}}, number);
              return Reduce(ir::Convert(in[0], DType::kF32), weight, reduction);
            });
  if (!options.loss_collection.empty()) AddLoss(loss, options.loss_collection);
  return loss;
}

namespace {

Tensors InCollection(absl::string_view collection, absl::string_view scope) {
  const Graph* const graph = Graph::Default();
  if (graph == nullptr) return {};
  Tensors found = graph->GetCollection(collection);
  std::erase_if(found, [&](const Tensor& t) { return !absl::StartsWith(t.name(), scope); });
  return found;
}

Tensor AddUp(const Tensors& terms, absl::string_view name, SourceLocation where) {
  return AddOp("AddN", terms, name, where, [](const ir::Values& in) {
    ir::Value sum = in[0];
    for (size_t i = 1; i < in.size(); ++i) sum = sum + in[i];
    return sum;
  });
}

}  // namespace

void AddLoss(const Tensor& loss, absl::string_view loss_collection) {
  if (loss.valid()) loss.graph()->AddToCollection(loss_collection, loss);
}

Tensors GetLosses(absl::string_view scope, absl::string_view loss_collection) {
  return InCollection(loss_collection, scope);
}

Tensors GetRegularizationLosses(absl::string_view scope) {
  return InCollection(graph_keys::kRegularizationLosses, scope);
}

Tensor GetRegularizationLoss(absl::string_view scope, absl::string_view name,
                             SourceLocation where) {
  const Tensors losses = GetRegularizationLosses(scope);
  if (!losses.empty()) return AddUp(losses, name, where);
  Graph* const graph = Graph::Default();
  if (graph == nullptr) return Tensor();
  Node* const zero = graph->AddNode(
      {.type = "Const",
       .name = std::string(name),
       .outputs = std::vector<Node::Output>{{DType::kF32, PartialShape(Shape())}}},
      {},
      [](Lowering& lowering, const ir::Values&) -> ir::Values {
        return {ir::Splat(lowering.graph(), {DType::kF32, {}}, 0)};
      },
      where);
  return zero == nullptr ? Tensor() : Tensor(zero, 0);
}

Tensor GetTotalLoss(bool add_regularization_losses, absl::string_view name, absl::string_view scope,
                    SourceLocation where) {
  Tensors losses = GetLosses(scope);
  if (add_regularization_losses) {
    const Tensors more = GetRegularizationLosses(scope);
    losses.insert(losses.end(), more.begin(), more.end());
  }
  if (losses.empty()) {
    return FailOp({}, "GetTotalLoss", "the graph has no losses; call a function of losses first",
                  where);
  }
  return AddUp(losses, name, where);
}

}  // namespace penstock::session::losses
