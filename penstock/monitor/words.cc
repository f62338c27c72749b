#include "penstock/monitor/words.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/data/stage.h"

namespace penstock::monitor {
namespace {

constexpr double kWorthAWord = 0.05;  // as doctor's findings
constexpr double kLimits = 0.5;       // utilization of a stage that may be the one that limits

bool Decodes(const data::StageStats& stage) { return stage.stage.starts_with("DecodeImage"); }
bool Parses(const data::StageStats& stage) { return stage.stage.starts_with("ParseExample"); }

// "idle 41 %, waiting for data".
std::string Idle(double share, const char* cause) {
  return absl::StrFormat("idle %.0f %%, %s", 100 * share, cause);
}

std::string LowerFirst(std::string sentence) {
  if (!sentence.empty()) sentence[0] = absl::ascii_tolower(sentence[0]);
  return sentence;
}

double Busiest(const data::PipelineReport& report) {
  double busiest = 0;
  for (size_t i = 0; i < report.stages.size(); ++i) {
    busiest = std::max(busiest, data::Utilization(report.stages, i, report.seconds));
  }
  return busiest;
}

// What the input pipeline lacks. Nothing if all of its stages are idle most of the time: then the
// training waits at the beginning of each pass, or for what no stage counts.
std::string DataRemedy(const LiveNumbers& live) {
  if (!live.pipeline.has_value()) return "";
  const diagnose::Symptoms symptoms = LiveSymptoms(live);
  if (symptoms.whole_rate <= 0 || Busiest(*live.pipeline) < kLimits) return "";
  const std::vector<diagnose::Finding> findings = diagnose::Diagnose(symptoms);
  const diagnose::Finding& finding = findings.front();
  if (finding.cost <= 0) return "";
  const double cores = symptoms.required_rate() * symptoms.decode_core_seconds - symptoms.cores;
  if (finding.rule == std::string("decode-bound") && cores > 0.05) {
    return absl::StrFormat(": decoding needs %.1f cores more", cores);
  }
  return absl::StrCat(": ", LowerFirst(finding.summary));
}

}  // namespace

diagnose::Symptoms LiveSymptoms(const LiveNumbers& live) {
  diagnose::Symptoms s{.noun = "examples", .cores = live.cores};
  s.threads = live.cores;
  s.whole_rate = live.examples_per_second;
  s.device_shares_cores = live.device_shares_cores;
  const double seconds = live.recent.seconds;
  const double starved = seconds > 0 ? std::min(0.99, live.recent.idle_data / seconds) : 0;
  s.device_rate = s.whole_rate / (1 - starved);
  if (!live.pipeline.has_value() || s.whole_rate <= 0) return s;
  const data::PipelineReport& report = *live.pipeline;
  s.budget_bytes = report.memory_budget_bytes;
  s.budget_peak_bytes = report.peak_memory_bytes;

  // Utilization up to and including each step. The busiest stage is the one that limits the whole.
  double storage = 0, parse = 0, decode = 0, rest = 0;
  bool decodes = false;
  for (size_t i = 0; i < report.stages.size(); ++i) {
    const data::StageStats& stage = report.stages[i];
    const double busy = data::Utilization(report.stages, i, report.seconds);
    double& step = stage.work == data::StageWork::kIo ? storage
                   : Decodes(stage)                   ? decode
                   : Parses(stage)                    ? parse
                                                      : rest;
    step = std::max(step, busy);
    if (!Decodes(stage) || stage.elements <= 0) continue;
    decodes = true;
    s.noun = "images";
    s.stored = s.decoded = {1, 1};  // there are images; their sizes only matter for advice
    s.decode_core_seconds = stage.busy_seconds / static_cast<double>(stage.elements);
  }
  const double busiest = std::max({storage, parse, decode, rest, 1e-3});
  const auto rate = [&](double utilization) {
    return s.whole_rate * busiest / std::max(utilization, 1e-3);
  };
  s.storage_rate = rate(storage);
  s.read_rate = rate(std::max(storage, parse));
  s.decode_rate = decodes ? rate(std::max({storage, parse, decode})) : 0;
  return s;
}

std::string Words(const LiveNumbers& live) {
  const train::FitStats& stats = live.recent;
  if (stats.seconds <= 0) return "";
  const double idle = stats.idle_seconds() / stats.seconds;
  if (idle < kWorthAWord) {
    return absl::StrFormat("the devices are busy %.0f %% of the time", 100 * (1 - idle));
  }
  const double largest =
      std::max({stats.idle_data, stats.idle_compile, stats.idle_callbacks, stats.idle_host});
  if (largest == stats.idle_data) {
    return absl::StrCat(Idle(idle, "waiting for data"), DataRemedy(live));
  }
  if (largest == stats.idle_compile) return Idle(idle, "compiling");
  if (largest == stats.idle_callbacks) {
    return absl::StrCat(Idle(idle, "running callbacks"), ": save and log less often");
  }
  return absl::StrCat(Idle(idle, "dispatching"), ": raise steps_per_execution, or set it to auto");
}

}  // namespace penstock::monitor
