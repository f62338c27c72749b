// Records into a folder of shards, NN-COUNT.tfrec: the number of the shard and how many records it
// holds, which training counts its steps by.
//
//   ShardWriter writer(fs, "gs://flowers/train", {.target_bytes = 100'000'000});
//   for (const std::string& record : records) {
//     PENSTOCK_ASSIGN_OR_RETURN(const std::optional<Shard> shard, writer.Append(record));
//     if (shard) Print(shard->file);                               // the one that is now full
//   }
//   PENSTOCK_ASSIGN_OR_RETURN(const std::optional<Shard> last, writer.Publish());
//
// A shard's name is only known when its last record is. Until then its bytes wait in a scratch
// file: in memory up to memory_bytes, beyond that on disk. The shard then appears whole, or, when
// the process is killed before, not at all. Its index (record/tfrecord_index.h), which global
// shuffling reads, is published after it. Threads: one at a time.
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
  std::string file = {};  // its name in the folder
  int64_t records = 0;
  int64_t bytes = 0;  // of the file

  friend bool operator==(const Shard&, const Shard&) = default;
};

struct ShardWriterOptions {
  int64_t first_index = 0;  // number of the first shard
  // A shard is closed before the record that would make it larger; a record that is larger alone
  // has a shard alone. 0: shards are closed by Publish only.
  int64_t target_bytes = 0;
  int64_t memory_bytes = 256 << 20;
  std::string scratch_folder = {};  // see ScratchOptions
};

class ShardWriter {
 public:
  ShardWriter(io::FileSystem& fs, std::string folder, ShardWriterOptions options = {});

  // The shard that was published because this record did not fit into it, if it was so.
  absl::StatusOr<std::optional<Shard>> Append(absl::string_view record);
  // Publishes the open shard; nothing when no record is in it.
  absl::StatusOr<std::optional<Shard>> Publish();

 private:
  io::FileSystem& fs_;
  const std::string folder_;
  const ShardWriterOptions options_;
  int64_t index_;
  ScratchFile scratch_;
  std::unique_ptr<record::TfRecordWriter> records_;  // into scratch_; nullptr between shards
  std::vector<int64_t> lengths_;                     // of the open shard's records
};

// Whether a file is named as a shard is: "00-512.tfrec".
bool IsShardName(absl::string_view file);

}  // namespace penstock::pack
