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

constexpr double kLeastCost = 0.05;
constexpr double kLeastWait = 0.02;

// Where the time of one element goes. Each rung of the ladder does what the one before does and
// something more, so what a step costs is the difference of their times; what of it the accelerator
// would not notice (it is no faster) is not counted.
class Times {
 public:
  explicit Times(const Symptoms& s) {
    now_ = Of(s.whole_rate);
    excess_ = s.wanted() > 0 ? std::max(0.0, now_ - Of(s.wanted())) : now_;
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

  // The part of the accelerator's time that is won when an element takes so much less.
  double Cost(double seconds) const {
    return now_ > 0 ? std::clamp(std::min(seconds, excess_) / now_, 0.0, 1.0) : 0;
  }

 private:
  static double Of(double rate) { return rate > 0 ? 1 / rate : 0; }

  double now_ = 0, excess_ = 0, storage_ = 0, parse_ = 0, decode_ = 0, rest_ = 0;
};

// A rung that was measured slower than one that does more was disturbed: what holds for that one
// holds for it too.
Symptoms Straightened(Symptoms s) {
  double at_least = s.whole_rate;
  for (double* rate : {&s.decode_rate, &s.read_rate, &s.storage_rate}) {
    if (*rate > 0) at_least = *rate = std::max(*rate, at_least);
  }
  return s;
}

std::string Percent(double part) { return absl::StrFormat("%.0f %%", 100 * part); }

std::string Each(const Symptoms& s) { return base::PrintBytes(std::llround(s.bytes_per_element)); }

std::string Rates(const Symptoms& s, double rate) {
  return absl::StrCat(PrintRate(rate), " ", s.noun, "/s");
}

// How a target reads in a sentence.
std::string Wanted(const Symptoms& s) {
  if (s.wanted() <= 0) return "";
  return absl::StrCat("; the accelerator takes ", Rates(s, s.wanted()));
}

using MaybeFinding = std::optional<Finding>;

MaybeFinding FilesTooSmall(const Symptoms& s, const Times& times) {
  constexpr double kSmall = 1 << 20;
  if (s.source != Symptoms::Source::kFiles || s.bytes_per_element > kSmall) return std::nullopt;
  Finding f;
  double won = 0;
  if (s.files_read_rate > 0 && s.shard_read_rate > s.files_read_rate) {
    const double gain = s.shard_read_rate / s.files_read_rate;
    won = times.read() * (1 - 1 / gain);
    f.shows = absl::StrFormat("%s files of %s; read one by one %s, the same packed %s (%.1f times)",
                              PrintRate(static_cast<double>(s.files)), Each(s),
                              Rates(s, s.files_read_rate), Rates(s, s.shard_read_rate), gain);
  } else if (s.remote && s.first_byte_seconds > 0) {
    won = std::min(times.storage(), s.first_byte_seconds / s.parallel_files);
    f.shows =
        absl::StrFormat("%s files of %s; each takes %s until its first byte comes, %d at once",
                        PrintRate(static_cast<double>(s.files)), Each(s),
                        PrintSeconds(s.first_byte_seconds), s.parallel_files);
  }
  f.cost = times.Cost(won);
  f.says = "The files are too small: opening each takes longer than reading it";
  f.change = absl::StrCat("pack them: penstock pack '", s.data, "' --out SHARDS");
  return f;
}

MaybeFinding TooFewShards(const Symptoms& s, const Times& times) {
  if (s.source != Symptoms::Source::kShards || s.files >= s.parallel_files || s.files < 1)
    return std::nullopt;
  // More at once than there are cores helps only where one waits for storage.
  const int most = s.remote ? s.parallel_files : std::min(s.parallel_files, s.cores);
  if (s.files >= most) return std::nullopt;
  const double part = static_cast<double>(s.files) / most;
  const auto wanted = static_cast<int64_t>(2) * s.parallel_files;
  return Finding{
      .rule = "",
      .cost = times.Cost(times.read() * (1 - part)),
      .says = "There are too few shards to read them in parallel",
      .shows = absl::StrFormat("%d shards, and up to %d are read at once; reading alone gives %s%s",
                               s.files, s.parallel_files, Rates(s, s.read_rate), Wanted(s)),
      .change = absl::StrFormat("more of them: penstock reshard '%s' --out MORE --shards %d",
                                s.data, wanted)};
}

// Shards so small that opening them shows. (Of single files FilesTooSmall speaks.)
MaybeFinding StorageLatency(const Symptoms& s, const Times& times) {
  constexpr double kSlow = 5e-3;
  if (s.source == Symptoms::Source::kFiles || s.first_byte_seconds < kSlow || s.elements <= 0 ||
      s.files < 1)
    return std::nullopt;
  const double per_file = s.elements / static_cast<double>(s.files);
  const double won =
      std::min(times.storage(), s.first_byte_seconds / (per_file * std::max(1, s.parallel_files)));
  return Finding{
      .rule = "",
      .cost = times.Cost(won),
      .says = "Storage answers late, and the shards are too small to hide it",
      .shows = absl::StrFormat("a file takes %s until its first byte comes, and holds %s %s (%s)",
                               PrintSeconds(s.first_byte_seconds), PrintRate(per_file), s.noun,
                               base::PrintBytes(std::llround(per_file * s.bytes_per_element))),
      .change = absl::StrFormat("shards of 100 MB: penstock reshard '%s' --out LARGER --shard-size "
                                "100MB; or more of them at once: --parallel-files %d",
                                s.data, 4 * s.parallel_files)};
}

MaybeFinding StorageThroughput(const Symptoms& s, const Times& times) {
  if (s.storage_rate <= 0) return std::nullopt;
  double slow = times.storage();
  if (s.files_read_rate > 0 && s.shard_read_rate > s.files_read_rate)
    slow *= s.files_read_rate / s.shard_read_rate;  // the rest is the files' smallness
  const double moved = s.storage_rate * s.bytes_per_element;
  Finding f{
      .rule = "",
      .cost = times.Cost(slow),
      .says = absl::StrCat(s.remote ? "The network or the store" : "The disk",
                           " does not give the bytes fast enough"),
      .shows = absl::StrFormat("storage alone gives %.0f MB/s%s, which is %s of %s%s", moved / 1e6,
                               s.storage_is_cold ? " when the files are not in memory" : "",
                               Rates(s, s.storage_rate), Each(s), Wanted(s)),
      .change = {}};
  if (s.remote) {
    f.change = absl::StrFormat(
        "keep a copy on a local disk after the first epoch (Dataset::Cache(folder)), run nearer to "
        "the store, or read more at once: --parallel-files %d",
        4 * s.parallel_files);
  } else {
    f.change = "a faster disk, or memory for all of it";
  }
  if (s.stored.height > 0)
    absl::StrAppend(&f.change, "; or fewer bytes: penstock reshard ... --size H W --quality 90");
  return f;
}

MaybeFinding ParseBound(const Symptoms& s, const Times& times) {
  return Finding{
      .rule = "",
      .cost = times.Cost(times.parse()),
      .says = "Taking records apart and checking them keeps the cores busy",
      .shows = absl::StrFormat("storage alone gives %s, read and parsed %s, of %s each%s",
                               Rates(s, s.storage_rate), Rates(s, s.read_rate), Each(s), Wanted(s)),
      .change =
          absl::StrCat(s.threads < s.cores ? absl::StrFormat("all %d cores: --threads 0; ", s.cores)
                                           : std::string(),
                       "fewer features in each record (--columns), or arrays (.npy) in place "
                       "of many small records")};
}

// What makes decoding cheaper, by what the files are.
std::string CheaperDecoding(const Symptoms& s) {
  const double stored = static_cast<double>(s.stored.height) * s.stored.width;
  const double given = static_cast<double>(s.given.height) * s.given.width;
  const char* in = s.source == Symptoms::Source::kFiles ? "pack" : "reshard";
  if (stored > 1.3 * given && given > 0) {
    return absl::StrFormat(
        "the files hold %.1f times the pixels that are used: penstock %s '%s' --out SMALL --size "
        "%d "
        "%d --quality 90; decoding costs nearly by the pixel",
        stored / given, in, s.data, s.given.height, s.given.width);
  }
  if (stored > 0 && 8 * s.bytes_per_element / stored > 2) {
    return absl::StrFormat(
        "the files hold %.1f bits for each pixel, and decoding costs by the bit: penstock %s '%s' "
        "--out SMALL --quality 75",
        8 * s.bytes_per_element / stored, in, s.data);
  }
  return "keep what is decoded, where it fits (Dataset::Cache)";
}

MaybeFinding DecodeBound(const Symptoms& s, const Times& times) {
  if (s.decode_rate <= 0) return std::nullopt;
  // The reader computes along while it waits. A thread's time counts as more than a core's where
  // there are more threads than cores.
  double core_seconds = times.decode() * std::min(s.threads + 1, s.cores);
  if (s.decode_core_seconds > 0) core_seconds = std::min(core_seconds, s.decode_core_seconds);
  if (core_seconds <= 0) return std::nullopt;
  Finding f{
      .rule = "",
      .cost = times.Cost(times.decode()),
      .says = absl::StrCat(s.stored.height > 0 ? "Decoding" : "Parsing", " is the limit"),
      .shows = absl::StrFormat("without it %s, with it %s on %d threads (%s of one core each)",
                               Rates(s, s.read_rate), Rates(s, s.decode_rate), s.threads,
                               PrintSeconds(core_seconds)),
      .change = {}};
  if (s.wanted() > 0) {
    f.change = absl::StrFormat("for %s it takes %.1f cores, of which there are %d; ",
                               Rates(s, s.wanted()), s.wanted() * core_seconds, s.cores);
  } else {
    f.change = absl::StrFormat("each core more gives %s more; ", Rates(s, 1 / core_seconds));
  }
  if (s.threads < s.cores) f.change += absl::StrFormat("use all %d cores: --threads 0; ", s.cores);
  f.change += CheaperDecoding(s);
  return f;
}

MaybeFinding Copied(const Symptoms& s, const Times& times) {
  if (s.decodes_in_batch) return std::nullopt;
  return Finding{
      .rule = "",
      .cost = times.Cost(times.rest() + 0.1 * times.decode()),
      .says = "Elements are decoded beside the batch and copied into it",
      .shows = absl::StrFormat("decoded %s, in whole batches %s", Rates(s, s.decode_rate),
                               Rates(s, s.whole_rate)),
      .change =
          "a stage between DecodeImage and Batch holds them up: IgnoreErrors "
          "(--skip-unreadable), Cache, Prefetch or a Map that counts rows; pack the images, "
          "which leaves out unreadable ones, or let Batch follow at once"};
}

MaybeFinding AfterDecoding(const Symptoms& s, const Times& times) {
  if (!s.decodes_in_batch) return std::nullopt;
  return Finding{.rule = "",
                 .cost = times.Cost(times.rest()),
                 .says = "Shuffling and batching cost more than they should",
                 .shows = absl::StrFormat(
                     "before them %s, behind them %s; the shuffle buffer holds %s of %s",
                     Rates(s, s.decode_rate > 0 ? s.decode_rate : s.read_rate),
                     Rates(s, s.whole_rate), PrintRate(static_cast<double>(s.shuffle)), Each(s)),
                 .change = "a smaller --shuffle, or --global-shuffle, which needs no buffer"};
}

// Once for each epoch, before its first batch.
MaybeFinding ShuffleFills(const Symptoms& s, const Times&) {
  const double rate = s.wanted() > 0 ? std::min(s.wanted(), s.whole_rate) : s.whole_rate;
  if (s.shuffle <= 0 || rate <= 0 || s.elements <= 0) return std::nullopt;
  const double epoch = s.elements / rate;
  const auto smaller = std::max(s.batch_size, static_cast<int64_t>(s.shuffle / 8));
  return Finding{
      .rule = "",
      .cost = s.fill_seconds / (s.fill_seconds + epoch),
      .says = "Each epoch begins with filling the shuffle buffer",
      .shows = absl::StrFormat("%s elements in the buffer take %s to fill, an epoch takes %s",
                               PrintRate(std::min(static_cast<double>(s.shuffle), s.elements)),
                               PrintSeconds(s.fill_seconds), PrintSeconds(epoch)),
      .change =
          s.source == Symptoms::Source::kShards
              ? absl::StrFormat("--global-shuffle, which fills nothing, or --shuffle %d", smaller)
              : absl::StrFormat("--shuffle %d, or pack them and use --global-shuffle", smaller)};
}

MaybeFinding MemoryBound(const Symptoms& s, const Times&) {
  const auto part = [](int64_t held, int64_t most) {
    return most > 0 ? static_cast<double>(held) / static_cast<double>(most) : 0;
  };
  const double of_process = part(s.peak_bytes, s.available_bytes);
  const double of_budget = part(s.budget_peak_bytes, s.budget_bytes);
  // A pipeline stops working ahead where its budget ends.
  if (of_process < 0.8 && of_budget < 0.95) return std::nullopt;
  const double buffer =
      std::min(static_cast<double>(s.shuffle), s.elements > 0 ? s.elements : 1e18) *
      s.bytes_per_element;
  std::string shows =
      of_process >= 0.8
          ? absl::StrFormat("at its largest the process held %s of %s that it can have",
                            base::PrintBytes(s.peak_bytes), base::PrintBytes(s.available_bytes))
          : absl::StrFormat("the pipeline held %s of the %s that it may hold to work ahead",
                            base::PrintBytes(s.budget_peak_bytes),
                            base::PrintBytes(s.budget_bytes));
  absl::StrAppend(&shows, "; the shuffle buffer is about ", base::PrintBytes(std::llround(buffer)),
                  " of it");
  return Finding{
      .rule = "",
      .cost = std::min(1.0, std::max(of_process, of_budget)),
      .says = "Memory runs out",
      .shows = std::move(shows),
      .change =
          s.source == Symptoms::Source::kShards
              ? "--global-shuffle in place of the buffer, or smaller --shuffle, --prefetch and "
                "--batch-size"
              : "smaller --shuffle, --prefetch and --batch-size"};
}

MaybeFinding UnevenBatches(const Symptoms& s, const Times&) {
  if (s.wanted() <= 0 || s.whole_rate <= 0) return std::nullopt;
  const double step = static_cast<double>(s.batch_size) / s.wanted();
  if (s.whole_rate < s.wanted() || s.wait_p99_seconds < 2 * step) return std::nullopt;
  return Finding{
      .rule = "",
      .cost = 0.01 * s.wait_p99_seconds / (0.01 * s.wait_p99_seconds + step),
      .says = "Some batches come late, though they come fast enough on the whole",
      .shows = absl::StrFormat("half of them within %s, one of a hundred after %s and more; a step "
                               "takes %s",
                               PrintSeconds(s.wait_p50_seconds), PrintSeconds(s.wait_p99_seconds),
                               PrintSeconds(step)),
      .change = absl::StrFormat("more batches ready ahead: --prefetch %d",
                                static_cast<int>(std::ceil(s.wait_p99_seconds / step)) + 1)};
}

// Both are fast enough alone, and not together.
MaybeFinding SharedCores(const Symptoms& s, const Times&) {
  const double alone = std::min(s.device_rate, s.whole_rate);
  if (!s.device_shares_cores || s.training_rate <= 0 || alone <= 0) return std::nullopt;
  return Finding{
      .rule = "",
      .cost = std::max(0.0, 1 - s.training_rate / alone),
      .says = "Training and the pipeline share the same cores",
      .shows = absl::StrFormat("training alone %s, the pipeline alone %s, together %s on %d cores",
                               Rates(s, s.device_rate), Rates(s, s.whole_rate),
                               Rates(s, s.training_rate), s.cores),
      .change =
          absl::StrCat("on an accelerator of its own this goes away; here cheaper data helps: ",
                       CheaperDecoding(s))};
}

struct Rule {
  const char* name;
  MaybeFinding (*look)(const Symptoms&, const Times&);
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
          .says = s.wanted() > 0 ? "The accelerator is the limit, and not the data"
                                 : "Nothing stands out",
          .shows = s.wanted() > 0
                       ? absl::StrCat("the pipeline gives ", Rates(s, s.whole_rate), Wanted(s))
                       : absl::StrCat("the pipeline gives ", Rates(s, s.whole_rate)),
          .change = "nothing to do about the data"};
}

}  // namespace

std::vector<Finding> Diagnose(const Symptoms& measured) {
  const Symptoms symptoms = Straightened(measured);
  const Times times(symptoms);
  std::vector<Finding> findings;
  for (const Rule& rule : kRules) {
    MaybeFinding finding = rule.look(symptoms, times);
    if (!finding || finding->cost < kLeastCost) continue;
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
    const double waits = std::max(0.0, 1 - s.training_rate / s.device_rate);
    if (waits < kLeastWait) {
      return absl::StrCat("The accelerator does not wait for data: it trains on ",
                          Rates(s, s.training_rate), ", as many as on data that lies in memory.");
    }
    return absl::StrCat("The accelerator waits ", Percent(waits),
                        " of the time for data: it could train on ", Rates(s, s.device_rate),
                        " and trains on ", Rates(s, s.training_rate), ".");
  }
  if (s.target > 0 && s.whole_rate < s.target) {
    return absl::StrCat("The pipeline gives ", Rates(s, s.whole_rate), " of the ",
                        PrintRate(s.target),
                        " that are wanted: an accelerator of that speed waits ",
                        Percent(1 - s.whole_rate / s.target), " of the time.");
  }
  if (s.target > 0) {
    return absl::StrCat("The pipeline gives ", Rates(s, s.whole_rate), ", enough for the ",
                        PrintRate(s.target), " that are wanted.");
  }
  return absl::StrCat("The pipeline gives ", Rates(s, s.whole_rate),
                      "; a faster accelerator waits for it.");
}

}  // namespace penstock::diagnose
