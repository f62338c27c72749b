// Losses. Names, defaults and formulas are Keras 3's (keras.losses).
//
//   Loss loss = SparseCategoricalCrossentropy({.from_logits = true});
//   Value each = loss.PerExample(labels, logits);                     // f32[batch]
//
// A training program averages PerExample over real examples (Keras's "sum_over_batch_size").
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

#include "penstock/ir/ops.h"

namespace penstock::nn {

class Config;

class LossBody {
 public:
  virtual ~LossBody() = default;
  virtual absl::string_view name() const = 0;  // "mean_squared_error"
  // f32[batch, ...]: what is left after the loss's own axis; averaged over the rest by Loss.
  virtual ir::Value Call(ir::Value y_true, ir::Value y_pred) const = 0;
  virtual void Fields(Config& config) = 0;
};

class Loss {
 public:
  explicit Loss(std::shared_ptr<LossBody> body) : body_(std::move(body)) {}

  absl::string_view name() const { return body_->name(); }
  // The mean loss of each example, f32[batch]; predictions of 16 bits are converted to float32
  // first. Wrong shapes are errors of the graph that give both.
  ir::Value PerExample(ir::Value y_true, ir::Value y_pred) const;

  nlohmann::ordered_json ToJson() const;
  static absl::StatusOr<Loss> FromJson(const nlohmann::ordered_json& json);
  // With default options: "sparse_categorical_crossentropy", "mse"; the error lists the names there
  // are.
  static absl::StatusOr<Loss> FromName(absl::string_view name);

 private:
  std::shared_ptr<LossBody> body_;
};

// Without from_logits, predictions are probabilities (after a softmax).
struct CrossentropyOptions {
  bool from_logits = false;
  double label_smoothing = 0;  // categorical only
};
// y_true: class numbers [batch, ...] or [batch, ..., 1]; y_pred: [batch, ..., classes]. A class
// number outside [0, classes) gives NaN, so that it cannot pass unseen.
Loss SparseCategoricalCrossentropy(const CrossentropyOptions& options = {});
// y_true: one-hot or probabilities, of y_pred's shape.
Loss CategoricalCrossentropy(const CrossentropyOptions& options = {});
Loss MeanSquaredError();

}  // namespace penstock::nn
