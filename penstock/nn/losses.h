// Losses. Names, defaults and formulas are Keras 3's (keras.losses).
//
//   Loss loss = SparseCategoricalCrossentropy({.from_logits = true});
//   Value each = loss.PerExample(labels, logits);              // f32[batch]
//   Value mean = loss(labels, logits, sample_weight);          // as loss(...) in Keras
//   Loss summed = MeanAbsoluteError({.reduction = Reduction::kSum});  // or "sum"
//   absl::StatusOr<Loss> same = Loss::FromName("mae");
//
// 16-bit predictions are converted to float32 first, labels to the predictions' type. As in Keras,
// labels [batch] fit predictions [batch, 1] and the other way round. Other mismatched shapes are
// errors of the graph that state both shapes and the likely mistake; nothing else is broadcast.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

#include "penstock/ir/ops.h"
#include "penstock/nn/typed_options.h"

namespace penstock::nn {

class Config;

// Values of a loss before reduction.
struct LossValues {
  LossValues() = default;
  LossValues(ir::Value values, ir::Value is_counted = {})  // NOLINT: most losses count all
      : each(values), counted(is_counted) {}
  // [batch, ...], the shape after reduction over the loss's own axis; a scalar is a loss of the
  // whole batch.
  ir::Value each;
  ir::Value counted;  // bool, of each's shape: values included in the mean; invalid: all
};

// Rule for valid labels, which Loss::CheckLabels checks.
enum class LabelRule { kAny, kClassNumbers, kZeroToOne, kDistribution, kNotNegative };

// A loss class: its options and its formula. Derive from it for a custom loss of a whole batch.
class LossBody {
 public:
  virtual ~LossBody() = default;
  virtual absl::string_view name() const = 0;  // "mean_squared_error"
  // Computes the loss. `y_pred` has at least 32 bits. `examples` is f32[batch], 0 for padding, or
  // invalid: for losses that depend on the whole batch.
  virtual LossValues Call(ir::Value y_true, ir::Value y_pred, ir::Value examples) const = 0;
  virtual void Fields(Config&) {}
  virtual absl::Status Check() const { return absl::OkStatus(); }  // the options
  virtual LabelRule labels() const { return LabelRule::kAny; }
  // Axis of the classes, in predictions and in one-hot labels.
  virtual int64_t class_axis() const { return -1; }
  // Whether the loss of an example depends on its own label only, which is a class, or
  // probabilities of classes: then MixUp and CutMix can mix the losses of two labels
  // (batch_augmentation.h).
  virtual bool has_class_labels() const {
    return labels() == LabelRule::kClassNumbers || labels() == LabelRule::kZeroToOne ||
           labels() == LabelRule::kDistribution;
  }
  // Expected predictions: true for probabilities, false for logits, nullopt if both are possible.
  virtual std::optional<bool> expects_probabilities() const { return std::nullopt; }
  // Class index that is not counted (and not an error).
  virtual std::optional<int64_t> ignored_class() const { return std::nullopt; }
  // Whether labels and predictions get one rank before Call where one of them lacks a last axis of
  // 1, as Keras does for functions: [batch] becomes [batch, 1], and [batch, steps, 1] becomes
  // [batch, steps] beside [batch, steps] (unless a mask has the axis `steps`).
  virtual bool matches_ranks() const { return false; }
  // Whether it is a function of the program: a file contains only its name.
  virtual bool is_custom() const { return false; }
};

struct LossArguments {
  ir::Value y_true, y_pred;
  // Mask: bool or 0 and 1, with the leading axes of the unreduced loss ([batch, steps] for
  // predictions [batch, steps, classes]); invalid: every value counts.
  ir::Value mask = {};
  // f32[batch], 0 for the padding of the last batch; invalid: all examples are real.
  ir::Value examples = {};
  // Minimum number of axes of the unreduced loss; 2 for weights of single steps, [batch, steps].
  int value_axes = 1;
};

// Contributions of each example to the sums over the batch and all replicas from which Keras's loss
// is computed. By reduction, with w = sample_weight * examples:
//   "sum_over_batch_size", "mean"  sum(sum * w) / sum(count * examples)
//   "mean_with_sample_weight"      sum(sum * w) / sum(count * w)
//   "sum"                          sum(sum * w) * values
struct LossTerms {
  ir::Value sum;          // f32[batch]: mean over an example's values, with masked values as zeros
  ir::Value count;        // f32[batch]: fraction of its values that count, 1 without a mask
  bool all_count = true;  // no value is masked out: `count` is ones
  double values = 1;      // number of values per example
};

// Options of every loss, with Keras's names and defaults:
//
//   MeanSquaredError({.reduction = Reduction::kSum});
//   Huber({.delta = 2, .reduction = Reduction::kSum, .name = "robust"});
//
// The options of a loss that has others repeat these two at their end, because a designated
// initializer cannot name a member of a base class. Keras's `dtype` is left out: a loss computes in
// float32, which is Keras's default, or in float64 if the predictions are float64.
struct LossOptions {
  // Every value but kNone can be compiled; training minimizes a single number, so Compile rejects
  // "none".
  Reduction reduction = Reduction::kSumOverBatchSize;
  // Name in messages and saved models, and of MeanOfLoss; empty: the name of the class, "huber".
  std::string name = "";
};

class Loss {
 public:
  // A loss with the reduction and the name of `options`; a body has neither.
  explicit Loss(std::shared_ptr<LossBody> body, LossOptions options = {})
      : body_(std::move(body)), options_(std::move(options)) {}

  absl::string_view name() const {
    return options_.name.empty() ? body_->name() : absl::string_view(options_.name);
  }
  // Whether it was made by CustomLoss: ToJson writes only its name, and FromJson rejects that.
  bool is_custom() const { return body_->is_custom(); }
  // Keras's class, "MeanSquaredError"; empty for a custom loss.
  std::string class_name() const;
  // Mean loss of each example, f32[batch]. With a mask or an ignored class, values that do not
  // count are zeros and the others are scaled by all / counted, so that the mean over the batch is
  // the mean over those that count, as in Keras.
  ir::Value PerExample(ir::Value y_true, ir::Value y_pred, ir::Value mask = {}) const;
  // The same as two sums, which stay exact with padding and over replicas.
  LossTerms Terms(const LossArguments& arguments) const;
  // Keras's loss(y_true, y_pred, sample_weight): reduced per reduction(), f32. The weights have the
  // leading axes of the unreduced loss; "none" keeps its shape.
  ir::Value operator()(ir::Value y_true, ir::Value y_pred, ir::Value sample_weight = {},
                       ir::Value mask = {}) const;
  // The loss before reduction, without weights.
  LossValues Unreduced(const LossArguments& arguments) const;

  // "sum_over_batch_size" (the default), "mean" (the same), "sum", "mean_with_sample_weight",
  // "none".
  const std::string& reduction() const { return options_.reduction; }
  // The same loss with another reduction, for losses made by CustomLoss, FromName or FromJson. The
  // last one wins: MeanSquaredError({.reduction = "sum"}).WithReduction("mean") is a mean.
  Loss WithReduction(const Reduction& reduction) const;
  // The same loss with another name, which replaces an earlier one; empty: the default.
  Loss Named(absl::string_view name) const;

  // The error of an invalid option, if any.
  absl::Status Check() const;
  // Checks labels on the host, such as those of the first batch: class indices out of range, labels
  // of a crossentropy that are not between 0 and 1, and the like. OK if nothing looks wrong.
  absl::Status CheckLabels(const base::Array& y_true, const ir::TensorType& y_pred) const;
  // Returns a warning if the operation that made the predictions suggests a missing or duplicate
  // softmax (from_logits), or "".
  std::string LogitsWarning(ir::Value y_pred) const;

  nlohmann::ordered_json ToJson() const;
  // {"name" or "class_name", "config"}, with Keras's keys; the config's "name" is that of
  // LossOptions. A reduction of null (Keras's None) is "none".
  static absl::StatusOr<Loss> FromJson(const nlohmann::ordered_json& json);
  // The loss with default options, by any of Keras's names: "mean_squared_error",
  // "MeanSquaredError", "mse"; "crossentropy" is chosen by the shapes. The error for an unknown
  // name lists the known ones.
  static absl::StatusOr<Loss> FromName(absl::string_view name);
  static std::vector<std::string> Names();
  const std::shared_ptr<LossBody>& body() const { return body_; }

 private:
  std::shared_ptr<LossBody> body_;
  LossOptions options_;
};

// Custom loss from a function that returns [batch, ...] values; any other shape, such as the mean
// over the batch, is an error: the function cannot distinguish padding from examples. It gets
// labels and predictions of one rank, as in Keras (LossBody::matches_ranks): for a network with one
// output unit both are [batch, 1], also if the labels are [batch]. A loss of the whole batch is a
// LossBody, which gets `examples`. Its JSON cannot be loaded.
Loss CustomLoss(absl::string_view name,
                std::function<ir::Value(ir::Value y_true, ir::Value y_pred)> function);

// ---- Classification (losses/classification.cc) ----
// Without from_logits, predictions are probabilities: after a sigmoid (Binary...) or a softmax.

struct CrossentropyOptions {
  bool from_logits = false;
  double label_smoothing = 0;
  int64_t axis = -1;  // class axis; for binary losses: the averaged axis
  Reduction reduction = Reduction::kSumOverBatchSize;
  std::string name = "";
};
// y_true: 0 or 1, or between, of y_pred's shape (a last axis of 1 may be missing).
Loss BinaryCrossentropy(const CrossentropyOptions& options = {});
// y_true: one-hot or probabilities, of y_pred's shape.
Loss CategoricalCrossentropy(const CrossentropyOptions& options = {});

struct SparseCrossentropyOptions {
  bool from_logits = false;
  std::optional<int64_t> ignore_class = {};  // class index to ignore, such as 255 in masks
  int64_t axis = -1;                         // class axis
  // As of CategoricalCrossentropy; Keras's loss for class indices has no such option.
  double label_smoothing = 0;
  Reduction reduction = Reduction::kSumOverBatchSize;
  std::string name = "";
};
// y_true: class indices [batch, ...] or [batch, ..., 1]; y_pred: [batch, ..., classes]. A class
// index outside [0, classes) gives NaN, so that it does not go unnoticed.
Loss SparseCategoricalCrossentropy(const SparseCrossentropyOptions& options = {});

// Lin et al., Focal loss for dense object detection, 2017.
struct BinaryFocalCrossentropyOptions {
  bool apply_class_balancing = false;
  double alpha = 0.25;
  double gamma = 2;
  bool from_logits = false;
  double label_smoothing = 0;
  int64_t axis = -1;
  Reduction reduction = Reduction::kSumOverBatchSize;
  std::string name = "";
};
Loss BinaryFocalCrossentropy(const BinaryFocalCrossentropyOptions& options = {});

struct CategoricalFocalCrossentropyOptions {
  double alpha = 0.25;
  double gamma = 2;
  bool from_logits = false;
  double label_smoothing = 0;
  int64_t axis = -1;
  Reduction reduction = Reduction::kSumOverBatchSize;
  std::string name = "";
};
Loss CategoricalFocalCrossentropy(const CategoricalFocalCrossentropyOptions& options = {});

// Zhang and Sabuncu, Generalized cross entropy loss with noisy labels, 2018. y_true: class indices;
// y_pred: probabilities; 0 < q < 1.
struct GeneralizedCrossEntropyOptions {
  double q = 0.5;
  Reduction reduction = Reduction::kSumOverBatchSize;
  std::string name = "";
};
Loss CategoricalGeneralizedCrossEntropy(const GeneralizedCrossEntropyOptions& options = {});

// Labels of -1 and 1; if a batch contains only 0 and 1, 0 becomes -1.
Loss Hinge(const LossOptions& options = {});
Loss SquaredHinge(const LossOptions& options = {});
Loss CategoricalHinge(const LossOptions& options = {});  // one-hot labels

// ---- Regression and distributions (losses/regression.cc): means over the last axis ----
Loss MeanSquaredError(const LossOptions& options = {});
Loss MeanAbsoluteError(const LossOptions& options = {});
Loss MeanAbsolutePercentageError(const LossOptions& options = {});
Loss MeanSquaredLogarithmicError(const LossOptions& options = {});
Loss LogCosh(const LossOptions& options = {});
struct HuberOptions {
  double delta = 1;
  Reduction reduction = Reduction::kSumOverBatchSize;
  std::string name = "";
};
Loss Huber(const HuberOptions& options = {});
Loss Poisson(const LossOptions& options = {});       // predictions are rates, above 0
Loss KLDivergence(const LossOptions& options = {});  // the sum over the last axis
struct CosineSimilarityOptions {
  int64_t axis = -1;
  Reduction reduction = Reduction::kSumOverBatchSize;
  std::string name = "";
};
// -1 for vectors of the same direction.
Loss CosineSimilarity(const CosineSimilarityOptions& options = {});

// ---- Segmentation, similarity, sequences (losses/structured.cc) ----
// `axis`: axes of the sum; nullopt means all, including the batch, as in Keras: then each replica
// has the loss of its own examples. {1, 2, 3} gives one loss per image.
struct DiceOptions {
  std::optional<std::vector<int64_t>> axis = {};
  Reduction reduction = Reduction::kSumOverBatchSize;
  std::string name = "";
};
Loss Dice(const DiceOptions& options = {});
struct TverskyOptions {
  double alpha = 0.5;  // weight of false negatives, as in Keras
  double beta = 0.5;   // weight of false positives
  std::optional<std::vector<int64_t>> axis = {};
  Reduction reduction = Reduction::kSumOverBatchSize;
  std::string name = "";
};
Loss Tversky(const TverskyOptions& options = {});
// Sun et al., Circle loss, 2020. y_true: class indices [batch]; y_pred: embeddings [batch, size] of
// length 1. Examples are compared within a replica.
struct CircleOptions {
  double gamma = 80;
  double margin = 0.4;
  bool remove_diagonal = true;
  Reduction reduction = Reduction::kSumOverBatchSize;
  std::string name = "";
};
Loss Circle(const CircleOptions& options = {});
// Graves et al., Connectionist temporal classification, 2006. y_true: labels [batch, length], 0 is
// padding and the blank; y_pred: logits [batch, steps, classes].
Loss CTC(const LossOptions& options = {});

}  // namespace penstock::nn
