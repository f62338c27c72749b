// What a shard holds: counts, schema, labels, and a few of its images.
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
  int64_t record = 0;      // its number in the shard
  std::string label = {};  // the feature `label`, else `class`; may be empty
  std::string image = {};  // the file; empty when the record holds none that can be read
};

struct ShardReport {
  std::string uri = {};
  int64_t records = 0;
  int64_t bytes = 0;                           // of the records
  std::string schema = {};                     // or why there is none
  std::string first = {};                      // the first record; empty when the schema is none
  std::map<std::string, int64_t> labels = {};  // how many records have each
  std::vector<ShardSample> samples = {};       // in the order of the records
};

// Reads all of it, which checks the checksums. The samples are `samples` of its records, each as
// likely as any other, and the same ones each time.
absl::StatusOr<ShardReport> LookThroughShard(io::FileSystem& fs, const std::string& uri,
                                             int samples);

// The samples that have an image as a 3x3 grid of characters, 78 wide.
std::string DrawSamples(const ShardReport& report);

// An HTML page with the reports, the images inside it: it needs no other file.
std::string HtmlPage(const std::vector<ShardReport>& reports);

}  // namespace penstock::cli
