// Lists of files, as sources take them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

#include "penstock/io/file_system.h"
#include "penstock/record/tfrecord_index.h"

namespace penstock::data {

// The files that the patterns name (io/glob.h), those of each pattern sorted, in the order of the
// patterns; a file that two of them name comes twice. One that names nothing is an error.
absl::StatusOr<std::vector<std::string>> FindFiles(io::FileSystem& file_system,
                                                   const std::vector<std::string>& patterns);

struct Shards {
  std::vector<std::string> files = {};
  // What the listing said (io::FileInfo::version), by file; those it said nothing of are not there.
  absl::flat_hash_map<std::string, std::string> versions = {};
  // A sentence about those that have no bytes; mostly empty. A shard without records is a good
  // file, but mostly an upload that was broken off.
  std::string about_empty_ones = {};

  std::string VersionOf(const std::string& file) const;
};
// FindFiles for TFRecord files: without the indices (record/tfrecord_index.h) that stand beside
// them and that a wide pattern names as well.
absl::StatusOr<Shards> FindShards(io::FileSystem& file_system,
                                  const std::vector<std::string>& patterns);

// The index of each shard, as record::TfRecordIndex's Load or LoadOrBuild gives it; several at once
// (0: a number of our own), for each may be a request, or a whole shard to look through.
absl::StatusOr<std::vector<record::TfRecordIndex>> LoadIndices(
    io::FileSystem& file_system, const std::vector<std::string>& shards,
    absl::StatusOr<record::TfRecordIndex> (*load)(io::FileSystem&, absl::string_view),
    int parallel = 0);

// A checksum of which files these are, and of local ones how large and how old. (Asking an object
// store for each of thousands of files would take longer than reading them.)
absl::StatusOr<std::string> FilesState(io::FileSystem& file_system,
                                       const std::vector<std::string>& files);

// Whether some of them are in an object store, where each request costs a round trip.
bool AreInAnObjectStore(const std::vector<std::string>& patterns);
// So many requests at once hide that.
inline constexpr int kObjectStoreRequests = 64;

void ShuffleFiles(uint64_t seed, std::vector<std::string>& files);

// "a.tfrec, b.tfrec", or "a.tfrec, b.tfrec ... (128 in all)".
std::string PrintPatterns(const std::vector<std::string>& patterns);

}  // namespace penstock::data
