// Resolves file patterns of sources, and describes the files found.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

#include "penstock/data/stage.h"
#include "penstock/io/file_system.h"
#include "penstock/record/tfrecord_index.h"

namespace penstock::data {

// Files that match the patterns (io/glob.h), those of each pattern sorted, in the order of the
// patterns; a file that matches two of them comes twice. A pattern without a match is an error.
absl::StatusOr<std::vector<std::string>> FindFiles(io::FileSystem& file_system,
                                                   const std::vector<std::string>& patterns);

struct Shards {
  std::vector<std::string> files = {};
  // Versions (generation, ETag) from the listing (io::FileInfo::version), by file. Files without a
  // version are not in it.
  absl::flat_hash_map<std::string, std::string> versions = {};
  // Warning about empty files; usually empty. A shard without records is valid, but usually an
  // interrupted upload.
  std::string empty_shards_warning = {};

  std::string VersionOf(const std::string& file) const;
};
// FindFiles for TFRecord files: excludes the indices (record/tfrecord_index.h) beside them that a
// wide pattern also matches.
absl::StatusOr<Shards> FindShards(io::FileSystem& file_system,
                                  const std::vector<std::string>& patterns);

// Loads the index of each shard by record::TfRecordIndex's Load or LoadOrBuild, several in parallel
// (0: chosen automatically), because each may be a request, or a scan of a whole shard.
absl::StatusOr<std::vector<record::TfRecordIndex>> LoadIndices(
    io::FileSystem& file_system, const std::vector<std::string>& shards,
    absl::StatusOr<record::TfRecordIndex> (*load)(io::FileSystem&, absl::string_view),
    int parallel = 0);

// Fingerprint of the files, by context.file_system: their names, and the size and modification time
// of local ones, or, if it is exact, those of all files, with their versions. (A request for each
// of thousands of files in an object store would take longer than reading them; exact fingerprints
// list their folders.)
absl::StatusOr<std::string> FilesFingerprint(const ResolveContext& context,
                                             const std::vector<std::string>& files);

// Whether any of them is in an object store, where each request costs a round trip.
bool AnyInObjectStore(const std::vector<std::string>& patterns);
// Number of requests in flight that hides this latency.
inline constexpr int kObjectStoreRequests = 64;

// parallel_files of a source is at least 0 and at most this when it is read from JSON: it becomes threads.
inline constexpr int64_t kMaxParallelFiles = 1024;

// "a.tfrec, b.tfrec", or "a.tfrec, b.tfrec ... (128 in all)".
std::string PrintPatterns(const std::vector<std::string>& patterns);

}  // namespace penstock::data
