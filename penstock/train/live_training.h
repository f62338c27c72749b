// LiveTraining: what a monitor reads of a training while it runs, between two steps.
//
//   absl::Status BatchEnd(train::TrainingContext& context, const train::Position&,
//                         const train::Logs&) override {
//     if (const train::LiveTraining* live = context.live()) Show(live->StatsSoFar());
//     return absl::OkStatus();
//   }
//
// Nothing here blocks on the devices. LastExecution and NextLearningRate cost nothing; StepGraph is
// for once in a training; the others copy a few numbers of every stage or epoch, so a callback should
// call them some times a second at most. They are for the thread that calls the hooks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"

#include "penstock/data/report.h"
#include "penstock/ir/graph.h"
#include "penstock/nn/network.h"
#include "penstock/runtime/client.h"
#include "penstock/train/fit_stats.h"
#include "penstock/train/strategy.h"

namespace penstock::train {

// The execution whose report has arrived last. Times are those of TrainerOptions::clock.
struct LastExecution {
  int64_t steps = 0;          // 0: there was none
  int64_t examples = 0;       // real ones, without padding
  double dispatched = 0;      // when the host dispatched it
  double finished = 0;        // when the devices were done
  double device_seconds = 0;  // from the end of the previous execution, or from its own dispatch if
                              // that was later, to its end
};

class LiveTraining {
 public:
  virtual ~LiveTraining() = default;

  virtual const LastExecution& last_execution() const = 0;
  // Times of this run so far, the epoch in progress included.
  virtual FitStats StatsSoFar() const = 0;
  // Report of the pipeline that feeds the training now; none between two pipelines.
  virtual std::optional<data::PipelineReport> Pipeline() const = 0;
  // The program that the steps execute; null before it is compiled.
  virtual runtime::Executable* step_program() const = 0;
  // The graph of a training step (of one batch), as a log shows it. Built by this call, in some
  // milliseconds for a hundred layers; null before the first step.
  virtual absl::StatusOr<std::unique_ptr<ir::Graph>> StepGraph() const = 0;
  virtual const Strategy& strategy() const = 0;
  virtual const nn::Network& network() const = 0;
  // The learning rate of the step after the last completed one, a constant or a schedule's; of a
  // schedule no value before the first report of this run.
  virtual std::optional<double> NextLearningRate() const = 0;
  // Seconds that the host spent taking batches and starting their transfers, whether the devices
  // were idle meanwhile or not (infeed).
  virtual double InfeedSeconds() const = 0;
  // What the host does now. The only function that other threads may call, until TrainEnd returns.
  virtual HostWork host_work() const = 0;
};

}  // namespace penstock::train
