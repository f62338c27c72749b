#include "penstock/diagnose/diagnosis.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/base/available_memory.h"
#include "penstock/diagnose/measure.h"

namespace penstock::diagnose {
namespace {

constexpr double kMinCost = 0.05;
constexpr double kMinIdle = 0.02;

// Time per element of each step. Each rung of the ladder adds a step to the previous rung, so a
// step's time is the difference of their times. Costs do not count time that the accelerator would
// not save because it is no faster.
class Times {
 public:
  explicit Times(const Symptoms& s) {
    now_ = Of(s.whole_rate);
    excess_ = s.required_rate() > 0 ? std::max(0.0, now_ - Of(s.required_rate())) : now_;
    const double read = Of(s.read_rate);
    const double decode = s.decode_rate > 0 ? Of(s.decode_rate) : read;
    storage_ = Of(s.storage_rate);
    parse_ = read - storage_;
    decode_ = decode - read;
    rest_ = now_ - decode;
  }

  double now() const { return now_; }
  double storage() const { return storage_; }
  double read() const { return storage_ + parse_; }
  double parse() const { return parse_; }
  double decode() const { return decode_; }
  double rest() const { return rest_; }

  // Returns the fraction of the accelerator's time that is saved if an element takes `seconds`
  // less.
  double Cost(double seconds) const {
    return now_ > 0 ? std::clamp(std::min(seconds, excess_) / now_, 0.0, 1.0) : 0;
  }

 private:
  static double Of(double rate) { return rate > 0 ? 1 / rate : 0; }

  double now_ = 0, excess_ = 0, storage_ = 0, parse_ = 0, decode_ = 0, rest_ = 0;
};

// Corrects noise: a rung cannot be slower than a later rung, which does more.
Symptoms MakeMonotonic(Symptoms s) {
  double min = s.whole_rate;
  for (double* rate : {&s.decode_rate, &s.read_rate, &s.storage_rate}) {
    if (*rate > 0) min = *rate = std::max(*rate, min);
  }
  return s;
}

std::string Percent(double part) { return absl::StrFormat("%.0f %%", 100 * part); }

std::string ElementSize(const Symptoms& s) {
  return base::PrintBytes(std::llround(s.bytes_per_element));
}

std::string Rate(const Symptoms& s, double rate) {
  return absl::StrCat(PrintRate(rate), " ", s.noun, "/s");
}

// Returns the required rate as the end of a sentence.
std::string Requirement(const Symptoms& s) {
  if (s.required_rate() <= 0) return "";
  return absl::StrCat("; the accelerator consumes ", Rate(s, s.required_rate()));
}

using MaybeFinding = std::optional<Finding>;

MaybeFinding FilesTooSmall(const Symptoms& s, const Times& times) {
  constexpr double kSmall = 1 << 20;
  if (s.source != Symptoms::Source::kFiles || s.bytes_per_element > kSmall) return std::nullopt;
  Finding f;
  double saved = 0;
  if (s.files_read_rate > 0 && s.shard_read_rate > s.files_read_rate) {
    const double gain = s.shard_read_rate / s.files_read_rate;
    saved = times.read() * (1 - 1 / gain);
    f.evidence = absl::StrFormat("%s files of %s; read as single files %s, packed %s (%.1f times)",
                                 PrintRate(static_cast<double>(s.files)), ElementSize(s),
                                 Rate(s, s.files_read_rate), Rate(s, s.shard_read_rate), gain);
  } else if (s.remote && s.first_byte_seconds > 0) {
    saved = std::min(times.storage(), s.first_byte_seconds / s.parallel_files);
    f.evidence =
        absl::StrFormat("%s files of %s; each takes %s to the first byte, %d are read in parallel",
                        PrintRate(static_cast<double>(s.files)), ElementSize(s),
                        PrintSeconds(s.first_byte_seconds), s.parallel_files);
  }
  f.cost = times.Cost(saved);
  f.summary = "The files are too small: opening one takes longer than reading it";
  f.advice = absl::StrCat("pack them: penstock pack '", s.data, "' --out SHARDS");
  return f;
}

MaybeFinding TooFewShards(const Symptoms& s, const Times& times) {
  if (s.source != Symptoms::Source::kShards || s.files >= s.parallel_files || s.files < 1)
    return std::nullopt;
  // More parallel files than cores help only if reading waits for storage.
  const int max = s.remote ? s.parallel_files : std::min(s.parallel_files, s.cores);
  if (s.files >= max) return std::nullopt;
  const double part = static_cast<double>(s.files) / max;
  const auto shards = static_cast<int64_t>(2) * s.parallel_files;
  return Finding{
      .rule = "",
      .cost = times.Cost(times.read() * (1 - part)),
      .summary = "There are too few shards to read them in parallel",
      .evidence =
          absl::StrFormat("%d shards, but up to %d are read in parallel; reading alone: %s%s",
                          s.files, s.parallel_files, Rate(s, s.read_rate), Requirement(s)),
      .advice = absl::StrFormat("use more shards: penstock reshard '%s' --out MORE --shards %d",
                                s.data, shards)};
}

// Finds shards so small that the latency of opening them matters; FilesTooSmall covers single
// files.
MaybeFinding StorageLatency(const Symptoms& s, const Times& times) {
  constexpr double kSlow = 5e-3;
  if (s.source == Symptoms::Source::kFiles || s.first_byte_seconds < kSlow || s.elements <= 0 ||
      s.files < 1)
    return std::nullopt;
  const double per_file = s.elements / static_cast<double>(s.files);
  const double saved =
      std::min(times.storage(), s.first_byte_seconds / (per_file * std::max(1, s.parallel_files)));
  return Finding{
      .rule = "",
      .cost = times.Cost(saved),
      .summary = "Storage has a high latency, and the shards are too small to hide it",
      .evidence = absl::StrFormat("a file takes %s to the first byte, and holds %s %s (%s)",
                                  PrintSeconds(s.first_byte_seconds), PrintRate(per_file), s.noun,
                                  base::PrintBytes(std::llround(per_file * s.bytes_per_element))),
      .advice =
          absl::StrFormat("use shards of 100 MB: penstock reshard '%s' --out LARGER --shard-size "
                          "100MB; or read more files in parallel: --parallel-files %d",
                          s.data, 4 * s.parallel_files)};
}

MaybeFinding StorageThroughput(const Symptoms& s, const Times& times) {
  if (s.storage_rate <= 0) return std::nullopt;
  double slow = times.storage();
  if (s.files_read_rate > 0 && s.shard_read_rate > s.files_read_rate)
    slow *= s.files_read_rate / s.shard_read_rate;  // the rest is caused by small files
  const double bytes_per_second = s.storage_rate * s.bytes_per_element;
  Finding f{
      .rule = "",
      .cost = times.Cost(slow),
      .summary = absl::StrCat("The throughput of ",
                              s.remote ? "the network or the store" : "the disk", " is too low"),
      .evidence =
          absl::StrFormat("storage alone: %.0f MB/s%s, which is %s of %s%s", bytes_per_second / 1e6,
                          s.storage_is_cold ? " if the files are not in the page cache" : "",
                          Rate(s, s.storage_rate), ElementSize(s), Requirement(s)),
      .advice = {}};
  if (s.remote) {
    f.advice = absl::StrFormat(
        "cache the data on a local disk in the first epoch (Dataset::Cache(folder)), run closer to "
        "the store, or read more files in parallel: --parallel-files %d",
        4 * s.parallel_files);
  } else {
    f.advice = "use a faster disk, or enough memory to cache all files";
  }
  if (s.stored.height > 0) {
    absl::StrAppend(&f.advice,
                    "; or reduce the size: penstock reshard ... --size H W --quality 90");
  }
  return f;
}

MaybeFinding ParseBound(const Symptoms& s, const Times& times) {
  return Finding{
      .rule = "",
      .cost = times.Cost(times.parse()),
      .summary = "Parsing and verifying records is the bottleneck",
      .evidence = absl::StrFormat("storage alone: %s, read and parsed: %s, of %s each%s",
                                  Rate(s, s.storage_rate), Rate(s, s.read_rate), ElementSize(s),
                                  Requirement(s)),
      .advice = absl::StrCat(
          s.threads < s.cores ? absl::StrFormat("use all %d cores: --threads 0; ", s.cores)
                              : std::string(),
          "read fewer features of each record (--columns), or store arrays (.npy) "
          "instead of many small records")};
}

// Returns advice to make decoding cheaper.
std::string CheaperDecoding(const Symptoms& s) {
  const double stored = static_cast<double>(s.stored.height) * s.stored.width;
  const double decoded = static_cast<double>(s.decoded.height) * s.decoded.width;
  const char* in = s.source == Symptoms::Source::kFiles ? "pack" : "reshard";
  if (stored > 1.3 * decoded && decoded > 0) {
    return absl::StrFormat(
        "the stored images have %.1f times the pixels that are used, and the cost of decoding is "
        "nearly proportional to the pixels: penstock %s '%s' --out SMALL --size %d %d --quality 90",
        stored / decoded, in, s.data, s.decoded.height, s.decoded.width);
  }
  if (stored > 0 && 8 * s.bytes_per_element / stored > 2) {
    return absl::StrFormat(
        "the stored images have %.1f bits per pixel, and the cost of decoding is proportional to "
        "the bits: penstock %s '%s' --out SMALL --quality 75",
        8 * s.bytes_per_element / stored, in, s.data);
  }
  return "cache the decoded data if it fits (Dataset::Cache)";
}

MaybeFinding DecodeBound(const Symptoms& s, const Times& times) {
  if (s.decode_rate <= 0) return std::nullopt;
  // The reader's thread decodes, too, while it waits. With more threads than cores, a thread has
  // less than a core.
  double core_seconds = times.decode() * std::min(s.threads + 1, s.cores);
  if (s.decode_core_seconds > 0) core_seconds = std::min(core_seconds, s.decode_core_seconds);
  if (core_seconds <= 0) return std::nullopt;
  Finding f{
      .rule = "",
      .cost = times.Cost(times.decode()),
      .summary = absl::StrCat(s.stored.height > 0 ? "Decoding" : "Parsing", " is the bottleneck"),
      .evidence = absl::StrFormat("without it %s, with it %s on %d threads (%s of one core each)",
                                  Rate(s, s.read_rate), Rate(s, s.decode_rate), s.threads,
                                  PrintSeconds(core_seconds)),
      .advice = {}};
  if (s.required_rate() > 0) {
    f.advice = absl::StrFormat("%s requires %.1f cores; there are %d; ", Rate(s, s.required_rate()),
                               s.required_rate() * core_seconds, s.cores);
  } else {
    f.advice = absl::StrFormat("each additional core adds %s; ", Rate(s, 1 / core_seconds));
  }
  if (s.threads < s.cores) f.advice += absl::StrFormat("use all %d cores: --threads 0; ", s.cores);
  f.advice += CheaperDecoding(s);
  return f;
}

MaybeFinding Copied(const Symptoms& s, const Times& times) {
  if (s.decodes_in_batch) return std::nullopt;
  return Finding{.rule = "",
                 .cost = times.Cost(times.rest() + 0.1 * times.decode()),
                 .summary = "Elements are decoded into separate memory and copied into the batch",
                 .evidence = absl::StrFormat("decoded: %s, batched: %s", Rate(s, s.decode_rate),
                                             Rate(s, s.whole_rate)),
                 .advice =
                     "a stage between DecodeImage and Batch prevents fusing them: IgnoreErrors "
                     "(--skip-unreadable), Cache, Prefetch or a Map that counts rows; put Batch "
                     "directly after "
                     "DecodeImage, and pack the images, which skips unreadable ones"};
}

MaybeFinding AfterDecoding(const Symptoms& s, const Times& times) {
  if (!s.decodes_in_batch) return std::nullopt;
  return Finding{
      .rule = "",
      .cost = times.Cost(times.rest()),
      .summary = "Shuffling and batching are expensive",
      .evidence = absl::StrFormat(
          "before them %s, after them %s; the shuffle buffer has %s elements of %s",
          Rate(s, s.decode_rate > 0 ? s.decode_rate : s.read_rate), Rate(s, s.whole_rate),
          PrintRate(static_cast<double>(s.shuffle)), ElementSize(s)),
      .advice =
          "use a smaller buffer (--shuffle), or --global-shuffle, which needs no "
          "buffer"};
}

// Idle time before the first batch of each epoch.
MaybeFinding ShuffleFills(const Symptoms& s, const Times&) {
  const double rate =
      s.required_rate() > 0 ? std::min(s.required_rate(), s.whole_rate) : s.whole_rate;
  if (s.shuffle <= 0 || rate <= 0 || s.elements <= 0) return std::nullopt;
  const double epoch = s.elements / rate;
  const auto smaller = std::max(s.batch_size, static_cast<int64_t>(s.shuffle / 8));
  return Finding{
      .rule = "",
      .cost = s.fill_seconds / (s.fill_seconds + epoch),
      .summary = "Each epoch starts by filling the shuffle buffer",
      .evidence = absl::StrFormat("filling %s elements takes %s, an epoch takes %s",
                                  PrintRate(std::min(static_cast<double>(s.shuffle), s.elements)),
                                  PrintSeconds(s.fill_seconds), PrintSeconds(epoch)),
      .advice = s.source == Symptoms::Source::kShards
                    ? absl::StrFormat(
                          "use --global-shuffle, which needs no buffer, or --shuffle %d", smaller)
                    : absl::StrFormat(
                          "use --shuffle %d, or pack the files and use --global-shuffle", smaller)};
}

MaybeFinding MemoryBound(const Symptoms& s, const Times&) {
  const auto part = [](int64_t held, int64_t max) {
    return max > 0 ? static_cast<double>(held) / static_cast<double>(max) : 0;
  };
  const double of_process = part(s.peak_bytes, s.available_bytes);
  const double of_budget = part(s.budget_peak_bytes, s.budget_bytes);
  // A pipeline stops its read-ahead when the budget is exhausted.
  if (of_process < 0.8 && of_budget < 0.95) return std::nullopt;
  const double buffer =
      std::min(static_cast<double>(s.shuffle), s.elements > 0 ? s.elements : 1e18) *
      s.bytes_per_element;
  std::string evidence =
      of_process >= 0.8
          ? absl::StrFormat("the peak memory of the process was %s of %s available",
                            base::PrintBytes(s.peak_bytes), base::PrintBytes(s.available_bytes))
          : absl::StrFormat("the pipeline used %s of its memory budget of %s",
                            base::PrintBytes(s.budget_peak_bytes),
                            base::PrintBytes(s.budget_bytes));
  absl::StrAppend(&evidence, "; the shuffle buffer takes about ",
                  base::PrintBytes(std::llround(buffer)));
  return Finding{
      .rule = "",
      .cost = std::min(1.0, std::max(of_process, of_budget)),
      .summary = "Memory is exhausted",
      .evidence = std::move(evidence),
      .advice = s.source == Symptoms::Source::kShards
                    ? "use --global-shuffle instead of the buffer, or smaller values of --shuffle, "
                      "--prefetch and --batch-size"
                    : "use smaller values of --shuffle, --prefetch and --batch-size"};
}

MaybeFinding UnevenBatches(const Symptoms& s, const Times&) {
  if (s.required_rate() <= 0 || s.whole_rate <= 0) return std::nullopt;
  const double step = static_cast<double>(s.batch_size) / s.required_rate();
  if (s.whole_rate < s.required_rate() || s.wait_p99_seconds < 2 * step) return std::nullopt;
  return Finding{
      .rule = "",
      .cost = 0.01 * s.wait_p99_seconds / (0.01 * s.wait_p99_seconds + step),
      .summary = "Some batches are late, although the average rate is sufficient",
      .evidence = absl::StrFormat("the wait for a batch is %s (median) and %s (99th percentile); a "
                                  "step takes %s",
                                  PrintSeconds(s.wait_p50_seconds),
                                  PrintSeconds(s.wait_p99_seconds), PrintSeconds(step)),
      .advice = absl::StrFormat("prefetch more batches: --prefetch %d",
                                static_cast<int>(std::ceil(s.wait_p99_seconds / step)) + 1)};
}

// Training and the pipeline are fast enough alone, but not together.
MaybeFinding SharedCores(const Symptoms& s, const Times&) {
  const double alone = std::min(s.device_rate, s.whole_rate);
  if (!s.device_shares_cores || s.training_rate <= 0 || alone <= 0) return std::nullopt;
  return Finding{
      .rule = "",
      .cost = std::max(0.0, 1 - s.training_rate / alone),
      .summary = "Training and the pipeline share the same cores",
      .evidence = absl::StrFormat(
          "training alone: %s, pipeline alone: %s, together: %s on %d cores",
          Rate(s, s.device_rate), Rate(s, s.whole_rate), Rate(s, s.training_rate), s.cores),
      .advice =
          absl::StrCat("train on an accelerator, or make the data cheaper: ", CheaperDecoding(s))};
}

struct Rule {
  const char* name;
  MaybeFinding (*apply)(const Symptoms&, const Times&);
};
constexpr Rule kRules[] = {
    {"files-too-small", FilesTooSmall},
    {"too-few-shards", TooFewShards},
    {"storage-latency", StorageLatency},
    {"storage-throughput", StorageThroughput},
    {"parse-bound", ParseBound},
    {"decode-bound", DecodeBound},
    {"copied", Copied},
    {"after-decoding", AfterDecoding},
    {"shuffle-fills", ShuffleFills},
    {"memory-bound", MemoryBound},
    {"uneven-batches", UnevenBatches},
    {"shared-cores", SharedCores},
};

Finding ConsumerBound(const Symptoms& s) {
  return {.rule = "consumer-bound",
          .cost = 0,
          .summary = s.required_rate() > 0 ? "The accelerator is the bottleneck, not the data"
                                           : "No step is a bottleneck",
          .evidence =
              s.required_rate() > 0
                  ? absl::StrCat("the pipeline delivers ", Rate(s, s.whole_rate), Requirement(s))
                  : absl::StrCat("the pipeline delivers ", Rate(s, s.whole_rate)),
          .advice = "no change of the data is necessary"};
}

}  // namespace

std::vector<Finding> Diagnose(const Symptoms& measured) {
  const Symptoms symptoms = MakeMonotonic(measured);
  const Times times(symptoms);
  std::vector<Finding> findings;
  for (const Rule& rule : kRules) {
    MaybeFinding finding = rule.apply(symptoms, times);
    if (!finding || finding->cost < kMinCost) continue;
    finding->rule = rule.name;
    findings.push_back(*std::move(finding));
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.cost > b.cost; });
  if (findings.empty()) findings.push_back(ConsumerBound(symptoms));
  return findings;
}

std::string Verdict(const Symptoms& s) {
  if (s.device_rate > 0 && s.training_rate > 0) {
    const double idle = std::max(0.0, 1 - s.training_rate / s.device_rate);
    if (idle < kMinIdle) {
      return absl::StrCat("The training is compute-bound: it trains on ", Rate(s, s.training_rate),
                          ", as on data in memory.");
    }
    return absl::StrCat("The training is input-bound: the accelerator is idle ", Percent(idle),
                        " of the time, waiting for data. It trains on ", Rate(s, s.training_rate),
                        ", and could train on ", Rate(s, s.device_rate), ".");
  }
  if (s.target > 0 && s.whole_rate < s.target) {
    return absl::StrCat("The pipeline delivers ", Rate(s, s.whole_rate), " of the required ",
                        PrintRate(s.target), ": an accelerator of that speed is idle ",
                        Percent(1 - s.whole_rate / s.target), " of the time.");
  }
  if (s.target > 0) {
    return absl::StrCat("The pipeline delivers ", Rate(s, s.whole_rate),
                        ", enough for the required ", PrintRate(s.target), ".");
  }
  return absl::StrCat("The pipeline delivers ", Rate(s, s.whole_rate),
                      "; a faster accelerator would be idle part of the time.");
}

}  // namespace penstock::diagnose
