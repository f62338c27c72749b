#include "penstock/monitor/prometheus.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

#include "penstock/base/json_dump.h"

namespace penstock::monitor {
namespace {

std::string LabelValue(const std::string& text) {
  return absl::StrReplaceAll(base::ReplaceInvalidUtf8(text),
                             {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}});
}

// Shortest text that reads back as the same number.
std::string Value(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  std::string text = absl::StrFormat("%.15g", value);
  if (std::strtod(text.c_str(), nullptr) != value) text = absl::StrFormat("%.17g", value);
  return text;
}

void AppendHistogram(const MetricValue& metric, std::string& text) {
  for (const auto& [bound, count] : metric.below) {
    absl::StrAppend(&text, metric.name, "_bucket{le=\"", Value(bound), "\"} ", count, "\n");
  }
  absl::StrAppend(&text, metric.name, "_bucket{le=\"+Inf\"} ", metric.count, "\n");
  absl::StrAppend(&text, metric.name, "_sum ", Value(metric.value), "\n");
  absl::StrAppend(&text, metric.name, "_count ", metric.count, "\n");
}

}  // namespace

std::string PrometheusText(const Snapshot& snapshot) {
  std::string text;
  const MetricRow* last = nullptr;
  for (const MetricValue& metric : snapshot.metrics) {
    const MetricRow* row = FindMetric(metric.name);
    if (row == nullptr) continue;
    if (row != last) {
      absl::StrAppend(&text, "# HELP ", row->name, " ", row->help, "\n# TYPE ", row->name, " ",
                      NameOf(row->kind), "\n");
    }
    last = row;
    if (row->kind == MetricKind::kHistogram) {
      AppendHistogram(metric, text);
    } else if (row->label == nullptr) {
      absl::StrAppend(&text, row->name, " ", Value(metric.value), "\n");
    } else {
      absl::StrAppend(&text, row->name, "{", row->label, "=\"", LabelValue(metric.label), "\"} ",
                      Value(metric.value), "\n");
    }
  }
  return text;
}

}  // namespace penstock::monitor
