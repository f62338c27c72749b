// Profiler: writes the files that ProfileOptions requests, from the reports of the training loop.
// Internal to room train.
//
// Most of the trace is recorded elsewhere: the host's work by IdleMeter::Activity, the pipeline by
// room data, transfers by Feed. The profiler adds what is known only afterward: executions, steps,
// epochs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "penstock/base/clock.h"
#include "penstock/base/trace.h"
#include "penstock/data/report.h"
#include "penstock/ir/graph.h"
#include "penstock/profile/operation_costs.h"
#include "penstock/train/fit_stats.h"
#include "penstock/train/loop/in_flight.h"
#include "penstock/train/profile_options.h"
#include "penstock/train/strategy.h"

namespace penstock::train {

// For the thread that runs the training; the trace is for any thread.
class Profiler {
 public:
  Profiler(const ProfileOptions& options, const Strategy& strategy, base::Clock* clock);

  // Checks the options, and that the folder can be written to.
  absl::Status Check() const;
  base::Trace* trace() { return &trace_; }
  const ProfileOptions& options() const { return options_; }

  // Call before steps up to `last_step` (of this run, from 1) are dispatched.
  void WillDispatch(int64_t last_step);
  // Call when an execution is completed: of training steps that end with `last_step` of the whole
  // training, or (-1) of another program.
  void Executed(absl::string_view program, const InFlight::Execution& execution, int64_t last_step);
  // Call when the reports of the steps up to `last_step` of this run were read. True: that was the
  // last step of the trace, call WriteTrace now.
  bool Completed(int64_t last_step);

  void EpochBegins(int epoch);
  void EpochEnds();
  void DataRead(data::PipelineReport report) { pipeline_ = std::move(report); }

  // Call at the end: writes the remaining files. `stats`: of the whole run. `step`: the graph of a
  // single step (null if none was run); `print` prints it as it was run.
  absl::Status Finish(const FitStats& stats, const ir::Graph* step,
                      const profile::PrintFunction& print);
  // Writes what was recorded of the trace so far; only the first call does.
  absl::Status WriteTrace();

  // Median seconds of one step on the devices; 0 if none was completed.
  double StepSeconds() const;

 private:
  std::string Summary(const FitStats& stats) const;
  absl::Status WriteOperations(const ir::Graph& step, const profile::PrintFunction& print,
                               std::string& page) const;
  absl::Status WriteFile(absl::string_view name, absl::string_view bytes) const;

  const ProfileOptions options_;
  const Strategy& strategy_;
  base::Clock* const clock_;
  const std::shared_ptr<io::FileSystem> fs_;
  base::Trace trace_;
  int epochs_track_ = 0, steps_track_ = 0;
  std::vector<int> device_tracks_;

  bool written_ = false;
  int64_t spans_ = 0, dropped_ = 0;  // of the written trace
  int64_t completed_ = 0;            // steps of this run
  int epoch_ = -1;                   // the current epoch
  double epoch_began_ = 0;
  std::vector<double> finished_;      // of the last execution, for each device
  double last_step_finished_ = -1;    // of this epoch
  std::vector<double> step_seconds_;  // of each execution
  std::optional<data::PipelineReport> pipeline_;
};

}  // namespace penstock::train
