// Losses. Names, defaults and formulas are Keras 3's (keras.losses).
//
//   Loss loss = SparseCategoricalCrossentropy({.from_logits = true});
//   Value each = loss.PerExample(labels, logits);              // f32[batch]
//   Value mean = loss(labels, logits, sample_weight);          // what calling it in Keras gives
//   Loss summed = MeanAbsoluteError().WithReduction("sum");
//   absl::StatusOr<Loss> same = Loss::FromName("mae");
//
// Predictions of 16 bits are converted to float32 first, labels to the predictions' type. Wrong
// shapes are errors of the graph that give both and the likely mistake.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

#include "penstock/ir/ops.h"

namespace penstock::nn {

class Config;

// What a loss is before it is averaged.
struct LossValues {
  LossValues() = default;
  LossValues(ir::Value values, ir::Value is_counted = {})  // NOLINT: most losses count all
      : each(values), counted(is_counted) {}
  // [batch, ...], what is left after the loss's own axis; a scalar is a loss of the whole batch.
  ir::Value each;
  ir::Value counted;  // bool, of each's shape: those that take part in the mean; invalid: all
};

// Which labels make sense: what Loss::CheckLabels looks for.
enum class LabelRule { kAny, kClassNumbers, kZeroToOne, kDistribution, kNotNegative };

class LossBody {
 public:
  virtual ~LossBody() = default;
  virtual absl::string_view name() const = 0;  // "mean_squared_error"
  // `y_pred` is of 32 bits at least. `examples` is f32[batch], 0 for padding, or invalid: for
  // losses that look at the batch as a whole.
  virtual LossValues Call(ir::Value y_true, ir::Value y_pred, ir::Value examples) const = 0;
  virtual void Fields(Config&) {}
  virtual absl::Status Check() const { return absl::OkStatus(); }  // the options
  virtual LabelRule labels() const { return LabelRule::kAny; }
  // What predictions have to be: true probabilities, false logits, nothing where both may be.
  virtual std::optional<bool> wants_probabilities() const { return std::nullopt; }
  // A class number that is no mistake.
  virtual std::optional<int64_t> ignored_class() const { return std::nullopt; }
  // A function of the program: a file contains only its name.
  virtual bool is_custom() const { return false; }
};

struct LossArguments {
  ir::Value y_true, y_pred;
  // bool or 0 and 1, of the first axes of the loss before it is averaged ([batch, steps] for
  // predictions [batch, steps, classes]); invalid: everything counts.
  ir::Value mask = {};
  // f32[batch], 0 for the padding of a last batch; invalid: all are real.
  ir::Value examples = {};
};

// What each example adds to sums over the batch and all replicas, of which Keras's loss is made. By
// reduction, with w = sample_weight * examples:
//   "sum_over_batch_size", "mean"  sum(sum * w) / sum(count * examples)
//   "mean_with_sample_weight"      sum(sum * w) / sum(count * w)
//   "sum"                          sum(sum * w) * values
struct LossTerms {
  ir::Value sum;    // f32[batch]: the mean over an example's values, those masked out as zeros
  ir::Value count;  // f32[batch]: the share of its values that count, 1 without a mask
  bool all_count = true;  // nothing is masked out: `count` is ones
  double values = 1;      // how many values an example has
};

class Loss {
 public:
  explicit Loss(std::shared_ptr<LossBody> body) : body_(std::move(body)) {}

  absl::string_view name() const { return body_->name(); }
  // Made by CustomLoss: ToJson writes only its name, and FromJson rejects that.
  bool is_custom() const { return body_->is_custom(); }
  // The mean loss of each example, f32[batch]. With a mask, or a class that is ignored, values that
  // do not count are zeros and the others are scaled by all / counted, so that the mean over the
  // batch is the mean over those that count, as in Keras.
  ir::Value PerExample(ir::Value y_true, ir::Value y_pred, ir::Value mask = {}) const;
  // The same as two sums, which stay exact with padding and over replicas.
  LossTerms Terms(const LossArguments& arguments) const;
  // What Keras's loss(y_true, y_pred, sample_weight) returns: reduced as reduction() says, f32. The
  // weights have the first axes of the loss before it is reduced; "none" keeps its shape.
  ir::Value operator()(ir::Value y_true, ir::Value y_pred, ir::Value sample_weight = {},
                       ir::Value mask = {}) const;
  // The loss before it is averaged, without weights.
  LossValues Unreduced(const LossArguments& arguments) const;

  // "sum_over_batch_size" (the default), "mean" (the same), "sum", "mean_with_sample_weight",
  // "none".
  Loss WithReduction(absl::string_view reduction) const;
  const std::string& reduction() const { return reduction_; }

  // An option that makes no sense, in words.
  absl::Status Check() const;
  // Looks at labels on the host, such as those of the first batch: class numbers outside the
  // classes, labels of a crossentropy that are not between 0 and 1, and the like. OK if nothing
  // looks wrong.
  absl::Status CheckLabels(const base::Array& y_true, const ir::TensorType& y_pred) const;
  // What looks wrong about predictions that were just built: a softmax that is missing, or one too
  // many. "" if nothing does; a suspicion, not an error.
  std::string Advice(ir::Value y_pred) const;

  nlohmann::ordered_json ToJson() const;
  // {"name" or "class_name", "config"}, with Keras's keys.
  static absl::StatusOr<Loss> FromJson(const nlohmann::ordered_json& json);
  // With default options, by any of Keras's names: "mean_squared_error", "MeanSquaredError", "mse";
  // "crossentropy" looks at the shapes. The error lists the names there are.
  static absl::StatusOr<Loss> FromName(absl::string_view name);
  static std::vector<std::string> Names();
  const std::shared_ptr<LossBody>& body() const { return body_; }

 private:
  std::shared_ptr<LossBody> body_;
  std::string reduction_ = "sum_over_batch_size";
};

// A loss from a function that gives [batch, ...] values; anything else, such as the mean over the
// batch, is an error: the function cannot tell padding from examples. A loss of the batch as a
// whole is a LossBody, which is given `examples`. It has no JSON that can be read back.
Loss CustomLoss(absl::string_view name,
                std::function<ir::Value(ir::Value y_true, ir::Value y_pred)> function);

// ---- Classification (losses_classification.cc) ----
// Without from_logits, predictions are probabilities: after a sigmoid (Binary...) or a softmax.

struct CrossentropyOptions {
  bool from_logits = false;
  double label_smoothing = 0;
  int64_t axis = -1;  // the classes; for the binary ones: what is averaged
};
// y_true: 0 or 1, or between, of y_pred's shape (a last axis of 1 may be missing).
Loss BinaryCrossentropy(const CrossentropyOptions& options = {});
// y_true: one-hot or probabilities, of y_pred's shape.
Loss CategoricalCrossentropy(const CrossentropyOptions& options = {});

struct SparseCrossentropyOptions {
  bool from_logits = false;
  std::optional<int64_t> ignore_class = {};  // this class number does not count, as 255 in masks
  int64_t axis = -1;                         // the classes
};
// y_true: class numbers [batch, ...] or [batch, ..., 1]; y_pred: [batch, ..., classes]. A class
// number outside [0, classes) gives NaN, so that it cannot pass unseen.
Loss SparseCategoricalCrossentropy(const SparseCrossentropyOptions& options = {});

// Lin et al., Focal loss for dense object detection, 2017.
struct BinaryFocalCrossentropyOptions {
  bool apply_class_balancing = false;
  double alpha = 0.25;
  double gamma = 2;
  bool from_logits = false;
  double label_smoothing = 0;
  int64_t axis = -1;
};
Loss BinaryFocalCrossentropy(const BinaryFocalCrossentropyOptions& options = {});

struct CategoricalFocalCrossentropyOptions {
  double alpha = 0.25;
  double gamma = 2;
  bool from_logits = false;
  double label_smoothing = 0;
  int64_t axis = -1;
};
Loss CategoricalFocalCrossentropy(const CategoricalFocalCrossentropyOptions& options = {});

// Zhang and Sabuncu, Generalized cross entropy loss with noisy labels, 2018. y_true: class numbers;
// y_pred: probabilities; 0 < q < 1.
struct GeneralizedCrossEntropyOptions {
  double q = 0.5;
};
Loss CategoricalGeneralizedCrossEntropy(const GeneralizedCrossEntropyOptions& options = {});

// Labels of -1 and 1; where a batch has nothing but 0 and 1, 0 becomes -1.
Loss Hinge();
Loss SquaredHinge();
Loss CategoricalHinge();  // one-hot labels

// ---- Regression and distributions (losses_regression.cc): means over the last axis ----
Loss MeanSquaredError();
Loss MeanAbsoluteError();
Loss MeanAbsolutePercentageError();
Loss MeanSquaredLogarithmicError();
Loss LogCosh();
struct HuberOptions {
  double delta = 1;
};
Loss Huber(const HuberOptions& options = {});
Loss Poisson();       // predictions are rates, above 0
Loss KLDivergence();  // the sum over the last axis
struct CosineSimilarityOptions {
  int64_t axis = -1;
};
// -1 where the vectors point the same way.
Loss CosineSimilarity(const CosineSimilarityOptions& options = {});

// ---- Segmentation, similarity, sequences (losses_structured.cc) ----
// The axes that are summed over; nothing means all, the batch included, as in Keras: then each
// replica has the loss of its own examples. {1, 2, 3} is a loss for each image.
struct DiceOptions {
  std::optional<std::vector<int64_t>> axis = {};
};
Loss Dice(const DiceOptions& options = {});
struct TverskyOptions {
  double alpha = 0.5;  // Keras's: of labels that are not predicted
  double beta = 0.5;   // of predictions that are not labelled
  std::optional<std::vector<int64_t>> axis = {};
};
Loss Tversky(const TverskyOptions& options = {});
// Sun et al., Circle loss, 2020. y_true: class numbers [batch]; y_pred: embeddings [batch, size] of
// length 1. Examples are compared within a replica.
struct CircleOptions {
  double gamma = 80;
  double margin = 0.4;
  bool remove_diagonal = true;
};
Loss Circle(const CircleOptions& options = {});
// Graves et al., Connectionist temporal classification, 2006. y_true: labels [batch, length], 0 is
// padding and the blank; y_pred: logits [batch, steps, classes].
Loss CTC();

}  // namespace penstock::nn
