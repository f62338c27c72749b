#include "penstock/data/report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "penstock/base/available_memory.h"

namespace penstock::data {
namespace {

constexpr size_t kNameWidth = 44;

double Share(double part, double of) { return of > 0 ? part / of : 0; }

std::string Short(absl::string_view name) {
  if (name.size() <= kNameWidth) return std::string(name);
  return absl::StrCat(name.substr(0, kNameWidth - 4), "...", name.substr(name.size() - 1));
}

std::string PrintSeconds(double seconds) {
  if (seconds < 1e-6) return absl::StrFormat("%.0f ns", seconds * 1e9);
  if (seconds < 1e-3) return absl::StrFormat("%.3g us", seconds * 1e6);
  if (seconds < 1) return absl::StrFormat("%.3g ms", seconds * 1e3);
  return absl::StrFormat("%.3g s", seconds);
}

std::string PrintPrefetchLimit(const StageStats& stage) {
  if (stage.prefetch_limit < 0) return "-";
  if (stage.prefetch_unit == "bytes") return base::PrintBytes(stage.prefetch_limit);
  return absl::StrCat(stage.prefetch_limit, " ", stage.prefetch_unit);
}

// Cells of the table, and lines of the graph.
struct Cells {
  Cells(const StageStats& stage, double seconds)
      : elements(absl::StrCat(stage.elements)),
        each(stage.elements > 0 ? PrintSeconds(stage.busy_seconds / stage.elements) : "-"),
        busy(Percent(Share(stage.busy_seconds, seconds * stage.parallelism))),
        waits_input(Percent(Share(stage.wait_input_seconds, seconds))),
        backpressure(Percent(Share(stage.backpressure_seconds, seconds))),
        parallelism(absl::StrCat(stage.parallelism)),
        prefetch(PrintPrefetchLimit(stage)),
        memory(stage.memory_bytes == 0 ? "-" : base::PrintBytes(stage.memory_bytes)) {}

  std::string elements, each, busy, waits_input, backpressure, parallelism, prefetch, memory;
};

std::string Summary(const PipelineReport& report) {
  return absl::StrFormat(
      "%.3g s; the reader waited %s of the time; memory: %s in use, peak %s, budget %s",
      report.seconds, Percent(Share(report.reader_wait_seconds, report.seconds)),
      base::PrintBytes(report.memory_bytes), base::PrintBytes(report.peak_memory_bytes),
      base::PrintBytes(report.memory_budget_bytes));
}

}  // namespace

std::string Percent(double share) { return absl::StrFormat("%.0f %%", 100 * share); }

double Utilization(absl::Span<const StageStats> stages, size_t stage, double seconds) {
  const StageStats& s = stages[stage];
  if (s.work == StageWork::kIo) return Share(s.wait_input_seconds, seconds);
  const double own = Share(s.busy_seconds, seconds * static_cast<double>(s.parallelism));
  if (s.work != StageWork::kCompute) return own;
  double busy = 0;
  int64_t threads = 1;
  for (const StageStats& other : stages) {
    if (other.work != StageWork::kCompute) continue;
    if (other.busy_seconds > s.busy_seconds) return own;
    busy += other.busy_seconds;
    threads = std::max(threads, other.parallelism);
  }
  return std::max(own, Share(busy, seconds * static_cast<double>(threads)));
}

PipelineReport ReportSince(PipelineReport now, const PipelineReport& before) {
  if (now.stages.size() != before.stages.size() || now.seconds <= before.seconds ||
      now.reader_wait_seconds < before.reader_wait_seconds) {
    return now;
  }
  for (size_t i = 0; i < now.stages.size(); ++i) {
    if (now.stages[i].stage != before.stages[i].stage ||
        now.stages[i].elements < before.stages[i].elements ||
        now.stages[i].busy_seconds < before.stages[i].busy_seconds) {
      return now;
    }
  }
  now.seconds -= before.seconds;
  now.reader_wait_seconds -= before.reader_wait_seconds;
  for (size_t i = 0; i < now.stages.size(); ++i) {
    StageStats& stage = now.stages[i];
    const StageStats& earlier = before.stages[i];
    stage.elements -= earlier.elements;
    stage.bytes -= earlier.bytes;
    stage.busy_seconds -= earlier.busy_seconds;
    stage.wait_input_seconds -= earlier.wait_input_seconds;
    stage.backpressure_seconds -= earlier.backpressure_seconds;
    stage.skipped -= earlier.skipped;
  }
  return now;
}

std::optional<size_t> Bottleneck(absl::Span<const StageStats> stages, double seconds,
                                 double reader_wait_seconds) {
  if (Share(reader_wait_seconds, seconds) < kInputBoundShare) return std::nullopt;
  std::optional<size_t> busiest;
  for (size_t i = 0; i < stages.size(); ++i) {
    if (!busiest.has_value() ||
        Utilization(stages, i, seconds) > Utilization(stages, *busiest, seconds)) {
      busiest = i;
    }
  }
  return busiest;
}

std::vector<int> Depths(absl::Span<const StageStats> stages) {
  std::vector<int> depths(stages.size(), 0);
  for (size_t i = stages.size(); i-- > 0;) {
    for (int input : stages[i].inputs) {
      depths[static_cast<size_t>(input)] = depths[i] + (stages[i].inputs.size() > 1 ? 1 : 0);
    }
  }
  return depths;
}

std::string Table(const PipelineReport& report) {
  const std::vector<int> depths = Depths(report.stages);
  const auto bottleneck = Bottleneck(report.stages, report.seconds, report.reader_wait_seconds);
  std::string out = Summary(report) + "\n";
  constexpr char kLine[] = "%-1s %-46s %10s %9s %6s %11s %12s %8s %12s %9s\n";
  absl::StrAppendFormat(&out, kLine, "", "stage", "elements", "each", "busy", "waits input",
                        "backpressure", "parallel", "prefetch", "memory");
  for (size_t i = 0; i < report.stages.size(); ++i) {
    const StageStats& stage = report.stages[i];
    const Cells cells(stage, report.seconds);
    const std::string name = absl::StrCat(
        std::string(2 * static_cast<size_t>(depths[i] + (stage.inside_next ? 1 : 0)), ' '),
        Short(stage.stage));
    absl::StrAppendFormat(&out, kLine, bottleneck == i ? ">" : "", name, cells.elements, cells.each,
                          cells.busy, cells.waits_input, cells.backpressure, cells.parallelism,
                          cells.prefetch, cells.memory);
  }
  if (!report.decisions.empty()) {
    absl::StrAppend(&out, "tuned:\n  ", absl::StrJoin(report.decisions, "\n  "), "\n");
  }
  return out;
}

std::string DotQuoted(absl::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '"' || c == '\\') out.push_back('\\');
    if (c == '\n') {
      out += "\\n";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

std::string Dot(const PipelineReport& report) {
  const auto bottleneck = Bottleneck(report.stages, report.seconds, report.reader_wait_seconds);
  std::string out = absl::StrCat(
      "digraph pipeline {\n  rankdir=TB;\n  node [shape=box, fontname=\"monospace\"];\n  label=\"",
      DotQuoted(Summary(report)), "\";\n");
  for (size_t i = 0; i < report.stages.size(); ++i) {
    const StageStats& stage = report.stages[i];
    const Cells cells(stage, report.seconds);
    absl::StrAppend(&out, "  s", i, " [label=\"", DotQuoted(Short(stage.stage)), "\\n",
                    cells.elements, " elements, ", cells.each, " each\\n", cells.parallelism,
                    " parallel, ", cells.busy, " busy\\nwaits: input ", cells.waits_input,
                    ", backpressure ", cells.backpressure);
    if (stage.prefetch_limit >= 0) absl::StrAppend(&out, "\\nprefetch ", cells.prefetch);
    if (stage.memory_bytes > 0) absl::StrAppend(&out, "\\nmemory ", cells.memory);
    absl::StrAppend(&out, "\"", stage.inside_next ? ", style=dashed" : "",
                    bottleneck == i ? ", style=filled, fillcolor=\"#f4a582\"" : "", "];\n");
    for (int input : stage.inputs) absl::StrAppend(&out, "  s", input, " -> s", i, ";\n");
  }
  return out + "}\n";
}

}  // namespace penstock::data
