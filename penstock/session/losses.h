// Losses: tf.losses, with the names, defaults, order of arguments and formulas of TensorFlow 1.15.
//
//   tf::Tensor loss = tf::losses::SparseSoftmaxCrossEntropy(labels, logits);
//   tf::Tensor weighted = tf::losses::MeanSquaredError(labels, y, weights,
//                                                      {.reduction = tf::losses::Reduction::kSum});
//   tf::Tensor total = tf::losses::GetTotalLoss();      // with the regularization losses
//
// Each loss is added to the collection LOSSES and returns an f32 scalar, or with Reduction::kNone a
// tensor of the losses' shape. Predictions are converted to f32, and so are labels, but class
// indices. With the default weights and a mean as reduction, the value is that of Keras's loss in a
// training step here (room nn), bit for bit.
//
// Weights: a number, or a tensor of rank 0 or of the losses' rank, whose extents are 1 or those of
// the losses. They multiply the losses, so that NaN stays NaN even with the weight 0.
#pragma once

#include <string>

#include "penstock/session/graph.h"
#include "penstock/session/variable.h"

namespace penstock::session::losses {

// tf.losses.Reduction: what is computed of the weighted losses.
enum class Reduction {
  kNone,                 // the weighted losses themselves
  kSum,                  // their sum
  kMean,                 // the sum divided by the sum of the weights
  kSumOverBatchSize,     // the sum divided by the number of losses
  kSumByNonzeroWeights,  // the sum divided by the number of losses whose weight is not 0
};

class Weights {
 public:
  Weights(double number) : number_(number) {}                           // NOLINT
  Weights(const Tensor& tensor) : tensor_(tensor), is_tensor_(true) {}  // NOLINT
  Weights(const Variable& variable) : Weights(variable.Value()) {}      // NOLINT

  bool is_tensor() const { return is_tensor_; }
  double number() const { return number_; }
  const Tensor& tensor() const { return tensor_; }

 private:
  double number_ = 1;
  Tensor tensor_;
  bool is_tensor_ = false;
};

struct LossOptions {
  std::string scope = "";                             // empty: the loss's name
  std::string loss_collection = graph_keys::kLosses;  // empty: none
  Reduction reduction = Reduction::kSumByNonzeroWeights;
};

// labels: class indices [batch, ...] (or [batch, ..., 1]); logits: [batch, ..., classes].
Tensor SparseSoftmaxCrossEntropy(const Tensor& labels, const Tensor& logits,
                                 const Weights& weights = 1.0, const LossOptions& options = {},
                                 SourceLocation where = SourceLocation::Current());
// Labels: probabilities of the logits' shape, through which no gradient flows. label_smoothing:
// labels * (1 - label_smoothing) + label_smoothing / classes.
Tensor SoftmaxCrossEntropy(const Tensor& onehot_labels, const Tensor& logits,
                           const Weights& weights = 1.0, double label_smoothing = 0,
                           const LossOptions& options = {},
                           SourceLocation where = SourceLocation::Current());
// Labels between 0 and 1, of the logits' shape. label_smoothing: labels * (1 - label_smoothing) +
// label_smoothing / 2.
Tensor SigmoidCrossEntropy(const Tensor& multi_class_labels, const Tensor& logits,
                           const Weights& weights = 1.0, double label_smoothing = 0,
                           const LossOptions& options = {},
                           SourceLocation where = SourceLocation::Current());

// Elementwise; labels have the predictions' shape.
Tensor MeanSquaredError(const Tensor& labels, const Tensor& predictions,
                        const Weights& weights = 1.0, const LossOptions& options = {},
                        SourceLocation where = SourceLocation::Current());
Tensor AbsoluteDifference(const Tensor& labels, const Tensor& predictions,
                          const Weights& weights = 1.0, const LossOptions& options = {},
                          SourceLocation where = SourceLocation::Current());
// Quadratic up to |labels - predictions| = delta, linear beyond.
Tensor HuberLoss(const Tensor& labels, const Tensor& predictions, const Weights& weights = 1.0,
                 double delta = 1, const LossOptions& options = {},
                 SourceLocation where = SourceLocation::Current());
// Labels of 0 and 1.
Tensor HingeLoss(const Tensor& labels, const Tensor& logits, const Weights& weights = 1.0,
                 const LossOptions& options = {}, SourceLocation where = SourceLocation::Current());
// Cross entropy of probabilities: -labels log(predictions + epsilon) - (1 - labels) log(1 -
// predictions + epsilon).
Tensor LogLoss(const Tensor& labels, const Tensor& predictions, const Weights& weights = 1.0,
               double epsilon = 1e-7, const LossOptions& options = {},
               SourceLocation where = SourceLocation::Current());
// 1 - sum of labels * predictions along `axis`, of vectors of length 1; the axis stays, of extent
// 1.
Tensor CosineDistance(const Tensor& labels, const Tensor& predictions, int64_t axis,
                      const Weights& weights = 1.0, const LossOptions& options = {},
                      SourceLocation where = SourceLocation::Current());

// Sum over the examples of the mean squared difference between the errors of two different elements
// of the example: it measures relative differences. options.reduction has no effect.
Tensor MeanPairwiseSquaredError(const Tensor& labels, const Tensor& predictions,
                                const Weights& weights = 1.0, const LossOptions& options = {},
                                SourceLocation where = SourceLocation::Current());

// The reduction of any losses (tf.losses.compute_weighted_loss).
Tensor ComputeWeightedLoss(const Tensor& losses, const Weights& weights = 1.0,
                           const LossOptions& options = {},
                           SourceLocation where = SourceLocation::Current());

// ---- Collections, of the default graph ----
void AddLoss(const Tensor& loss, absl::string_view loss_collection = graph_keys::kLosses);
// Those whose names begin with `scope`.
Tensors GetLosses(absl::string_view scope = "",
                  absl::string_view loss_collection = graph_keys::kLosses);
Tensors GetRegularizationLosses(absl::string_view scope = "");
// Their sum; 0 if there are none.
Tensor GetRegularizationLoss(absl::string_view scope = "",
                             absl::string_view name = "total_regularization_loss",
                             SourceLocation where = SourceLocation::Current());
// The sum of all losses. An error of the graph if there are none.
Tensor GetTotalLoss(bool add_regularization_losses = true, absl::string_view name = "total_loss",
                    absl::string_view scope = "", SourceLocation where = SourceLocation::Current());

}  // namespace penstock::session::losses
