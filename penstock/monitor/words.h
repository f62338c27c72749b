// Words: one sentence that says what limits a running training, by the rules of `penstock doctor`
// (diagnose/diagnosis.h) applied to live numbers.
//
//   "idle 41 %, waiting for data: decoding needs 3.1 cores more"
//   "idle 12 %, dispatching: 0.31 ms per execution of 1 step; raise steps_per_execution, or set it to auto"
//   "the devices are busy 99 % of the time"
//   "no step has ended for 40 s: waiting for data"
#pragma once

#include <optional>
#include <string>

#include "penstock/data/report.h"
#include "penstock/diagnose/diagnosis.h"
#include "penstock/train/fit_stats.h"

namespace penstock::monitor {

struct LiveNumbers {
  train::FitStats recent = {};  // of the last seconds
  double examples_per_second = 0;
  int cores = 1;    // of this host
  double load = 0;  // of this host, the average of a minute (getloadavg); 0: unknown
  bool device_shares_cores = false;
  std::optional<data::PipelineReport> pipeline = {};  // of the last seconds
};

// Empty as long as nothing was measured.
std::string Words(const LiveNumbers& live);

// While no step has ended for `seconds`, and the host does `work`: empty as long as that is not unusual
// for steps of `step_seconds`.
std::string StalledWords(train::HostWork work, double seconds, double step_seconds);

// The symptoms that the doctor's rules see. Rates of single steps are not measured while the
// pipeline runs as a whole; they are what the utilization of its stages leaves room for.
diagnose::Symptoms LiveSymptoms(const LiveNumbers& live);

}  // namespace penstock::monitor
