// Blocks of files of slow file systems, kept in a folder of a local disk. caching_file_system.h
// reads through it.
//
//   FOLDER/lock           held while the folder's size is counted; holds that number
//   FOLDER/3f/3f0a...     one block: a header, then up to 1 MiB of the file
//   FOLDER/3f/*.part      one that is being written
//
// Several processes may use one folder. A block appears whole, by rename; its header names the
// file, the file's version and the block's place, and holds a checksum of itself and of each 64
// KiB. One that is damaged is as good as none. A process that is killed leaves at most a .part
// file, which its lock tells from one that is still being written. The folder holds at most
// max_bytes: those blocks go first that were not read for longest (to the minute).
//
// What cannot be kept (a full disk) is not: whoever asks for it next fetches it again.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

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
};

// Any thread may use it.
class DiskCache {
 public:
  static constexpr int64_t kBlockBytes = 1 << 20;

  static absl::StatusOr<std::unique_ptr<DiskCache>> Open(DiskCacheOptions options);

  // What is kept of block number `block` of a file, of whichever version; null when nothing is.
  std::unique_ptr<CachedBlock> Find(absl::string_view file, int64_t block);
  // Keeps a block, in place of another version's: kBlockBytes, fewer at the end of the file.
  void Keep(absl::string_view file, int64_t block, absl::string_view version,
            absl::string_view bytes);

 private:
  class Lock;
  struct Part;

  explicit DiskCache(DiskCacheOptions options) : options_(std::move(options)) {}
  std::string PathOf(absl::string_view file, int64_t block) const;
  Part MakePart(const std::string& path, int64_t size);
  int64_t MakeRoom(int64_t most_bytes);

  const DiskCacheOptions options_;
  std::mutex mutex_;     // of this process; lock_ is held between processes
  FileDescriptor lock_;  // FOLDER/lock
};

}  // namespace penstock::io
