// Profiler: fills what ProfileOptions asks for, from what a FitRun tells it. Internal to room
// train.
//
// Most of the trace writes itself: the host's work where IdleMeter::Doing marks it, the pipeline in
// room data, copies in Feed. Here is what only shows when it is over: executions, steps, epochs.
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
#include "penstock/train/in_flight.h"
#include "penstock/train/profile_options.h"
#include "penstock/train/strategy.h"

namespace penstock::train {

// The thread's that runs the training; the trace is any thread's.
class Profiler {
 public:
  Profiler(const ProfileOptions& options, const Strategy& strategy, base::Clock* clock);

  // Whether the options make sense, and the folder can be written to.
  absl::Status Check() const;
  base::Trace* trace() { return &trace_; }
  const ProfileOptions& options() const { return options_; }

  // Steps up to this one of this run are going to be given to the devices.
  void WillGive(int64_t last_step);
  // An execution is over: of training steps that end with `last_step` of all of the training, or
  // (-1) of another program.
  void Executed(absl::string_view program, const InFlight::Step& step, int64_t last_step);
  // Steps up to this one of this run are done and looked at. True: they were the last that the
  // trace shows, and WriteTrace is to be called now.
  bool Done(int64_t last_step);

  void EpochBegins(int epoch);
  void EpochEnds();
  void DataRead(data::PipelineReport report) { pipeline_ = std::move(report); }

  // At the end: the rest of the files. `stats` is of the whole run; `step` is the graph of a single
  // step (null when none was run), and `print` prints it as it was run.
  absl::Status Finish(const FitStats& stats, const ir::Graph* step,
                      const profile::PrintFunction& print);
  // The trace, as far as it came, once.
  absl::Status WriteTrace();

  // Of one step, on the devices: the median. 0: none was seen.
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
  int64_t spans_ = 0, dropped_ = 0;  // of what was written
  int64_t done_ = 0;                 // steps of this run
  int epoch_ = -1;                   // that runs
  double epoch_began_ = 0;
  std::vector<double> finished_;      // of the last execution, for each device
  double last_step_finished_ = -1;    // of this epoch
  std::vector<double> step_seconds_;  // of each execution
  std::optional<data::PipelineReport> pipeline_;
};

}  // namespace penstock::train
