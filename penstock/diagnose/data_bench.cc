#include "penstock/diagnose/data_bench.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/io/write_check.h"

namespace penstock::diagnose {
namespace {

class DataBencher {
 public:
  DataBencher(std::shared_ptr<io::FileSystem> fs, PipelineOptions pipeline,
              const DataBenchOptions& options)
      : fs_(std::move(fs)),
        pipeline_options_(std::move(pipeline)),
        options_(options),
        pool_(options.threads > 0 ? options.threads : base::NumCores(), "data") {}

  absl::StatusOr<DataBench> Run() {
    if (!options_.scratch.empty()) {
      PENSTOCK_RETURN_IF_ERROR(
          base::WithContext(io::CheckWritableFolder(*fs_, options_.scratch), "scratch folder"));
    }
    PENSTOCK_ASSIGN_OR_RETURN(bench_.pipeline, MakePipeline(*fs_, pipeline_options_));
    bench_.threads = pool_.num_threads();
    PENSTOCK_RETURN_IF_ERROR(Storage());
    PENSTOCK_RETURN_IF_ERROR(FirstRung());
    PENSTOCK_RETURN_IF_ERROR(ReduceShuffle());
    PENSTOCK_RETURN_IF_ERROR(Cold());
    for (size_t i = 1; i < bench_.pipeline.rungs.size(); ++i) PENSTOCK_RETURN_IF_ERROR(Rung(i));
    PENSTOCK_RETURN_IF_ERROR(Compare());
    return std::move(bench_);
  }

 private:
  MeasureOptions Options() {
    return {.seconds = options_.seconds,
            .batches = options_.batches,
            .pool = &pool_,
            .file_system = fs_,
            .seed = options_.seed,
            .deterministic = !options_.any_order};
  }

  void Report(absl::string_view measurement) {
    if (options_.on_message) options_.on_message(absl::StrCat("measuring ", measurement, " ..."));
  }

  const std::vector<std::string>& files() const { return bench_.pipeline.data.files; }

  absl::StatusOr<Measured> MeasureDataset(const data::Dataset& dataset,
                                          const MeasureOptions& options) const {
    absl::StatusOr<Measured> measured = Measure(dataset, options);
    if (!absl::StrContains(measured.status().message(), "DecodeImage")) return measured;
    return absl::Status(measured.status().code(),
                        absl::StrCat(measured.status().message(),
                                     "; use the option to skip unreadable images to ignore it"));
  }

  absl::Status Storage() {
    Report("storage");
    const int parallel = bench_.pipeline.parallel_files;
    DropFromPageCache(files());
    PENSTOCK_ASSIGN_OR_RETURN(bench_.storage_cold,
                              MeasureStorage(*fs_, files(), parallel, false, Options()));
    PENSTOCK_ASSIGN_OR_RETURN(bench_.storage_warm,
                              MeasureStorage(*fs_, files(), parallel, true, Options()));
    return absl::OkStatus();
  }

  absl::Status FirstRung() {
    bench_.rungs.resize(bench_.pipeline.rungs.size());
    return Rung(0);
  }

  absl::Status Rung(size_t i) {
    const diagnose::Rung& rung = bench_.pipeline.rungs[i];
    Report(absl::StripPrefix(rung.name, "and "));
    MeasureOptions options = Options();
    const bool last = i + 1 == bench_.pipeline.rungs.size();
    if (last && options_.target > 0) {
      options.seconds_per_batch = static_cast<double>(bench_.pipeline.batch_size) / options_.target;
    }
    PENSTOCK_ASSIGN_OR_RETURN(bench_.rungs[i], MeasureDataset(rung.endless, options));
    if (bench_.rungs[i].elements == 0)
      return absl::InvalidArgumentError(absl::StrCat(files()[0], ": the data has no elements"));
    return absl::OkStatus();
  }

  // Reduces a shuffle buffer that takes too long to fill; the time can be extrapolated.
  absl::Status ReduceShuffle() {
    constexpr double kMaxSecondsToFill = 10;
    bench_.requested_shuffle = bench_.pipeline.shuffle;
    double rate = bench_.rungs[0].rate();
    if (const double cold = bench_.storage_rate(bench_.storage_cold); cold > 0)
      rate = std::min(rate, cold);
    const auto max = static_cast<int64_t>(
        std::max(rate * kMaxSecondsToFill, 2.0 * static_cast<double>(bench_.pipeline.batch_size)));
    if (bench_.pipeline.shuffle <= max) return absl::OkStatus();
    pipeline_options_.shuffle = max;
    PENSTOCK_ASSIGN_OR_RETURN(Pipeline reduced, MakePipeline(*fs_, pipeline_options_));
    bench_.pipeline.rungs = std::move(reduced.rungs);
    bench_.pipeline.shuffle = max;
    return absl::OkStatus();
  }

  absl::Status Cold() {
    if (DropFromPageCache(files()) == 0 && !bench_.pipeline.data.remote) return absl::OkStatus();
    Report("the whole pipeline, cold");
    PENSTOCK_ASSIGN_OR_RETURN(bench_.cold,
                              MeasureDataset(bench_.pipeline.rungs.back().once, Options()));
    return absl::OkStatus();
  }

  absl::Status Compare() {
    const Pipeline& pipeline = bench_.pipeline;
    if (!options_.compare) {
      bench_.not_compared = "the comparison is turned off";
    } else if (pipeline.stored.height == 0) {
      bench_.not_compared = "the data are not images";
    } else if (pipeline.data.remote && options_.scratch.empty()) {
      bench_.not_compared =
          "the comparison of remote data needs a scratch folder in the same store";
    }
    if (!bench_.not_compared.empty()) return absl::OkStatus();
    Report("single files and shards");
    const char* tmp = std::getenv("TMPDIR");
    const std::string scratch = !options_.scratch.empty() ? options_.scratch
                                : tmp != nullptr && *tmp  ? tmp
                                                          : "/tmp";
    PENSTOCK_ASSIGN_OR_RETURN(
        bench_.compared,
        CompareFilesAndShards(fs_, pipeline, pipeline_options_, scratch, Options()));
    return absl::OkStatus();
  }

  const std::shared_ptr<io::FileSystem> fs_;
  PipelineOptions pipeline_options_;
  const DataBenchOptions& options_;
  base::ThreadPool pool_;
  DataBench bench_;
};

}  // namespace

double DataBench::bytes_per_element() const {
  if (pipeline.bytes_per_element > 0 || rungs.empty()) return pipeline.bytes_per_element;
  // Uses the bytes that the source counted (they include its read-ahead), else the batches' bytes.
  return rungs[0].bytes_per_element > 0 ? rungs[0].bytes_per_element
                                        : rungs[0].batch_bytes_per_element;
}

double DataBench::elements() const {
  const double each = bytes_per_element();
  return each > 0 && !pipeline.compressed ? static_cast<double>(pipeline.data.bytes) / each : 0;
}

double DataBench::storage_rate(const StorageMeasured& storage) const {
  const double each = bytes_per_element();
  return each > 0 && !pipeline.compressed ? storage.bytes_per_second() / each : 0;
}

absl::StatusOr<DataBench> BenchData(std::shared_ptr<io::FileSystem> fs, PipelineOptions pipeline,
                                    const DataBenchOptions& options) {
  return DataBencher(std::move(fs), std::move(pipeline), options).Run();
}

}  // namespace penstock::diagnose
