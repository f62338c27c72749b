#include "penstock/data/travel/report_json.h"

#include <utility>

#include "penstock/base/json_dump.h"
#include "penstock/base/status.h"
#include "penstock/data/travel/stage_fields.h"

namespace penstock::data {
namespace {

void StageStatsFields(StageFields& f, StageStats& s) {
  f.Value("stage", &s.stage);
  f.Value("inside_next", &s.inside_next);
  f.Value("elements", &s.elements);
  f.Value("bytes", &s.bytes);
  f.Value("busy_seconds", &s.busy_seconds);
  f.Value("wait_input_seconds", &s.wait_input_seconds);
  f.Value("backpressure_seconds", &s.backpressure_seconds);
  f.Value("skipped", &s.skipped);
  f.Value("skipped_messages", &s.skipped_messages);
  f.Value("hint", &s.hint);
  f.Choice("work", &s.work, {"driver", "compute", "io"});
  f.Value("parallelism", &s.parallelism);
  f.Value("prefetch_limit", &s.prefetch_limit);
  f.Value("prefetch_unit", &s.prefetch_unit);
  f.Value("memory_bytes", &s.memory_bytes);
  f.Value("peak_memory_bytes", &s.peak_memory_bytes);
  std::vector<int64_t> inputs(s.inputs.begin(), s.inputs.end());
  f.Value("inputs", &inputs);
  s.inputs.clear();
  for (int64_t input : inputs) {
    f.CheckRange("inputs", input, 0, 100'000);
    s.inputs.push_back(static_cast<int>(input));
  }
}

void ReportFields(StageFields& f, PipelineReport& r) {
  f.List("stages", &r.stages, StageStatsFields);
  f.Value("seconds", &r.seconds);
  f.Value("reader_wait_seconds", &r.reader_wait_seconds);
  f.Value("memory_budget_bytes", &r.memory_budget_bytes);
  f.Value("memory_bytes", &r.memory_bytes);
  f.Value("peak_memory_bytes", &r.peak_memory_bytes);
  f.Value("decisions", &r.decisions);
  f.Value("cores", &r.cores);
}

}  // namespace

std::string ReportToJson(const PipelineReport& report) {
  PipelineReport copy = report;
  // File names in messages need not be UTF-8, and a report is for people.
  for (StageStats& stage : copy.stages) {
    stage.stage = base::ReplaceInvalidUtf8(stage.stage);
    stage.hint = base::ReplaceInvalidUtf8(stage.hint);
    for (std::string& text : stage.skipped_messages) text = base::ReplaceInvalidUtf8(text);
  }
  for (std::string& text : copy.decisions) text = base::ReplaceInvalidUtf8(text);
  return ToText(std::move(copy), ReportFields);
}

absl::StatusOr<PipelineReport> ReportFromJson(absl::string_view text) {
  PENSTOCK_ASSIGN_OR_RETURN(
      PipelineReport report,
      FromText<PipelineReport>(text, "the report of a pipeline", /*max_levels=*/4,
                               OtherFields::kIgnore, ReportFields));
  const auto stages = static_cast<int>(report.stages.size());
  for (int i = 0; i < stages; ++i) {
    // Upstream stages stand before: those who print the report follow the numbers.
    for (int input : report.stages[static_cast<size_t>(i)].inputs) {
      if (input >= i) return absl::InvalidArgumentError("a stage's input must stand before it");
    }
  }
  return report;
}

}  // namespace penstock::data
