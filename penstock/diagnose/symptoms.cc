#include "penstock/diagnose/symptoms.h"

#include <algorithm>

#include "absl/strings/match.h"

namespace penstock::diagnose {
namespace {

using Stages = std::vector<data::StageStats>;

Stages::const_iterator FindDecode(const Stages& stages) {
  return std::find_if(stages.begin(), stages.end(), [](const data::StageStats& stage) {
    return absl::StartsWith(stage.stage, "DecodeImage") ||
           absl::StartsWith(stage.stage, "ParseCsv");
  });
}

// Returns true if decoding is fused into Batch, the next stage that is not itself fused.
bool DecodesInBatch(const Stages& stages) {
  const auto decode = FindDecode(stages);
  if (decode == stages.end()) return true;
  const auto within = std::find_if(
      decode, stages.end(), [](const data::StageStats& stage) { return !stage.inside_next; });
  return within != stages.end() && absl::StartsWith(within->stage, "Batch");
}

double DecodeCoreSeconds(const Stages& stages) {
  const auto decode = FindDecode(stages);
  return decode == stages.end() || decode->elements == 0
             ? 0
             : decode->busy_seconds / static_cast<double>(decode->elements);
}

Symptoms::Source SourceOf(DataFormat format) {
  if (format == DataFormat::kShards) return Symptoms::Source::kShards;
  return format == DataFormat::kImages ? Symptoms::Source::kFiles : Symptoms::Source::kOther;
}

// Elements that a shuffle buffer of this size holds: those of one pass at most.
double Held(const DataBench& bench, int64_t shuffle) {
  const double size = static_cast<double>(shuffle), elements = bench.elements();
  return elements > 0 ? std::min(size, elements) : size;
}

// Returns the time to fill the shuffle buffer, extrapolated if the buffer was reduced for the
// measurement.
double FillSeconds(const DataBench& bench) {
  if (bench.pipeline.shuffle <= 0 || bench.rungs.size() < 2) return 0;
  const Measured& before = bench.rungs[bench.rungs.size() - 2];
  const double filled =
      std::max(0.0, bench.whole().first_batch_seconds - before.first_batch_seconds);
  return filled * Held(bench, bench.requested_shuffle) / Held(bench, bench.pipeline.shuffle);
}

}  // namespace

Symptoms SymptomsOf(const DataBench& bench, int64_t available_bytes) {
  const Pipeline& pipeline = bench.pipeline;
  const double each = bench.bytes_per_element();
  // Files that do not fit into the page cache are read from storage in each epoch. The process
  // needs memory, too.
  const bool cold = pipeline.data.remote || pipeline.data.bytes > available_bytes / 2;

  Symptoms s;
  s.data = pipeline.data.files[0];
  s.noun = pipeline.noun;
  s.source = SourceOf(pipeline.data.format);
  s.remote = pipeline.data.remote;
  s.files = static_cast<int64_t>(pipeline.data.files.size());
  s.elements = bench.elements();
  s.bytes_per_element = each;
  s.stored = pipeline.stored;
  s.decoded = pipeline.decoded;

  s.cores = base::NumCores();
  s.threads = bench.threads;
  s.batch_size = pipeline.batch_size;
  s.shuffle = bench.requested_shuffle;
  s.parallel_files = pipeline.parallel_files;
  s.decodes_in_batch = DecodesInBatch(bench.whole().report.stages);

  const StorageMeasured& storage = cold ? bench.storage_cold : bench.storage_warm;
  s.storage_rate = bench.storage_rate(storage);
  s.storage_is_cold = cold;
  s.first_byte_seconds = storage.first_byte_seconds;
  s.read_rate = bench.rungs[0].rate();
  s.whole_rate = bench.whole().rate();
  if (bench.rungs.size() > 2) {
    s.decode_rate = bench.rungs[1].rate();
    s.decode_core_seconds = DecodeCoreSeconds(bench.rungs[1].report.stages);
  }
  if (cold && s.storage_rate > 0) {
    // If every epoch is cold, no step is faster than cold storage.
    for (double* rate : {&s.read_rate, &s.decode_rate, &s.whole_rate})
      *rate = std::min(*rate, s.storage_rate);
  }
  if (bench.compared) {
    const FilesAndShards& c = *bench.compared;
    s.files_read_rate = cold ? c.files.read_cold : c.files.read_warm;
    s.shard_read_rate = cold ? c.shards.read_cold : c.shards.read_warm;
  }
  s.fill_seconds = FillSeconds(bench);
  s.wait_p50_seconds = bench.whole().wait_p50_seconds;
  s.wait_p99_seconds = bench.whole().wait_p99_seconds;

  for (const Measured& rung : bench.rungs) s.peak_bytes = std::max(s.peak_bytes, rung.peak_bytes);
  s.peak_bytes += static_cast<int64_t>(
      each * (Held(bench, bench.requested_shuffle) - Held(bench, pipeline.shuffle)));
  s.available_bytes = available_bytes;
  s.budget_bytes = bench.whole().report.memory_budget_bytes;
  s.budget_peak_bytes = bench.whole().report.peak_memory_bytes;
  return s;
}

}  // namespace penstock::diagnose
