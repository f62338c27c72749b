// Read-through disk cache: a file system that stores bytes read from another one on a local disk
// (disk_cache.h), and serves later reads from there.
//
//   auto fs = WithDiskCache(MakeGcsFileSystem(MakeArrowFileSystem()),
//                           {.folder = "/mnt/ssd/penstock", .max_bytes = int64_t{200} << 30});
//
// Cache validation: opening a file that has cached blocks requests its current version from the
// other file system (one request); blocks of another version are not used, so a file that was
// replaced is read again. The version is RandomAccessFile::version, or, if that is empty, the
// file's size and modification time. A file without cached blocks is opened without that request,
// read through the other file system's stream, and cached while it is read.
//
// All operations other than reading are forwarded to the other file system.
//
// A cache failure (its folder is missing, not mounted, full, read-only, failing, or owned by
// another user) is never an error for a file: one warning is printed (disk_cache.h), and the file
// is read from the other file system. Only invalid options make opening a file fail.
#pragma once

#include <memory>
#include <mutex>

#include "absl/status/statusor.h"

#include "penstock/io/cache/disk_cache.h"
#include "penstock/io/file_system.h"

namespace penstock::io {

// A cache shared by several file systems. Its folder is created and opened with the first file.
class SharedDiskCache {
 public:
  explicit SharedDiskCache(DiskCacheOptions options);

  // The cache; null while it is unavailable (it is tried again after a minute). InvalidArgument if
  // the options are invalid.
  absl::StatusOr<std::shared_ptr<DiskCache>> Get();

 private:
  const DiskCacheOptions options_;
  std::mutex mutex_;
  // These are guarded by mutex_.
  std::shared_ptr<DiskCache> cache_;
  double retry_at_ = 0;
  bool warned_ = false;
};

std::shared_ptr<FileSystem> WithDiskCache(std::shared_ptr<FileSystem> fs, DiskCacheOptions options);
// Returns `fs` itself if `cache` is null.
std::shared_ptr<FileSystem> WithDiskCache(std::shared_ptr<FileSystem> fs,
                                          std::shared_ptr<SharedDiskCache> cache);

// The cache in the folder named by PENSTOCK_CACHE_DIR, of PENSTOCK_CACHE_GB gigabytes (default 20);
// null if PENSTOCK_CACHE_DIR is not set.
std::shared_ptr<SharedDiskCache> CacheFromEnvironment();

}  // namespace penstock::io
