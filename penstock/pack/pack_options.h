// Options of every function of pack.h: output folder, number of shards, shuffling, threads, and
// callbacks for progress and messages.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/io/file_system.h"

namespace penstock::pack {

// Progress of a conversion. `done` counts the inputs that are in a shard, published or not, and the
// unreadable ones.
struct Progress {
  const char* noun = "images";  // plural noun for the inputs
  int64_t done = 0, total = 0;
  int64_t resumed = 0;     // part of `done` that an earlier, interrupted run converted
  int64_t shards = 0;      // shards published by this run
  int64_t bytes = 0;       // size of the records made by this run
  int64_t unreadable = 0;  // unreadable inputs found by this run
};

struct PackOptions {
  std::string out = {};               // folder for the shards, local, gs:// or s3://; required
  int64_t shards = 0;                 // number of shards; 0: determined by shard_bytes
  int64_t shard_bytes = 100'000'000;  // maximum size of a shard's file (--shard-size)
  uint64_t seed = 0;                  // random seed of the shuffle
  bool keep_order = false;            // do not shuffle
  int threads = 0;  // 0: one per core; at least 32 if the inputs are in object storage
  // Removes the shards in `out` and starts over. Default: an interrupted conversion is resumed, and
  // shards of a different conversion are an error.
  bool overwrite = false;
  // Called by the calling thread, once before the first input and after each input.
  std::function<void(const Progress&)> on_progress = {};
  // Called by the calling thread with one line for the user: an interrupted conversion is resumed,
  // a missing shard is rewritten.
  std::function<void(absl::string_view)> on_message = {};
  // Default (null): FileSystem::Default().
  std::shared_ptr<io::FileSystem> file_system = {};
};

// Returns InvalidArgument for invalid values, such as a negative number of shards.
absl::Status CheckPackOptions(const PackOptions& options);

}  // namespace penstock::pack
