// Options that every function of pack.h takes: where the shards go, how many there are, and who is
// told how far it has come.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/io/file_system.h"

namespace penstock::pack {

// How far a conversion has come. `done` counts inputs that are in a shard, published or not, and
// inputs that cannot be read.
struct Progress {
  const char* noun = "images";  // what an input is, in the plural
  int64_t done = 0, total = 0;
  int64_t resumed = 0;     // of `done`, those of an earlier run that was stopped
  int64_t shards = 0;      // published by this run
  int64_t bytes = 0;       // of the records that this run made
  int64_t unreadable = 0;  // met by this run
};

struct PackOptions {
  std::string out = {};               // folder for the shards, local, gs:// or s3://; required
  int64_t shards = 0;                 // number of shards; 0: as many as shard_bytes gives
  int64_t shard_bytes = 100'000'000;  // maximum size of a shard's file
  uint64_t seed = 0;                  // of the shuffle
  bool keep_order = false;            // do not shuffle
  int threads = 0;  // 0: one for each core; at least 32 when the inputs are in object storage
  // Remove the shards in `out` and start over; otherwise a stopped conversion is resumed, and
  // shards of another one are an error.
  bool overwrite = false;
  // Called once before the first input and after each, by the calling thread.
  std::function<void(const Progress&)> on_progress = {};
  // One line on what the user should know: that a stopped conversion is resumed, that a shard is
  // missing and made again. The calling thread.
  std::function<void(absl::string_view)> on_message = {};
  // Null: FileSystem::Default().
  std::shared_ptr<io::FileSystem> file_system = {};
};

// InvalidArgument for values that cannot work, as a negative number of shards.
absl::Status CheckPackOptions(const PackOptions& options);

}  // namespace penstock::pack
