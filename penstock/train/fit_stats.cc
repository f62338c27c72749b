#include "penstock/train/fit_stats.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace penstock::train {

FitStats& FitStats::operator+=(const FitStats& other) {
  seconds += other.seconds;
  idle_data += other.idle_data;
  idle_compile += other.idle_compile;
  idle_callbacks += other.idle_callbacks;
  idle_host += other.idle_host;
  steps += other.steps;
  executions += other.executions;
  return *this;
}

std::string FitStats::IdleToString() const {
  if (seconds <= 0) return "";
  const std::pair<const char*, double> causes[] = {{"data", idle_data},
                                                   {"compile", idle_compile},
                                                   {"callbacks", idle_callbacks},
                                                   {"host", idle_host}};
  std::string named;
  for (const auto& [name, idle] : causes) {
    const double percent = 100 * idle / seconds;
    if (percent < 0.1) continue;
    absl::StrAppendFormat(&named, "%s%s %.1f %%", named.empty() ? "" : ", ", name, percent);
  }
  std::string text = absl::StrFormat("idle %.1f %%", 100 * idle_seconds() / seconds);
  if (!named.empty()) absl::StrAppend(&text, " (", named, ")");
  return text;
}

}  // namespace penstock::train
