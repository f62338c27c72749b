#include "penstock/cli/monitor_lines.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"

#include "penstock/base/available_memory.h"
#include "penstock/cli/legible.h"
#include "penstock/remote/worker/session_table.h"

namespace penstock::cli {
namespace {

using monitor::Snapshot;

std::string PercentOf(double ratio) { return absl::StrFormat("%.1f %%", 100 * ratio); }

std::string NumberOf(double value) { return absl::StrFormat("%.4g", value); }

std::string MillisecondsOf(double seconds) { return absl::StrFormat("%.3g ms", 1e3 * seconds); }

std::string BytesOf(double bytes) {
  return base::PrintBytes(std::llround(std::clamp(bytes, 0.0, 1e18)));
}

// "3/10", or "3" without a total.
std::string OfTotal(const Snapshot& s, const char* part, const char* total) {
  const double* value = s.Find(part);
  if (value == nullptr) return "";
  const double* all = s.Find(total);
  return all == nullptr ? absl::StrFormat("%.0f", *value)
                        : absl::StrFormat("%.0f/%.0f", *value, *all);
}

// "epoch 3/10 step 812/900"; empty before the first epoch.
std::string Place(const Snapshot& s) {
  const std::string epoch = OfTotal(s, "penstock_epoch", "penstock_epochs");
  if (epoch.empty()) return "";
  const std::string step = OfTotal(s, "penstock_epoch_step", "penstock_steps_per_epoch");
  return absl::StrCat("epoch ", epoch, step.empty() ? "" : absl::StrCat(" step ", step));
}

std::string LogsOf(const Snapshot& s) {
  std::string text;
  for (const monitor::MetricValue& metric : s.metrics) {
    if (metric.name != "penstock_log") continue;
    absl::StrAppend(&text, text.empty() ? "" : "  ", LegibleLine(metric.label),
                    absl::StrFormat(" %.5g", metric.value));
  }
  return text;
}

// The parts that exist, two spaces apart.
class Parts {
 public:
  Parts(const Snapshot& snapshot, std::string separator)
      : snapshot_(snapshot), separator_(std::move(separator)) {}
  void Add(const std::string& text) {
    if (!text.empty()) absl::StrAppend(&text_, text_.empty() ? "" : separator_, text);
  }
  void Add(const char* title, const char* metric, std::string (*print)(double),
           const char* label = "") {
    const double* value = snapshot_.Find(metric, label);
    if (value != nullptr) Add(absl::StrCat(title, print(*value)));
  }
  const std::string& text() const { return text_; }

 private:
  const Snapshot& snapshot_;
  const std::string separator_;
  std::string text_;
};

// "45.2 GFLOP/s"
std::string FlopsOf(double rate) {
  for (const auto& [unit, size] : {std::pair("PFLOP/s", 1e15), std::pair("TFLOP/s", 1e12),
                                   std::pair("GFLOP/s", 1e9), std::pair("MFLOP/s", 1e6)}) {
    if (rate >= size) return absl::StrFormat("%.3g %s", rate / size, unit);
  }
  return absl::StrFormat("%.3g FLOP/s", rate);
}

// Without a peak, MXU % is unknown: of CPUs there are too many kinds.
std::string PeakOf(const Snapshot& s) {
  const bool measured = s.Find("penstock_flops_per_second") != nullptr;
  return measured && s.Find("penstock_mxu_ratio") == nullptr ? "(no peak known)" : "";
}

std::string RateOf(double rate) { return absl::StrFormat("%.4g examples/s", rate); }

std::string CausesOf(const Snapshot& s) {
  Parts parts(s, ", ");
  for (const char* cause : {"data", "compile", "callbacks", "host"}) {
    const double* value = s.Find("penstock_idle_cause_ratio", cause);
    if (value != nullptr && *value >= 1e-3) parts.Add(absl::StrCat(cause, " ", PercentOf(*value)));
  }
  return parts.text().empty() ? "" : absl::StrCat(" (", parts.text(), ")");
}

std::string TimeOf(double unix_seconds) {
  // Outside these bounds no calendar can print it.
  const double bounded = std::isfinite(unix_seconds) ? std::clamp(unix_seconds, 0.0, 1e11) : 0;
  return absl::FormatTime("%H:%M:%S", absl::FromUnixSeconds(static_cast<int64_t>(bounded)),
                          absl::LocalTimeZone());
}

void AppendStages(const Snapshot& s, std::string& text) {
  for (const monitor::MetricValue& metric : s.metrics) {
    if (metric.name != "penstock_pipeline_stage_utilization_ratio") continue;
    absl::StrAppendFormat(&text, "  %s %5.1f %%  %s\n",
                          metric.label == s.limiting_stage ? ">" : " ", 100 * metric.value,
                          LegibleLine(metric.label.substr(0, 90)));
  }
}

std::string PerSecond(double rate) { return absl::StrFormat("%.4g executions/s", rate); }
std::string BytesPerSecond(double rate) { return absl::StrCat(BytesOf(rate), "/s"); }

// A line for each session of a worker, and one with what it is doing.
void AppendSessions(const Snapshot& s, std::string& text) {
  for (const monitor::MetricValue& metric : s.metrics) {
    if (metric.name != "penstock_session_connected") continue;
    const char* label = metric.label.c_str();
    const auto value = [&](const char* name) {
      const double* found = s.Find(name, metric.label);
      return found == nullptr ? 0.0 : *found;
    };
    Parts parts(s, "   ");
    parts.Add("open for ", "penstock_session_seconds", remote::LegibleSeconds, label);
    parts.Add("last request ", "penstock_session_idle_seconds", remote::LegibleSeconds, label);
    parts.Add("busy ", "penstock_session_busy_ratio", PercentOf, label);
    parts.Add("", "penstock_session_executions_per_second", PerSecond, label);
    parts.Add("", "penstock_session_bytes_per_second", BytesPerSecond, label);
    parts.Add("memory ", "penstock_session_memory_bytes", BytesOf, label);
    parts.Add(absl::StrFormat("%.0f executions", value("penstock_session_executions_total")));
    absl::StrAppend(&text, "session   ", LegibleLine(metric.label.substr(0, 90)),
                    metric.value == 0 ? " (not connected)" : "", "\n          ", parts.text(),
                    "\n");
    for (const auto& [of, activity] : s.activities) {
      if (of == metric.label) absl::StrAppend(&text, "          ", LegibleLine(activity), "\n");
    }
  }
}

}  // namespace

std::string MonitorBlock(const Snapshot& s, int events) {
  std::string text;
  const auto line = [&](const char* title, const std::string& value) {
    if (!value.empty()) absl::StrAppendFormat(&text, "%-9s %s\n", title, value);
  };
  line("state", LegibleLine(absl::StrCat(s.state, s.device.empty() ? "" : ", ", s.device)));
  if (const double* idle = s.Find("penstock_worker_idle_ratio")) line("idle", PercentOf(*idle));
  const double* since = s.Find("penstock_seconds_since_step");
  line("position", absl::StrCat(Place(s), since != nullptr && *since >= 2
                                              ? absl::StrFormat("  (no step for %.0f s)", *since)
                                              : ""));
  line("logs", LogsOf(s));
  Parts rate(s, "");
  rate.Add("", "penstock_learning_rate", NumberOf);
  line("rate", rate.text());
  if (const double* idle = s.Find("penstock_idle_ratio")) {
    line("idle", absl::StrCat(PercentOf(*idle), CausesOf(s)));
  }
  Parts device(s, "   ");
  device.Add("MXU ", "penstock_mxu_ratio", PercentOf);
  device.Add("achieved ", "penstock_flops_per_second", FlopsOf);
  device.Add(PeakOf(s));
  device.Add("infeed ", "penstock_infeed_ratio", PercentOf);
  line("device", device.text());
  Parts speed(s, "   ");
  speed.Add("", "penstock_examples_per_second", RateOf);
  speed.Add("step median ", "penstock_step_p50_seconds", MillisecondsOf);
  speed.Add("99th ", "penstock_step_p99_seconds", MillisecondsOf);
  line("speed", speed.text());
  Parts memory(s, "   ");
  for (const monitor::MetricValue& metric : s.metrics) {
    if (metric.name != "penstock_device_memory_free_bytes") continue;
    memory.Add(
        absl::StrCat("device ", LegibleLine(metric.label), ": ", BytesOf(metric.value), " free"));
  }
  line("memory", memory.text());
  line("words", LegibleLine(s.words));
  AppendStages(s, text);
  AppendSessions(s, text);
  const size_t first = s.events.size() - std::min(s.events.size(), static_cast<size_t>(events));
  for (size_t i = first; i < s.events.size(); ++i) {
    const monitor::Event& event = s.events[i];
    absl::StrAppend(&text, TimeOf(event.unix_seconds), "  ", LegibleLine(event.kind), ": ",
                    LegibleLine(event.text), "\n");
  }
  return text;
}

std::string MonitorLine(const Snapshot& s) {
  Parts parts(s, "  ");
  parts.Add(TimeOf(s.unix_seconds));
  const std::string place = Place(s);
  parts.Add(s.state == "training" && !place.empty() ? place : LegibleLine(s.state));
  parts.Add("idle ", "penstock_idle_ratio", PercentOf);
  parts.Add("idle ", "penstock_worker_idle_ratio", PercentOf);
  parts.Add("MXU ", "penstock_mxu_ratio", PercentOf);
  parts.Add("", "penstock_examples_per_second", RateOf);
  parts.Add("step ", "penstock_step_p50_seconds", MillisecondsOf);
  parts.Add(LogsOf(s));
  parts.Add(LegibleLine(s.words));
  return parts.text();
}

}  // namespace penstock::cli
