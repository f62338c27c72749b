// Tables of metrics by name, one for each family. Internal to room nn.
#pragma once

#include <memory>

#include "absl/types/span.h"

#include "penstock/nn/metrics.h"

namespace penstock::nn {

struct MetricRow {
  const char* name;        // Keras's default name; listed by Metric::Names
  const char* class_name;  // "" if Keras has no such class
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
