// A Dataset as JSON: written in one process, read and run in another, such as the worker that owns the
// accelerator (penstock/remote).
//
//   PENSTOCK_ASSIGN_OR_RETURN(const std::string text, DatasetToJson(train));
//   PENSTOCK_ASSIGN_OR_RETURN(Dataset same, DatasetFromJson(text, {}));
//
// The dataset that is read back prints the same, has the same elements in the same order, and accepts the
// same iterator states. What was inferred when the dataset was described (the schema of ParseExample, the
// columns of FromCsv, the class names of FromImageFolder) is written, not inferred again; files are looked up
// again, by the reader's file system and credentials.
//
//   {"format": 1, "pipeline": [
//     {"stage": "FromTfRecords", "reads": ["gs://flowers/train-*.tfrec"]},
//     {"stage": "Shuffle", "buffer": 2048},
//     {"stage": "Batch", "size": 128}]}
//
// A stage with several inputs has them as pipelines in "inputs". Stages that hold C++ functions (Map, Filter,
// Scan, FromGenerator, Interleave, FlatMap, custom stages) or memory of this process (FromArrays) have no JSON
// form.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/data/dataset.h"

namespace penstock::io {
class FileSystem;
}

namespace penstock::data {

class UploadedRows;

// Number of stages, counting inputs that several stages share once for each, and depth of inputs within
// inputs that a description may have.
inline constexpr int kMaxJsonStages = 1000;
inline constexpr int kMaxJsonInputDepth = 32;

// A part of a dataset that runs in this process, when the rest travels: the stages upstream of a Cache("worker").
struct DatasetPart {
  std::shared_ptr<const Dataset::Description> description;
  int64_t first_stage = 0;  // number of stages of the dataset that stand before its own
};

// Unimplemented, with the first stage that cannot be written and what to use instead; the dataset's own error if
// its description has one.
// `parts`: if not null, what is upstream of each Cache("worker") is not written but appended to it; part i is the
// rows of number i (DatasetJsonLimits::uploaded_rows).
absl::StatusOr<std::string> DatasetToJson(const Dataset& dataset,
                                          std::vector<DatasetPart>* parts = nullptr);

struct DatasetJsonLimits {
  int64_t max_bytes = int64_t{16} << 20;
  // Called with every URI or pattern before the stage that has it is made. An error rejects the text.
  std::function<absl::Status(absl::string_view uri, bool write)> check = {};
  // Opens what a description looks at: lists of image folders, headers of NumPy files. Default:
  // io::FileSystem::Default().
  std::shared_ptr<io::FileSystem> file_system = {};
  // The rows of a part that runs in another process, complete.
  std::function<absl::StatusOr<std::shared_ptr<const UploadedRows>>(int64_t number)> uploaded_rows =
      {};
};

// Text from anywhere: InvalidArgument names the stage, its position and the field.
absl::StatusOr<Dataset> DatasetFromJson(absl::string_view text,
                                        const DatasetJsonLimits& limits = {});

// A URI or a pattern that a dataset reads or writes.
struct DatasetPath {
  std::string uri;
  bool write = false;
  bool local = false;  // a file of the machine that runs the pipeline
  std::string stage;   // the stage, as printed
};
// In the order of the data flow. Paths inside user-defined functions are unknown.
// without_parts: without those upstream of a Cache("worker").
std::vector<DatasetPath> PathsOf(const Dataset& dataset, bool without_parts = false);

}  // namespace penstock::data
