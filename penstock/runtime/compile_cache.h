// What compilers made, kept in a folder between runs.
//
//   FOLDER/3f0a...c2.program       an entry: a header, then its bytes
//   FOLDER/3f0a...c2.81b2.part     one that is being written
//
// Several processes may use one folder, without locks. An entry appears whole, by rename; its
// header holds its key and a checksum. One that is damaged, cannot be read or belongs to another
// user (its bytes will be run) is removed and is as good as none. After each new entry those go
// that were not used for longest, until at most max_bytes are left.
//
// Nothing here is fatal: what cannot be kept (a full disk, a folder that cannot be written) is not.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace penstock::runtime {

struct CompileCacheOptions {
  std::string folder;  // made when it is missing, for this user alone
  int64_t max_bytes = int64_t{2} << 30;
};

// Any thread may use it. Keys are those of cache_key.h.
class CompileCache {
 public:
  static absl::StatusOr<std::unique_ptr<CompileCache>> Open(CompileCacheOptions options);

  // Nothing: a miss.
  std::optional<std::string> Find(const std::string& key);
  // In place of an earlier entry of that key.
  void Keep(const std::string& key, absl::string_view bytes);
  void Remove(const std::string& key);

  const std::string& folder() const { return options_.folder; }

 private:
  explicit CompileCache(CompileCacheOptions options) : options_(std::move(options)) {}
  std::string PathOf(const std::string& key) const;
  void MakeRoom(const std::string& newest);

  const CompileCacheOptions options_;
};

// `asked`, else the environment's PENSTOCK_COMPILE_CACHE, else penstock/programs in the user's
// cache folder. Empty when that says "0": no cache.
std::string CompileCacheFolder(const std::string& asked);

}  // namespace penstock::runtime
