// PredictionLoop: one call of Trainer::Predict or PredictEach. Internal to room train.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/train/callbacks/callback_list.h"
#include "penstock/train/feed.h"
#include "penstock/train/loop/inference_pass.h"
#include "penstock/train/loop/pass_limit.h"
#include "penstock/train/program_cache.h"

namespace penstock::train {

class PredictionLoop final : private InferencePass {
 public:
  // All arguments must outlive the loop. `take` receives the outputs of each batch; null: Run
  // collects them.
  PredictionLoop(DeviceModel& model, const data::Dataset& dataset, const ReadOptions& read,
                 CallbackList& callbacks, const TakePredictions* take = nullptr);

  // The network's outputs, one array each, unless they were taken; INVALID_ARGUMENT if the dataset
  // is empty.
  absl::StatusOr<std::vector<Array>> Run();

 private:
  // An execution whose results have not been read yet.
  struct Pending {
    std::vector<runtime::Buffers> results;  // [replica]
    // Where devices are a round trip away, the results' copies are under way: [replica][output].
    std::vector<std::vector<Array>> copies;
    std::vector<std::shared_ptr<runtime::Event>> arrived;
    int64_t bytes;  // of the batch and the copies
    int64_t examples;
    NamedArrays others;  // DeviceBatch::others
  };

  absl::Status PredictBatches();
  absl::Status Dispatch(const DeviceBatch& batch);
  // Reads the oldest execution's results.
  absl::Status CompleteOldest();
  absl::Status StartCopies(Pending& execution) const;
  void AwaitCopies();
  // The rows of an execution's outputs, without padding.
  absl::StatusOr<std::vector<Array>> OutputsOf(const Pending& execution) const;

  DeviceModel& model_;
  CallbackList& callbacks_;
  const TakePredictions* const take_;
  BoundProgram program_;
  PassLimit limit_;
  std::deque<Pending> pending_;
  bool any_ = false;                       // whether a batch has been completed
  std::vector<std::vector<Array>> parts_;  // [output]: rows, in order
};

}  // namespace penstock::train
