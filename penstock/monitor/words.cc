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

// The busiest stage with its utilization: `Map(1 column)` and 0.97.
std::pair<std::string, double> Busiest(const data::PipelineReport& report) {
  std::pair<std::string, double> busiest("", 0);
  for (size_t i = 0; i < report.stages.size(); ++i) {
    const double busy = data::Utilization(report.stages, i, report.seconds);
    if (busy > busiest.second) busiest = {report.stages[i].stage, busy};
  }
  return busiest;
}

// " of the last 10 s", or of less.
std::string OfTheLast(const train::FitStats& stats) {
  return absl::StrFormat(" of the last %.3g s", stats.seconds);
}

// The cores where the pipeline runs.
int CoresOf(const LiveNumbers& live) {
  return live.pipeline.has_value() && live.pipeline->cores > 0 ? live.pipeline->cores : live.cores;
}

// What the input pipeline lacks. Nothing if all of its stages are idle most of the time: then the
// training waits at the beginning of each pass, or for what no stage counts.
std::string DataRemedy(const LiveNumbers& live) {
  if (!live.pipeline.has_value()) return "";
  const diagnose::Symptoms symptoms = LiveSymptoms(live);
  const auto [stage, busy] = Busiest(*live.pipeline);
  if (symptoms.whole_rate <= 0 || busy < kLimits) return "";
  const std::vector<diagnose::Finding> findings = diagnose::Diagnose(symptoms);
  const diagnose::Finding& finding = findings.front();
  if (finding.cost <= 0) return "";
  const double cores = symptoms.required_rate() * symptoms.decode_core_seconds - symptoms.cores;
  if (finding.rule == std::string("decode-bound") && cores > 0.05) {
    return absl::StrFormat(": decoding needs %.1f cores more", cores);
  }
  const std::string share = absl::StrFormat("%.0f %%", 100 * std::min(1.0, busy));
  // Rules about reading and decoding know what these do; everything else is best named itself.
  for (const char* const known : {"decode-bound", "parse-bound", "memory-bound"}) {
    if (finding.rule == std::string(known))
      return absl::StrCat(": ", LowerFirst(finding.summary), " (", stage, ", busy ", share, ")");
  }
  // Whether the files are on a disk or in a store is not known here.
  if (finding.rule == std::string("storage-throughput"))
    return absl::StrCat(": storage is too slow (", stage, " waits for it ", share, " of the time)");
  return absl::StrCat(": ", stage, " is the bottleneck, busy ", share, " of the time");
}

// Why the host takes long between two executions.
std::string HostRemedy(const LiveNumbers& live) {
  const train::FitStats& stats = live.recent;
  constexpr double kOverloaded = 1.5;  // the training itself may use every core
  std::string words;
  if (stats.executions > 0) {
    const double executions = static_cast<double>(stats.executions);
    const double steps = std::max(1.0, std::round(static_cast<double>(stats.steps) / executions));
    words =
        absl::StrFormat(": %.2g ms per execution of %.0f %s", 1e3 * stats.idle_host / executions,
                        steps, steps == 1 ? "step" : "steps");
  }
  if (live.load > kOverloaded * live.cores) {
    return absl::StrCat(words, absl::StrFormat("; other work slows this host down, whose load is "
                                               "%.1f on %d cores",
                                               live.load, live.cores));
  }
  return absl::StrCat(words, words.empty() ? ": " : "; ",
                      "raise steps_per_execution, or set it to auto");
}

}  // namespace

diagnose::Symptoms LiveSymptoms(const LiveNumbers& live) {
  diagnose::Symptoms s{.noun = "examples", .cores = CoresOf(live)};
  s.threads = s.cores;
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
  if (largest == stats.idle_compile) {
    return absl::StrCat(Idle(idle, "compiling"), absl::StrFormat(": %.3g s", stats.idle_compile),
                        OfTheLast(stats));
  }
  if (largest == stats.idle_callbacks) {
    return absl::StrCat(Idle(idle, "running callbacks"),
                        absl::StrFormat(": %.3g s", stats.idle_callbacks), OfTheLast(stats),
                        "; save and log less often");
  }
  return absl::StrCat(Idle(idle, "dispatching"), HostRemedy(live));
}

std::string StalledWords(train::HostWork work, double seconds, double step_seconds) {
  constexpr double kUnusual = 10;  // seconds, and steps
  if (!(seconds >= kUnusual * std::max(1.0, step_seconds))) return "";
  // In the order of HostWork; validation takes what it takes.
  static constexpr const char* kWhat[] = {"the host is dispatching one",
                                          "waiting for data",
                                          "compiling",
                                          "running callbacks",
                                          "the devices are running one",
                                          nullptr};
  const char* const what = kWhat[static_cast<int>(work)];
  if (what == nullptr) return "";
  return absl::StrFormat("no step has ended for %.0f s: %s", seconds, what);
}

}  // namespace penstock::monitor
