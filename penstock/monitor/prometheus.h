// The text of /metrics: Prometheus exposition format 0.0.4.
#pragma once

#include <string>

#include "penstock/monitor/snapshot.h"

namespace penstock::monitor {

// Names are those of AllMetrics; labels are escaped.
std::string PrometheusText(const Snapshot& snapshot);

// Content-Type of the text.
inline constexpr char kPrometheusType[] = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace penstock::monitor
