// DataBench: all measurements of an input pipeline, for `penstock bench data` and `penstock
// doctor`: its cold and warm throughput, the ladder (cumulative steps from storage alone to the
// whole pipeline; each is a rung), and the same images as single files and as a shard.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

#include "penstock/diagnose/measure.h"
#include "penstock/diagnose/pipeline.h"
#include "penstock/io/file_system.h"

namespace penstock::diagnose {

struct DataBenchOptions {
  double seconds = 3;   // duration of each measurement
  int64_t batches = 0;  // maximum number of batches per measurement; 0: no limit
  int threads = 0;      // number of worker threads; 0: one per core
  bool any_order = false;
  uint64_t seed = 0;
  double target = 0;         // elements per second that the consumer requests; 0: unlimited
  bool compare = true;       // whether to compare single files with shards
  std::string scratch = {};  // folder for that; default: $TMPDIR or /tmp if the data is local
  // Called before each measurement: "measuring storage ...".
  std::function<void(absl::string_view)> on_message = {};
};

// Throughput of the same elements as single files and as a shard.
struct FilesAndShards {
  struct Side {
    double read_cold = 0, read_warm = 0, decode_warm = 0;  // elements per second
  };
  int64_t elements = 0, bytes = 0;
  Side files, shards;
};

struct DataBench {
  Pipeline pipeline;
  int threads = 0;
  int64_t requested_shuffle = 0;  // pipeline.shuffle before it was reduced to fill in time
  StorageMeasured storage_cold, storage_warm;
  std::vector<Measured> rungs;   // of pipeline.rungs, warm; the last one at the consumer's rate
  std::optional<Measured> cold;  // whole pipeline, one cold pass; nullopt if caches stay warm
  std::optional<FilesAndShards> compared;
  std::string not_compared = {};  // reason why `compared` is empty

  const Measured& whole() const { return rungs.back(); }
  // Encoded size of an element; 0 if unknown.
  double bytes_per_element() const;
  // Number of elements in the files; 0 if unknown, for example of compressed files.
  double elements() const;
  // Elements per second of a storage measurement; 0 if unknown.
  double storage_rate(const StorageMeasured& storage) const;
};

// Measures a pipeline.
absl::StatusOr<DataBench> BenchData(std::shared_ptr<io::FileSystem> fs, PipelineOptions pipeline,
                                    const DataBenchOptions& options);

// Writes a sample of the pipeline's images to `scratch` as single files and as a shard, measures
// both and removes them.
absl::StatusOr<FilesAndShards> CompareFilesAndShards(std::shared_ptr<io::FileSystem> fs,
                                                     const Pipeline& pipeline,
                                                     const PipelineOptions& options,
                                                     const std::string& scratch,
                                                     const MeasureOptions& measure);

// Returns the measurements as text and as JSON.
std::string PrintDataBench(const DataBench& bench);
nlohmann::ordered_json DataBenchJson(const DataBench& bench);

}  // namespace penstock::diagnose
