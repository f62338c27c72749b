// Snapshot: everything that a monitor shows, at one moment. It travels as JSON from the process
// that trains to `penstock monitor` and the page.
//
//   Snapshot snapshot = registry.Take();
//   std::string json = snapshot.ToJson();
//   PENSTOCK_ASSIGN_OR_RETURN(Snapshot read, Snapshot::FromJson(json));   // read == snapshot
//   if (const double* idle = read.Find("penstock_idle_ratio")) Show(*idle);
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/monitor/metric_names.h"

namespace penstock::monitor {

// Something that happened: "recompiled", "epoch", "note", "error", ...
struct Event {
  int64_t number = 0;  // counts from 1 in a registry, also over events that were dropped
  double unix_seconds = 0;
  std::string kind = {};
  std::string text = {};

  bool operator==(const Event&) const = default;
};

// One number. Of a histogram: a cumulative distribution as Prometheus wants it.
struct MetricValue {
  std::string name = {};   // a row of AllMetrics
  std::string label = {};  // value of its label; empty: it has none
  double value = 0;        // of a histogram: the sum
  int64_t count = 0;       // of a histogram
  // Of a histogram: (upper bound, number of durations below it), ascending.
  std::vector<std::pair<double, int64_t>> below = {};

  bool operator==(const MetricValue&) const = default;
};

struct Snapshot {
  double unix_seconds = 0;
  double started_unix_seconds = 0;
  std::string state = {};                 // "compiling train_step", "training", "ended"
  std::string words = {};                 // one sentence that says what limits it; may be empty
  std::string device = {};                // "8 x TPU v3"
  std::string limiting_stage = {};        // of the pipeline; empty: none
  std::vector<MetricValue> metrics = {};  // in the order of AllMetrics
  std::vector<Event> events = {};         // the latest ones, oldest first
  // What each session of a worker is doing, by the label of its metrics.
  std::vector<std::pair<std::string, std::string>> activities = {};

  // Null if it is not measured.
  const double* Find(absl::string_view name, absl::string_view label = "") const;

  std::string ToJson() const;
  // INVALID_ARGUMENT, with the field, for text that is not a snapshot. Fields and metrics that it
  // does not know are ignored, so that an older program can read a newer one.
  static absl::StatusOr<Snapshot> FromJson(absl::string_view json);

  bool operator==(const Snapshot&) const = default;
};

}  // namespace penstock::monitor
