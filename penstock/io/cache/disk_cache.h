// DiskCache: a disk cache of blocks of remote files in a local folder, with least-recently-used
// (LRU) eviction. caching_file_system.h reads through it.
//
//   FOLDER/lock           held while the folder's size is counted; holds that number
//   FOLDER/3f/3f0a...     one block: a header, then up to 1 MiB of the file
//   FOLDER/3f/*.part      one that is being written
//
// Several processes may share one folder. A block is published atomically by rename; its header
// contains the file's name and version, the block number, and checksums of the header and of each
// 64 KiB. A corrupt block is ignored. A process that is killed leaves at most a .part file, whose
// lock distinguishes it from one that is still being written. The folder holds at most max_bytes:
// the least recently read blocks are evicted first (with a resolution of a minute). Other files in
// it are left alone.
//
// The cache never changes results: if the folder fails (a full or failing disk, permissions, a lock
// that another process does not release), nothing is stored or found for a minute; then it is tried
// again. The first failure and the first corrupt block are reported in a warning, later ones are
// not.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/base/clock.h"
#include "penstock/io/local/file_descriptor.h"

namespace penstock::io {

// An open block; it remains readable even if it is evicted meanwhile.
class CachedBlock {
 public:
  static constexpr int64_t kChunkBytes = 64 << 10;

  const std::string& version() const { return version_; }
  int64_t size() const { return size_; }
  // Reads bytes at `offset` into `out`, both within the block. False if the bytes are corrupt.
  bool Read(int64_t offset, absl::Span<char> out) const;

 private:
  friend class DiskCache;

  FileDescriptor fd_;
  std::string version_;
  int64_t size_ = 0;
  std::vector<uint64_t> checksums_;  // of each chunk of kChunkBytes
};

struct DiskCacheOptions {
  std::string folder;  // created if missing, accessible to this user only
  int64_t max_bytes = int64_t{20} << 30;
  // Called with a line of text, on any thread. Default: prints to stderr.
  std::function<void(const std::string& line)> warn = {};
  base::Clock* clock = nullptr;  // null: the system clock
};

// Thread-safe.
class DiskCache {
 public:
  static constexpr int64_t kBlockBytes = 1 << 20;

  static absl::StatusOr<std::unique_ptr<DiskCache>> Open(DiskCacheOptions options);

  // Looks up block number `block` of a file, of any version; null on a cache miss.
  std::unique_ptr<CachedBlock> Find(absl::string_view file, int64_t block);
  // Prints the warning; to be called when CachedBlock::Read returns false.
  void ReportCorrupt(absl::string_view file, int64_t block);
  // Stores a block, replacing that of another version. Its size is kBlockBytes, or less at the end
  // of the file.
  void Store(absl::string_view file, int64_t block, absl::string_view version,
             absl::string_view bytes);

 private:
  class Lock;
  struct Part;

  explicit DiskCache(DiskCacheOptions options);
  void Fail(const absl::Status& why, std::atomic<double>& until);
  bool IsPaused(const std::atomic<double>& until) const;
  std::string PathOf(absl::string_view file, int64_t block) const;
  absl::StatusOr<Part> CreatePart(const std::string& path, int64_t size);
  absl::StatusOr<int64_t> Evict(int64_t max_bytes);

  const DiskCacheOptions options_;
  std::mutex mutex_;     // of this process; lock_ is held between processes
  FileDescriptor lock_;  // FOLDER/lock

  // Clock time in seconds until which nothing is retried after a failure.
  std::atomic<double> retry_read_at_ = 0;
  std::atomic<double> retry_write_at_ = 0;
  std::atomic<bool> warned_of_failure_ = false;
  std::atomic<bool> warned_of_corruption_ = false;
};

// Prints a warning for the user to options.warn, or stderr.
void WarnOfCache(const DiskCacheOptions& options, absl::string_view text);

}  // namespace penstock::io
