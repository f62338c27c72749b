// What `penstock bench data` and `penstock doctor` measure of a pipeline: its speed cold and warm,
// the ladder from storage alone to the whole pipeline, and the same images as single files and as a
// shard.
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
  double seconds = 3;   // of each measurement
  int64_t batches = 0;  // of each measurement, at most; 0: any number
  int threads = 0;      // that compute; 0: one for each core
  bool any_order = false;
  uint64_t seed = 0;
  double target = 0;         // elements a second that the consumer takes; 0: all it can get
  bool compare = true;       // single files and shards
  std::string scratch = {};  // a folder for that; "": the machine's, when the data is local
  // Told what is measured next: "measuring storage ...".
  std::function<void(absl::string_view)> on_message = {};
};

// The same elements as single files and as a shard.
struct FilesAndShards {
  struct Side {
    double read_cold = 0, read_warm = 0, decode_warm = 0;  // elements a second
  };
  int64_t elements = 0, bytes = 0;
  Side files, shards;
};

struct DataBench {
  Pipeline pipeline;
  int threads = 0;
  int64_t shuffle_asked = 0;  // what pipeline.shuffle was before it was cut, so that it fills
  StorageMeasured storage_cold, storage_warm;
  std::vector<Measured> rungs;   // warm, as pipeline.rungs; the last one with the consumer's pace
  std::optional<Measured> cold;  // the whole pipeline, one pass; none where nothing can be cold
  std::optional<FilesAndShards> compared;
  std::string not_compared = {};  // why

  const Measured& whole() const { return rungs.back(); }
  // Encoded bytes of an element; 0 where it is not known.
  double bytes_per_element() const;
  // How many elements the files hold, and storage gives a second; 0 where it is not known, as of
  // compressed files.
  double elements() const;
  double storage_rate(const StorageMeasured& storage) const;
};

absl::StatusOr<DataBench> BenchData(std::shared_ptr<io::FileSystem> fs, PipelineOptions pipeline,
                                    const DataBenchOptions& options);

absl::StatusOr<FilesAndShards> CompareFilesAndShards(std::shared_ptr<io::FileSystem> fs,
                                                     const Pipeline& pipeline,
                                                     const PipelineOptions& options,
                                                     const std::string& scratch,
                                                     const MeasureOptions& measure);

std::string PrintDataBench(const DataBench& bench);
nlohmann::ordered_json DataBenchJson(const DataBench& bench);

}  // namespace penstock::diagnose
