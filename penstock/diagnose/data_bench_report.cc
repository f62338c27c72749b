// Report of a DataBench as text and as JSON.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

#include "penstock/base/available_memory.h"
#include "penstock/diagnose/data_bench.h"
#include "penstock/io/uri.h"

namespace penstock::diagnose {
namespace {

using Json = nlohmann::ordered_json;

void PrintHead(const DataBench& bench, std::string& out) {
  const DataFiles& data = bench.pipeline.data;
  absl::StrAppendFormat(&out, "%s%s: %s files, %s", io::DisplayName(data.files[0]),
                        data.files.size() > 1 ? ", ..." : "",
                        PrintRate(static_cast<double>(data.files.size())),
                        base::PrintBytes(data.bytes));
  if (bench.elements() > 0) {
    absl::StrAppendFormat(&out, ", about %s %s of %s each", PrintRate(bench.elements()),
                          bench.pipeline.noun,
                          base::PrintBytes(std::llround(bench.bytes_per_element())));
  }
  if (bench.pipeline.stored.height > 0) {
    absl::StrAppend(&out, ", the first has ", bench.pipeline.stored.ToString(), " pixels");
  }
  absl::StrAppendFormat(&out, "\nbatches of %d on %d threads:\n", bench.pipeline.batch_size,
                        bench.threads);
  for (const data::StageStats& stage : bench.whole().report.stages)
    absl::StrAppend(&out, stage.inside_next ? "    " : "  ", stage.stage, "\n");
  if (bench.pipeline.shuffle < bench.requested_shuffle) {
    absl::StrAppendFormat(
        &out,
        "The shuffle buffer was reduced from %s to %s elements for this measurement, because "
        "filling it takes too long.\n",
        PrintRate(static_cast<double>(bench.requested_shuffle)),
        PrintRate(static_cast<double>(bench.pipeline.shuffle)));
  }
}

void PrintRow(const DataBench& bench, const char* name, const Measured& m, std::string& out) {
  absl::StrAppendFormat(&out, "  %-8s %12s %12s %10.1f %12s %12s %12s\n", name,
                        PrintSeconds(m.first_batch_seconds), PrintRate(m.rate()),
                        m.rate() * bench.bytes_per_element() / 1e6,
                        PrintSeconds(m.wait_p50_seconds), PrintSeconds(m.wait_p99_seconds),
                        base::PrintBytes(m.peak_bytes));
}

void PrintWhole(const DataBench& bench, std::string& out) {
  absl::StrAppendFormat(&out, "\n%-10s %12s %12s %10s %12s %12s %12s\n", "", "first batch",
                        absl::StrCat(bench.pipeline.noun, "/s"), "MB/s", "wait p50", "wait p99",
                        "peak memory");
  if (bench.cold) PrintRow(bench, "cold", *bench.cold, out);
  PrintRow(bench, "warm", bench.whole(), out);
  int64_t skipped = 0;
  for (const data::StageStats& stage : bench.whole().report.stages) {
    for (const std::string& message : stage.skipped_messages)
      absl::StrAppend(&out, "skipped: ", message, "\n");
    skipped += stage.skipped;
  }
  if (skipped > 0) {
    absl::StrAppendFormat(&out, "skipped %d undecodable %s in all passes\n", skipped,
                          bench.pipeline.noun);
  }
}

void PrintLadder(const DataBench& bench, std::string& out) {
  const auto row = [&](const std::string& name, double rate, double bytes) {
    absl::StrAppendFormat(&out, "  %-18s %12s %10.1f\n", name, rate > 0 ? PrintRate(rate) : "-",
                          bytes / 1e6);
  };
  absl::StrAppendFormat(&out, "\n%-20s %12s %10s\n", "cumulative steps",
                        absl::StrCat(bench.pipeline.noun, "/s"), "MB/s");
  if (bench.cold) {
    row("storage, cold", bench.storage_rate(bench.storage_cold),
        bench.storage_cold.bytes_per_second());
  }
  row("storage", bench.storage_rate(bench.storage_warm), bench.storage_warm.bytes_per_second());
  for (size_t i = 0; i < bench.rungs.size(); ++i) {
    const Measured& m = bench.rungs[i];
    row(bench.pipeline.rungs[i].name, m.rate(), m.rate() * bench.bytes_per_element());
  }
}

void PrintStages(const DataBench& bench, std::string& out) {
  absl::StrAppend(&out, "\nstages, warm\n", data::Table(bench.whole().report));
}

void PrintCompared(const DataBench& bench, std::string& out) {
  if (!bench.compared) {
    absl::StrAppend(&out, "\nsingle files and shards were not compared: ", bench.not_compared,
                    "\n");
    return;
  }
  const FilesAndShards& c = *bench.compared;
  absl::StrAppendFormat(&out, "\n%-20s %12s %12s %12s  %s/s, a sample of %d (%s)\n", "",
                        "read, cold", "read, warm", "and decode", bench.pipeline.noun, c.elements,
                        base::PrintBytes(c.bytes));
  const auto row = [&](const char* name, const FilesAndShards::Side& side) {
    absl::StrAppendFormat(&out, "  %-18s %12s %12s %12s\n", name, PrintRate(side.read_cold),
                          PrintRate(side.read_warm), PrintRate(side.decode_warm));
  };
  row("single files", c.files);
  row("one shard", c.shards);
  if (bench.pipeline.data.format == DataFormat::kImages && c.files.read_cold > 0 &&
      c.shards.read_cold > c.files.read_cold) {
    absl::StrAppendFormat(
        &out, "Packing makes reading %.1f times faster: penstock pack ... --out SHARDS\n",
        c.shards.read_cold / c.files.read_cold);
  }
}

Json MeasuredJson(const DataBench& bench, const Measured& m) {
  return {{"elements_per_second", m.rate()},
          {"mb_per_second", m.rate() * bench.bytes_per_element() / 1e6},
          {"first_batch_seconds", m.first_batch_seconds},
          {"wait_p50_seconds", m.wait_p50_seconds},
          {"wait_p99_seconds", m.wait_p99_seconds},
          {"waited_seconds", m.waited_seconds},
          {"batches", m.batches},
          {"elements", m.elements},
          {"seconds", m.seconds},
          {"batch_mb_per_second", m.rate() * m.batch_bytes_per_element / 1e6},
          {"batch_allocations", m.allocations},
          {"peak_rss", m.peak_bytes}};
}

Json StorageJson(const DataBench& bench, const StorageMeasured& storage) {
  return {{"elements_per_second", bench.storage_rate(storage)},
          {"mb_per_second", storage.bytes_per_second() / 1e6},
          {"files", storage.files},
          {"first_byte_seconds", storage.first_byte_seconds},
          {"seconds", storage.seconds}};
}

Json SideJson(const FilesAndShards::Side& side) {
  return {{"read_cold", side.read_cold},
          {"read_warm", side.read_warm},
          {"decode_warm", side.decode_warm}};
}

}  // namespace

std::string PrintDataBench(const DataBench& bench) {
  std::string out;
  PrintHead(bench, out);
  PrintWhole(bench, out);
  PrintLadder(bench, out);
  PrintStages(bench, out);
  PrintCompared(bench, out);
  return out;
}

Json DataBenchJson(const DataBench& bench) {
  const DataFiles& data = bench.pipeline.data;
  Json json{{"data", io::DisplayName(data.files[0])},
            {"format", RowOf(data.format).name},
            {"noun", bench.pipeline.noun},
            {"files", data.files.size()},
            {"bytes", data.bytes},
            {"bytes_per_element", bench.bytes_per_element()},
            {"batch_size", bench.pipeline.batch_size},
            {"threads", bench.threads},
            {"cores", base::NumCores()},
            {"shuffle", bench.pipeline.shuffle},
            {"shuffle_asked", bench.requested_shuffle},
            {"plan", bench.whole().plan}};
  json["cold"] = bench.cold ? MeasuredJson(bench, *bench.cold) : Json();
  json["warm"] = MeasuredJson(bench, bench.whole());
  Json ladder = Json::array();
  const auto rung = [&](const char* name, Json row) {
    row["rung"] = name;
    ladder.push_back(std::move(row));
  };
  if (bench.cold) rung("storage, cold", StorageJson(bench, bench.storage_cold));
  rung("storage", StorageJson(bench, bench.storage_warm));
  for (size_t i = 0; i < bench.rungs.size(); ++i)
    rung(bench.pipeline.rungs[i].name, MeasuredJson(bench, bench.rungs[i]));
  json["ladder"] = std::move(ladder);
  json["stages"] = Json::array();
  for (const data::StageStats& stage : bench.whole().report.stages) {
    json["stages"].push_back({{"stage", stage.stage},
                              {"inside_next", stage.inside_next},
                              {"elements", stage.elements},
                              {"bytes", stage.bytes},
                              {"busy_seconds", stage.busy_seconds},
                              {"wait_input_seconds", stage.wait_input_seconds},
                              {"backpressure_seconds", stage.backpressure_seconds},
                              {"ignored", stage.skipped}});
  }
  if (bench.compared) {
    json["files_and_shards"] = {{"elements", bench.compared->elements},
                                {"bytes", bench.compared->bytes},
                                {"files", SideJson(bench.compared->files)},
                                {"shards", SideJson(bench.compared->shards)}};
  } else {
    json["files_and_shards"] = nullptr;
    json["not_compared"] = bench.not_compared;
  }
  return json;
}

}  // namespace penstock::diagnose
