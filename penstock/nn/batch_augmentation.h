// Augmentation that mixes the examples of a batch and their labels: MixUp and CutMix. It is part of
// the training step, on the device (train::Objective::batch_augmentation).
//
//   BatchAugmentation mixup = MixUp({.alpha = 0.2});
//   MixedBatch mixed = MixBatch({mixup, CutMix()}, key, inputs, mask);
//
// Example i is mixed with a partner, another example of the batch. One random permutation of the
// real examples determines the partners; padding is not mixed into them. With the share s of the
// example's own label:
//
//   loss = s * L(own label) + (1 - s) * L(partner's label)
//
// which for a crossentropy is the loss of the mixed one-hot label s * own + (1 - s) * partner's,
// label smoothing included, because a crossentropy is linear in the label.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

#include "penstock/ir/ops.h"
#include "penstock/nn/layers/sizes.h"
#include "penstock/nn/network.h"

namespace penstock::nn {

class Config;

// Random numbers of a batch.
struct Blend {
  ir::Value share;  // f32[batch], from 0 to 1: share of each example's own label
  // Bool [batch, height, width, 1]: pixels that are the partner's. Invalid: every number is
  // share * own + (1 - share) * partner's.
  ir::Value box = {};
};

// A kind of batch augmentation: its options and its random numbers.
class BatchAugmentationBody {
 public:
  virtual ~BatchAugmentationBody() = default;
  virtual absl::string_view class_name() const = 0;  // Keras's
  virtual void Fields(Config& config) = 0;
  virtual absl::Status Check() const = 0;  // the options
  // Whether it needs images: one input [batch, height, width, channels].
  virtual bool mixes_images_only() const = 0;
  // Number of random numbers that Draw uses for each example.
  virtual int64_t num_uniforms() const = 0;
  // `uniform`: f32 [num_uniforms() or more, batch], independent and from [0, 1). `input`: the type
  // of the network's first input.
  virtual Blend Draw(ir::Value uniform, const ir::TensorType& input) const = 0;
};

class BatchAugmentation {
 public:
  explicit BatchAugmentation(std::shared_ptr<BatchAugmentationBody> body)
      : body_(std::move(body)) {}
  absl::string_view class_name() const { return body_->class_name(); }
  const BatchAugmentationBody& body() const { return *body_; }

  // {"class_name", "config"}, with Keras's keys.
  nlohmann::ordered_json ToJson() const;
  static absl::StatusOr<BatchAugmentation> FromJson(const nlohmann::ordered_json& json);

 private:
  std::shared_ptr<BatchAugmentationBody> body_;
};

// Zhang et al., mixup: Beyond empirical risk minimization, 2018. Each example has its own share,
// drawn from Beta(alpha, alpha), as in Keras. For images and other numbers.
struct MixUpOptions {
  double alpha = 0.2;  // above 0; small values rarely mix much, 1 draws uniformly
};
BatchAugmentation MixUp(const MixUpOptions& options = {});

// Yun et al., CutMix: Regularization strategy to train strong classifiers with localizable
// features, 2019. A box of each image is replaced by its partner's pixels; its area is 1 - b of the
// image, b from Beta(a, a), at a random position inside the image. For each batch, a is drawn from
// the range, as in Keras; {1, 1} is the paper's setting. The share is the fraction of the pixels
// outside of the box (Keras uses the area of the box before it is aligned with pixels).
struct CutMixOptions {
  UnitRange factor = {0, 1};
};
BatchAugmentation CutMix(const CutMixOptions& options = {});

struct MixedBatch {
  ir::Values inputs;  // mixed, in their types; integers are rounded
  ir::Value partner;  // i32[batch]: index of each example's partner
  ir::Value share;    // f32[batch]: share of its own label
};
// Mixes a batch by one of the augmentations (at least one), drawn for each batch with equal
// probabilities. `mask`: f32[batch], 0 for padding, which follows the real examples. An error of
// the graph for a batch of 1.
MixedBatch MixBatch(const std::vector<BatchAugmentation>& augmentations, ir::Value key,
                    const ir::Values& inputs, ir::Value mask);

// The error of an invalid option, or of inputs that cannot be mixed, such as class indices.
absl::Status CheckBatchAugmentation(const std::vector<BatchAugmentation>& augmentations,
                                    const std::vector<Network::Port>& inputs);

}  // namespace penstock::nn
