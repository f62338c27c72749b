// The metrics by name, one list for each family. Part of room nn's inside.
#pragma once

#include <memory>

#include "absl/types/span.h"

#include "penstock/nn/metrics.h"

namespace penstock::nn {

struct MetricRow {
  const char* name;        // Keras's default, and what Metric::Names lists
  const char* class_name;  // "" where Keras has no such class
  const char* aliases;     // "mse MSE"
  std::shared_ptr<MetricBody> (*make)();
};

template <typename Body>
std::shared_ptr<MetricBody> MakeMetric() {
  return std::make_shared<Body>();
}

absl::Span<const MetricRow> MeanMetrics();
absl::Span<const MetricRow> ConfusionMetrics();
absl::Span<const MetricRow> CurveMetrics();
absl::Span<const MetricRow> IoUMetrics();

}  // namespace penstock::nn
