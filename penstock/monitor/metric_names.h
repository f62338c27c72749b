// The metrics that a monitor exports, one table: name, kind, help text. Prometheus, the page, the
// terminal and docs/monitor.md show these; a test compares the documentation and the Grafana
// dashboard with the table.
//
// Names follow Prometheus: base units (seconds, bytes), ratios from 0 to 1, "_total" for counters.
#pragma once

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace penstock::monitor {

enum class MetricKind { kCounter, kGauge, kHistogram };
// "counter", "gauge", "histogram".
absl::string_view NameOf(MetricKind kind);

struct MetricRow {
  const char* name;
  MetricKind kind;
  const char* label;  // name of its one label; null: it has none
  bool charted;       // Registry keeps its TimeSeries
  const char* help;
};

absl::Span<const MetricRow> AllMetrics();
// Null if there is no such metric.
const MetricRow* FindMetric(absl::string_view name);

}  // namespace penstock::monitor
