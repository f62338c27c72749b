#include "penstock/diagnose/diagnose.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

#include "penstock/base/available_memory.h"
#include "penstock/base/status.h"
#include "penstock/diagnose/measure.h"
#include "penstock/diagnose/step_speed.h"
#include "penstock/diagnose/symptoms.h"
#include "penstock/io/file_system.h"

namespace penstock::diagnose {
namespace {

// Measures the pipeline at its maximum rate. The idle time of an accelerator with the target's rate
// is computed from that, not simulated.
absl::StatusOr<Diagnosis> MeasurePipeline(const PipelineOptions& pipeline,
                                          const DataBenchOptions& options) {
  const int64_t available = base::AvailableMemory().bytes;
  DataBenchOptions unlimited = options;
  unlimited.target = 0;
  Diagnosis out;
  PENSTOCK_ASSIGN_OR_RETURN(out.measured,
                            BenchData(io::FileSystem::Default(), pipeline, unlimited));
  out.symptoms = SymptomsOf(out.measured, available);
  out.symptoms.data = absl::StrJoin(pipeline.data, "' '");
  out.symptoms.target = options.target;
  return out;
}

}  // namespace

absl::StatusOr<Diagnosis> DiagnosePipeline(const PipelineOptions& pipeline,
                                           const DataBenchOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(Diagnosis out, MeasurePipeline(pipeline, options));
  out.findings = Diagnose(out.symptoms);
  return out;
}

absl::StatusOr<Diagnosis> DiagnoseTraining(const TrainingToDiagnose& training,
                                           const DataBenchOptions& options) {
  if (training.model == nullptr)
    return absl::InvalidArgumentError("TrainingToDiagnose::model is null; set it to a model");
  PENSTOCK_ASSIGN_OR_RETURN(Diagnosis out, MeasurePipeline(training.pipeline, options));
  const auto report = [&](absl::string_view line) {
    if (options.on_message) options.on_message(line);
  };
  const Pipeline& pipeline = out.measured.pipeline;
  const std::vector<Rung>& rungs = pipeline.rungs;
  const StepSpeedOptions steps{.seconds = options.seconds, .steps = options.batches};
  report("measuring steps on data in memory (compiling first) ...");
  // Uses the rung that decodes; data without images has none.
  PENSTOCK_ASSIGN_OR_RETURN(const data::Dataset one,
                            FirstBatchInMemory(rungs[std::min<size_t>(1, rungs.size() - 1)].once));
  PENSTOCK_ASSIGN_OR_RETURN(const StepSpeed alone, MeasureSteps(*training.model, one, steps));
  report("measuring steps on the pipeline ...");
  const bool cut = pipeline.shuffle < out.measured.requested_shuffle;
  PENSTOCK_ASSIGN_OR_RETURN(
      const StepSpeed together,
      MeasureSteps(*training.model, cut ? rungs.back().once : training.dataset, steps));
  Symptoms& symptoms = out.symptoms;
  symptoms.device_rate = alone.examples_per_second;
  symptoms.training_rate = together.examples_per_second;
  symptoms.device_shares_cores = training.device_shares_cores;
  symptoms.peak_bytes = std::max(symptoms.peak_bytes, PeakMemory());
  out.findings = Diagnose(symptoms);
  return out;
}

std::string PrintDiagnosis(const Diagnosis& diagnosis) {
  std::string out = absl::StrCat(Verdict(diagnosis.symptoms), "\n");
  for (size_t i = 0; i < diagnosis.findings.size(); ++i) {
    const Finding& f = diagnosis.findings[i];
    const std::string cost =
        f.cost > 0 ? absl::StrFormat(" (%.0f %% of the time)", 100 * f.cost) : "";
    absl::StrAppend(&out, "\n", i + 1, ". ", f.summary, cost, "\n   evidence: ", f.evidence,
                    "\n   advice:   ", f.advice, "\n");
  }
  return out;
}

nlohmann::ordered_json DiagnosisJson(const Diagnosis& diagnosis) {
  const Symptoms& s = diagnosis.symptoms;
  nlohmann::ordered_json json{{"verdict", Verdict(s)},
                              {"required", s.required_rate()},
                              {"pipeline", s.whole_rate},
                              {"training", s.training_rate},
                              {"training_on_data_in_memory", s.device_rate}};
  json["findings"] = nlohmann::ordered_json::array();
  for (const Finding& f : diagnosis.findings) {
    json["findings"].push_back({{"rule", f.rule},
                                {"cost", f.cost},
                                {"summary", f.summary},
                                {"evidence", f.evidence},
                                {"change", f.advice}});
  }
  json["measured"] = DataBenchJson(diagnosis.measured);
  return json;
}

}  // namespace penstock::diagnose
