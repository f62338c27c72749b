// InferencePass: one pass of an evaluation or a prediction over a dataset, as its callbacks see it.
// Internal to room train.
#pragma once

#include <cstdint>
#include <optional>

#include "penstock/data/dataset.h"
#include "penstock/train/callback.h"
#include "penstock/train/device_model.h"

namespace penstock::train {

class InferencePass : public InferenceContext {
 public:
  // `dataset` and `training` (may be null) must outlive the pass.
  InferencePass(const data::Dataset& dataset, data::IteratorOptions read, TrainingContext* training)
      : dataset_(dataset), read_(std::move(read)), training_(training) {}

  void Stop() override { stopped_ = true; }
  int64_t num_batches() override {
    if (!num_batches_.has_value()) {
      const absl::StatusOr<int64_t> batches = dataset_.Cardinality(read_);
      num_batches_ = batches.ok() && *batches >= 0 ? *batches : -1;
    }
    return *num_batches_;
  }
  int64_t examples() const override { return examples_; }
  TrainingContext* training() override { return training_; }
  bool failed() const override { return !status_.ok(); }

 protected:
  absl::StatusOr<std::unique_ptr<data::Iterator>> OpenIterator() const {
    return dataset_.MakeIterator(read_);
  }
  const data::Dataset& dataset() const { return dataset_; }
  const data::IteratorOptions& iterator_options() const { return read_; }
  bool stopped() const { return stopped_; }
  // Counts a completed batch; returns its index.
  int64_t CountBatch(int64_t examples) {
    examples_ += examples;
    return completed_++;
  }
  int64_t dispatched_ = 0;  // batches
  absl::Status status_;

 private:
  const data::Dataset& dataset_;
  const data::IteratorOptions read_;
  TrainingContext* const training_;
  bool stopped_ = false;
  int64_t completed_ = 0;  // batches
  int64_t examples_ = 0;
  std::optional<int64_t> num_batches_;
};

}  // namespace penstock::train
