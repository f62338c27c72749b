// A file system whose files, once read, are read from a local disk (disk_cache.h).
//
//   auto fs = WithDiskCache(MakeGcsFileSystem(MakeArrowFileSystem()),
//                           {.folder = "/mnt/ssd/penstock", .max_bytes = int64_t{200} << 30});
//
// Opening a file of which something is kept asks the other file system for its version (one
// request), and what is kept of another version is not used: a file that was replaced is read anew.
// Versions are what RandomAccessFile::version tells, and where that tells nothing, the file's size
// and time. A file of which nothing is kept is opened without a question, read as the other file
// system's stream is, and kept on the way.
//
// Everything but reading is the other file system's.
//
// A broken cache (its folder is missing, not mounted, full, read-only, failing, or not this user's)
// is never an error for a file: there is one warning (disk_cache.h), and the file is read from the
// other file system. Only invalid options make opening a file an error.
#pragma once

#include <memory>
#include <mutex>

#include "absl/status/statusor.h"

#include "penstock/io/disk_cache.h"
#include "penstock/io/file_system.h"

namespace penstock::io {

// A cache shared by several file systems. Its folder is created and opened with the first file.
class SharedDiskCache {
 public:
  explicit SharedDiskCache(DiskCacheOptions options);

  // Null while it does not work; it is tried again after a minute. InvalidArgument: the options are
  // invalid.
  absl::StatusOr<std::shared_ptr<DiskCache>> Get();

 private:
  const DiskCacheOptions options_;
  std::mutex mutex_;
  // These are guarded by mutex_.
  std::shared_ptr<DiskCache> cache_;
  double try_again_at_ = 0;
  bool told_ = false;
};

std::shared_ptr<FileSystem> WithDiskCache(std::shared_ptr<FileSystem> fs, DiskCacheOptions options);
// Returns `fs` itself if there is no cache.
std::shared_ptr<FileSystem> WithDiskCache(std::shared_ptr<FileSystem> fs,
                                          std::shared_ptr<SharedDiskCache> cache);

// The cache in the folder PENSTOCK_CACHE_DIR, of PENSTOCK_CACHE_GB gigabytes; null if the variable
// is not set.
std::shared_ptr<SharedDiskCache> CacheOfEnvironment();

}  // namespace penstock::io
