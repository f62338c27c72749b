// ShardReport: contents of a shard for `penstock inspect`: counts, schema, labels and sample
// images.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/base/array.h"
#include "penstock/io/file_system.h"

namespace penstock::cli {

struct ShardSample {
  int64_t record = 0;      // index of the record in the shard
  std::string label = {};  // feature `label`, else `class`; may be empty
  std::string image = {};  // encoded image; empty if the record has no readable image
};

struct ShardReport {
  std::string uri = {};  // for display, without secrets and options
  int64_t records = 0;
  int64_t bytes = 0;                           // size of the records
  std::string schema = {};                     // or the reason why there is none
  std::string first = {};                      // first record as text; empty without a schema
  std::map<std::string, int64_t> labels = {};  // number of records of each label
  std::vector<ShardSample> samples = {};       // in the order of the records
};

// Reads a whole shard and verifies its checksums. `samples` is the size of a uniform random sample
// of its records, which is the same in every run.
absl::StatusOr<ShardReport> MakeShardReport(io::FileSystem& fs, const std::string& uri,
                                            int samples);

// Draws the samples that have an image as an ASCII grid of 3x3 images, 78 characters wide.
std::string DrawSamples(const ShardReport& report);

// Returns a self-contained HTML page with the reports and their images.
std::string HtmlPage(const std::vector<ShardReport>& reports);

}  // namespace penstock::cli
