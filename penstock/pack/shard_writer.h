// ShardWriter: writes records to a folder of shards named NN-COUNT.tfrec, after the shard's number
// and its number of records, from which training computes the number of steps.
//
//   ShardWriter writer(fs, "gs://flowers/train", {.target_bytes = 100'000'000});
//   for (const std::string& record : records) {
//     PENSTOCK_ASSIGN_OR_RETURN(const std::optional<Shard> shard, writer.Append(record));
//     if (shard) Print(shard->file);                               // published because it was full
//   }
//   PENSTOCK_ASSIGN_OR_RETURN(const std::optional<Shard> last, writer.Publish());
//
// A shard's name is known only after its last record. Until then its bytes are in a scratch file:
// in memory up to memory_bytes, beyond that on disk. Publishing a shard is atomic: if the process
// is killed before, no file appears. The index of a shard (record/tfrecord_index.h), which global
// shuffling reads, is published after it. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/io/file_system.h"
#include "penstock/pack/scratch_file.h"
#include "penstock/record/tfrecord.h"

namespace penstock::pack {

struct Shard {
  std::string file = {};  // file name, relative to the folder
  int64_t records = 0;
  int64_t bytes = 0;  // size of the file

  friend bool operator==(const Shard&, const Shard&) = default;
};

struct ShardWriterOptions {
  int64_t first_index = 0;  // number of the first shard
  // Maximum size of a shard: it is published before a record that does not fit. A record that is
  // larger than this gets a shard of its own. 0: only Publish publishes shards.
  int64_t target_bytes = 0;
  int64_t memory_bytes = 256 << 20;
  std::string scratch_folder = {};  // see ScratchOptions
};

class ShardWriter {
 public:
  ShardWriter(io::FileSystem& fs, std::string folder, ShardWriterOptions options = {});

  // Returns the shard that was published because this record did not fit, if any.
  absl::StatusOr<std::optional<Shard>> Append(absl::string_view record);
  // Publishes the open shard; returns nullopt if it has no records.
  absl::StatusOr<std::optional<Shard>> Publish();

 private:
  io::FileSystem& fs_;
  const std::string folder_;
  const ShardWriterOptions options_;
  int64_t index_;
  ScratchFile scratch_;
  std::unique_ptr<record::TfRecordWriter> records_;  // writes to scratch_; null between shards
  std::vector<int64_t> lengths_;                     // lengths of the open shard's records
};

// Returns true if a file name has the form of a shard's name: "00-512.tfrec".
bool IsShardName(absl::string_view file);

}  // namespace penstock::pack
