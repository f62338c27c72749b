// Blocks of files of slow file systems, kept in a folder of a local disk. caching_file_system.h
// reads through it.
//
//   FOLDER/lock           held while the folder's size is counted; holds that number
//   FOLDER/3f/3f0a...     one block: a header, then up to 1 MiB of the file
//   FOLDER/3f/*.part      one that is being written
//
// Several processes may use one folder. A block appears whole, by rename; its header names the
// file, the file's version and the block's place, and holds a checksum of itself and of each 64
// KiB. A corrupt one is ignored. A process that is killed leaves at most a .part file, whose lock
// distinguishes it from one that is still being written. The folder holds at most max_bytes: the
// least recently read blocks are evicted first (to the minute). Other files in it are left alone.
//
// A cache is only ever a faster way to the same bytes. When the folder fails (a full or failing
// disk, permissions, a lock that another process does not release) nothing is stored or found for a
// minute; then it is tried again. A warning reports the first failure and the first corrupt block,
// not later ones.
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
#include "penstock/io/file_descriptor.h"

namespace penstock::io {

// One block, open: it can be read even when it is removed meanwhile.
class CachedBlock {
 public:
  static constexpr int64_t kPieceBytes = 64 << 10;

  const std::string& version() const { return version_; }
  int64_t size() const { return size_; }
  // Fills `out` from `offset` on; both lie within the block. False when the bytes are damaged.
  bool Read(int64_t offset, absl::Span<char> out) const;

 private:
  friend class DiskCache;

  FileDescriptor fd_;
  std::string version_;
  int64_t size_ = 0;
  std::vector<uint64_t> checksums_;  // of each piece
};

struct DiskCacheOptions {
  std::string folder;  // made when it is missing, for this user alone
  int64_t max_bytes = int64_t{20} << 30;
  // Called with a line of text, on any thread. Default: print to stderr.
  std::function<void(const std::string& line)> warn = {};
  base::Clock* clock = nullptr;  // null: the system clock
};

// Any thread may use it.
class DiskCache {
 public:
  static constexpr int64_t kBlockBytes = 1 << 20;

  static absl::StatusOr<std::unique_ptr<DiskCache>> Open(DiskCacheOptions options);

  // What is kept of block number `block` of a file, of whichever version; null when nothing is.
  std::unique_ptr<CachedBlock> Find(absl::string_view file, int64_t block);
  // Call this when CachedBlock::Read returns false; it prints the warning.
  void ReportDamaged(absl::string_view file, int64_t block);
  // Keeps a block, in place of another version's: kBlockBytes, fewer at the end of the file.
  void Keep(absl::string_view file, int64_t block, absl::string_view version,
            absl::string_view bytes);

 private:
  class Lock;
  struct Part;

  explicit DiskCache(DiskCacheOptions options);
  void Fail(const absl::Status& why, std::atomic<double>& until);
  bool Waits(const std::atomic<double>& until) const;
  std::string PathOf(absl::string_view file, int64_t block) const;
  absl::StatusOr<Part> MakePart(const std::string& path, int64_t size);
  absl::StatusOr<int64_t> MakeRoom(int64_t most_bytes);

  const DiskCacheOptions options_;
  std::mutex mutex_;     // of this process; lock_ is held between processes
  FileDescriptor lock_;  // FOLDER/lock

  // Clock time in seconds until which nothing is retried after a failure.
  std::atomic<double> read_again_at_ = 0;
  std::atomic<double> write_again_at_ = 0;
  std::atomic<bool> told_failure_ = false;
  std::atomic<bool> told_damage_ = false;
};

// Prints a warning for the user to options.warn, or stderr.
void WarnOfCache(const DiskCacheOptions& options, absl::string_view text);

}  // namespace penstock::io
