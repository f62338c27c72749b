// EvaluationLoop: one call of Trainer::Evaluate, or one validation of Fit. Internal to room train.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/train/callbacks/callback_list.h"
#include "penstock/train/feed.h"
#include "penstock/train/loop/in_flight.h"
#include "penstock/train/loop/inference_pass.h"
#include "penstock/train/loop/pass_limit.h"
#include "penstock/train/loop/profiler.h"
#include "penstock/train/program_cache.h"

namespace penstock::train {

// Accumulates the metrics' sums on the devices. The reports of two executions are in flight, and
// of more where devices are a round trip away.
class EvaluationLoop final : private InferencePass {
 public:
  // All arguments must outlive the loop; `profiler` and `training` may be null.
  EvaluationLoop(DeviceModel& model, const data::Dataset& dataset, const ReadOptions& read,
                 CallbackList& callbacks, Profiler* profiler, TrainingContext* training);

  // Losses and metrics (ReportNames); INVALID_ARGUMENT if the dataset is empty.
  absl::StatusOr<Logs> Run();

 private:
  absl::StatusOr<std::unique_ptr<HostFeed>> OpenFeed();
  absl::Status EvaluateBatches();
  absl::Status Dispatch(DeviceBatch batch);
  // Reads the oldest report in flight.
  absl::Status CompleteOldest();

  DeviceModel& model_;
  const ReadOptions read_;
  CallbackList& callbacks_;
  Profiler* const profiler_;
  base::Trace* const trace_;
  BoundProgram program_;
  std::vector<runtime::Buffers> metrics_;  // [replica]: sums after the last dispatched batch
  PassLimit limit_;
  InFlight in_flight_;
  Array report_;  // of the last completed batch
  Logs logs_;     // its numbers
};

}  // namespace penstock::train
