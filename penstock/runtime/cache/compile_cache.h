// CompileCache: compiled programs, stored in a folder between runs.
//
//   FOLDER/3f0a...c2.program       an entry: a header, then its bytes
//   FOLDER/3f0a...c2.81b2.part     an entry that is being written
//
// Several processes may use one folder, without locks. An entry is published atomically, by rename;
// its header holds its key and a checksum. An entry that is corrupt, cannot be read or belongs to
// another user (its bytes will be executed) is removed and is a miss. After each new entry the
// least recently used entries are evicted, until at most max_bytes are left.
//
// No failure is fatal: if an entry cannot be stored (a full disk, a read-only folder), it is not.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace penstock::runtime {

struct CompileCacheOptions {
  std::string folder;  // created if it does not exist, accessible to this user only
  int64_t max_bytes = int64_t{2} << 30;
};

// Thread-safe. Keys are those of cache_key.h.
class CompileCache {
 public:
  static absl::StatusOr<std::unique_ptr<CompileCache>> Open(CompileCacheOptions options);

  // Reads an entry; nullopt is a miss.
  std::optional<std::string> Find(const std::string& key);
  // Stores an entry; replaces an earlier entry of that key.
  void Store(const std::string& key, absl::string_view bytes);
  void Remove(const std::string& key);

  const std::string& folder() const { return options_.folder; }

 private:
  explicit CompileCache(CompileCacheOptions options) : options_(std::move(options)) {}
  std::string PathOf(const std::string& key) const;
  void Evict(const std::string& newest);

  const CompileCacheOptions options_;
};

// Folder of the cache: `requested`, else the environment variable PENSTOCK_COMPILE_CACHE, else
// penstock/programs in the user's cache folder. Empty if that is "0": no cache.
std::string CompileCacheFolder(const std::string& requested);

}  // namespace penstock::runtime
