#include "penstock/io/cache/caching_file_system.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/clock.h"
#include "penstock/base/status.h"
#include "penstock/io/forwarding_file_system.h"
#include "penstock/io/uri.h"

namespace penstock::io {
namespace {

constexpr int64_t kBlock = DiskCache::kBlockBytes;
// Number of missing blocks that a stream fetches with one read.
constexpr int64_t kBlocksAhead = 16;

// One version of a file, read by blocks.
class CachedFile {
 public:
  CachedFile(std::shared_ptr<DiskCache> cache, std::string name, std::string version,
             std::unique_ptr<RandomAccessFile> file)
      : cache_(std::move(cache)),
        name_(std::move(name)),
        version_(std::move(version)),
        file_(std::move(file)) {}

  int64_t size() const { return file_->size(); }
  const std::string& version() const { return version_; }

  // Reads bytes within one block and within the file; false on a cache miss.
  bool ReadKept(int64_t offset, absl::Span<char> out) {
    const auto kept = Find(offset / kBlock);
    if (kept == nullptr) return false;
    if (kept->Read(offset % kBlock, out)) return true;
    cache_->ReportCorrupt(name_, offset / kBlock);
    return false;
  }

  // Fetches the block and those after it, up to `max_blocks` blocks and up to the next cached one,
  // and adds them to the cache.
  absl::StatusOr<std::string> Fetch(int64_t block, int64_t max_blocks) {
    int64_t end = block + 1;
    while (end < block + max_blocks && end * kBlock < size() && Find(end) == nullptr) ++end;
    std::string bytes(std::min(end * kBlock, size()) - block * kBlock, '\0');
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t n,
                              file_->Read(block * kBlock, absl::MakeSpan(&bytes[0], bytes.size())));
    if (n < static_cast<int64_t>(bytes.size())) {
      return TruncatedFileError(file_->uri(), size(), block * kBlock + n);
    }
    for (int64_t at = 0; at < n; at += kBlock) {
      const absl::string_view part = absl::string_view(bytes).substr(at, kBlock);
      if (static_cast<int64_t>(part.size()) == BytesOf(block + at / kBlock)) {
        cache_->Store(name_, block + at / kBlock, version_, part);
      }
    }
    return bytes;
  }

 private:
  int64_t BytesOf(int64_t block) const { return std::min(kBlock, size() - block * kBlock); }

  std::unique_ptr<CachedBlock> Find(int64_t block) const {
    auto kept = cache_->Find(name_, block);
    if (kept != nullptr && (kept->version() != version_ || kept->size() != BytesOf(block))) {
      kept = nullptr;
    }
    return kept;
  }

  const std::shared_ptr<DiskCache> cache_;
  const std::string name_;
  const std::string version_;
  const std::unique_ptr<RandomAccessFile> file_;
};

class CachedRandomAccessFile : public RandomAccessFile {
 public:
  CachedRandomAccessFile(std::string uri, std::unique_ptr<CachedFile> file)
      : RandomAccessFile(std::move(uri), file->size()), file_(std::move(file)) {}

  std::string version() const override { return file_->version(); }

  absl::StatusOr<int64_t> Read(int64_t offset, absl::Span<char> out) override {
    if (offset < 0) {
      return absl::InvalidArgumentError(absl::StrCat(uri(), ": negative offset ", offset));
    }
    out = out.first(std::min<int64_t>(out.size(), size() - std::min(offset, size())));
    int64_t done = 0;
    while (done < static_cast<int64_t>(out.size())) {
      const int64_t at = offset + done;
      const int64_t left = out.size() - done;
      const int64_t in_block = std::min(left, kBlock - at % kBlock);
      if (file_->ReadKept(at, out.subspan(done, in_block))) {
        done += in_block;
        continue;
      }
      const int64_t blocks = (at % kBlock + left + kBlock - 1) / kBlock;
      PENSTOCK_ASSIGN_OR_RETURN(const std::string bytes, file_->Fetch(at / kBlock, blocks));
      const int64_t n = std::min(left, static_cast<int64_t>(bytes.size()) - at % kBlock);
      std::memcpy(out.data() + done, bytes.data() + at % kBlock, n);
      done += n;
    }
    return done;
  }

 private:
  const std::unique_ptr<CachedFile> file_;
};

// Stream of a file with cached blocks; runs of missing blocks are fetched several at once.
class CachedInputStream : public InputStream {
 public:
  CachedInputStream(std::string uri, std::unique_ptr<CachedFile> file)
      : InputStream(std::move(uri)), file_(std::move(file)) {}

  std::string version() const override { return file_->version(); }

  absl::StatusOr<int64_t> Read(absl::Span<char> out) override {
    out = out.first(std::min<int64_t>(out.size(), file_->size() - position_));
    int64_t done = 0;
    while (done < static_cast<int64_t>(out.size())) {
      const int64_t left = out.size() - done;
      const int64_t fetched = fetched_at_ + static_cast<int64_t>(fetched_.size()) - position_;
      int64_t n = std::min(left, kBlock - position_ % kBlock);
      if (fetched > 0) {
        n = std::min(left, fetched);
        std::memcpy(out.data() + done, fetched_.data() + (position_ - fetched_at_), n);
      } else if (!file_->ReadKept(position_, out.subspan(done, n))) {
        const int64_t block = position_ / kBlock;
        PENSTOCK_ASSIGN_OR_RETURN(fetched_, file_->Fetch(block, kBlocksAhead));
        fetched_at_ = block * kBlock;
        continue;
      }
      position_ += n;
      done += n;
    }
    return done;
  }

 private:
  const std::unique_ptr<CachedFile> file_;
  int64_t position_ = 0;
  std::string fetched_;  // bytes fetched after a cache miss
  int64_t fetched_at_ = 0;
};

// Stream of a file without cached blocks: stores what is read, block by block.
class CachingInputStream : public InputStream {
 public:
  CachingInputStream(std::shared_ptr<DiskCache> cache, std::string name, std::string version,
                     std::unique_ptr<InputStream> in)
      : InputStream(in->full_uri()),
        cache_(std::move(cache)),
        name_(std::move(name)),
        version_(std::move(version)),
        in_(std::move(in)) {}

  std::string version() const override { return version_; }

  absl::StatusOr<int64_t> Read(absl::Span<char> out) override {
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t n, in_->Read(out));
    for (absl::string_view bytes(out.data(), n); !bytes.empty();) {
      const size_t part = std::min<size_t>(bytes.size(), kBlock - block_bytes_.size());
      block_bytes_.append(bytes.data(), part);
      bytes.remove_prefix(part);
      if (static_cast<int64_t>(block_bytes_.size()) == kBlock) StoreBlock();
    }
    const bool at_end = n < static_cast<int64_t>(out.size());
    if (at_end && !block_bytes_.empty()) StoreBlock();
    return n;
  }

 private:
  void StoreBlock() {
    cache_->Store(name_, block_++, version_, block_bytes_);
    block_bytes_.clear();
  }

  const std::shared_ptr<DiskCache> cache_;
  const std::string name_;
  const std::string version_;
  const std::unique_ptr<InputStream> in_;
  std::string block_bytes_;  // of the block that is not complete yet
  int64_t block_ = 0;
};

// Cache key of a file: without credentials, which do not affect the contents and must not be
// written to disk.
absl::StatusOr<std::string> NameOf(absl::string_view text) {
  PENSTOCK_ASSIGN_OR_RETURN(Uri uri, ParseUri(text));
  uri.user.clear();
  return FormatUri(uri);
}

class CachingFileSystem : public ForwardingFileSystem {
 public:
  CachingFileSystem(std::shared_ptr<FileSystem> fs, std::shared_ptr<SharedDiskCache> cache)
      : ForwardingFileSystem(std::move(fs)), cache_(std::move(cache)) {}

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenRandomAccess(
      absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string name, NameOf(uri));
    PENSTOCK_ASSIGN_OR_RETURN(auto cache, cache_->Get());
    if (cache == nullptr) return next().OpenRandomAccess(uri);
    std::string version;
    PENSTOCK_ASSIGN_OR_RETURN(auto file, Open(&FileSystem::OpenRandomAccess, uri, version));
    if (version.empty()) return file;
    return std::make_unique<CachedRandomAccessFile>(
        std::string(uri),
        std::make_unique<CachedFile>(std::move(cache), name, std::move(version), std::move(file)));
  }

  absl::StatusOr<std::unique_ptr<InputStream>> OpenInput(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string name, NameOf(uri));
    PENSTOCK_ASSIGN_OR_RETURN(auto cache, cache_->Get());
    if (cache == nullptr) return next().OpenInput(uri);
    if (const auto first = cache->Find(name, 0); first != nullptr) {
      std::string version;
      PENSTOCK_ASSIGN_OR_RETURN(auto file, Open(&FileSystem::OpenRandomAccess, uri, version));
      if (version == first->version()) {
        return std::make_unique<CachedInputStream>(
            std::string(uri), std::make_unique<CachedFile>(std::move(cache), name,
                                                           std::move(version), std::move(file)));
      }
    }
    std::string version;
    PENSTOCK_ASSIGN_OR_RETURN(auto in, Open(&FileSystem::OpenInput, uri, version));
    if (version.empty()) return in;
    return std::make_unique<CachingInputStream>(std::move(cache), name, std::move(version),
                                                std::move(in));
  }

 private:
  // Opens the file, and finds its version; empty if versions cannot be told apart.
  template <typename File>
  absl::StatusOr<std::unique_ptr<File>> Open(
      absl::StatusOr<std::unique_ptr<File>> (FileSystem::*open)(absl::string_view),
      absl::string_view uri, std::string& version) {
    PENSTOCK_ASSIGN_OR_RETURN(auto file, (next().*open)(uri));
    version = file->version();
    if (!version.empty()) return file;
    version = SizeAndTime(file->full_uri());
    if (version.empty()) return file;
    return (next().*open)(uri);  // not before its size and time
  }

  // The version of a file in a store that has none, or empty. It is asked for before the file is
  // opened: if the file is replaced in between, its blocks are stored under the previous version,
  // which is never requested again.
  std::string SizeAndTime(absl::string_view uri) {
    const auto info = next().Stat(uri);
    if (!info.ok() || info->modified_unix_seconds == 0) return "";
    const double time = info->modified_unix_seconds;
    // In whole seconds, it does not tell apart what was written within one.
    const bool is_whole = std::floor(time) == time;
    if (is_whole && base::Clock::Real()->UnixSeconds() - time < kDistinctSeconds) return "";
    return absl::StrCat(info->size, " bytes of ", static_cast<int64_t>(time * 1e6));
  }

  static constexpr double kDistinctSeconds = 60;  // also if the clocks differ a little
  const std::shared_ptr<SharedDiskCache> cache_;
};

}  // namespace

SharedDiskCache::SharedDiskCache(DiskCacheOptions options) : options_(std::move(options)) {}

absl::StatusOr<std::shared_ptr<DiskCache>> SharedDiskCache::Get() {
  constexpr double kRetrySeconds = 60;
  base::Clock* const clock = options_.clock != nullptr ? options_.clock : base::Clock::Real();
  std::lock_guard lock(mutex_);
  if (cache_ != nullptr) return cache_;
  if (warned_ && clock->Seconds() < retry_at_) return nullptr;
  if (options_.folder.empty() || options_.max_bytes <= 0) {
    return absl::InvalidArgumentError(
        "the disk cache needs a folder (PENSTOCK_CACHE_DIR) and a size above 0 "
        "(PENSTOCK_CACHE_GB, in gigabytes)");
  }
  auto cache = DiskCache::Open(options_);
  if (cache.ok()) {
    cache_ = *std::move(cache);
    return cache_;
  }
  retry_at_ = clock->Seconds() + kRetrySeconds;
  if (!std::exchange(warned_, true)) {
    WarnOfCache(options_,
                absl::StrCat("is unavailable, reading files directly from their storage: ",
                             cache.status().message()));
  }
  return nullptr;
}

std::shared_ptr<FileSystem> WithDiskCache(std::shared_ptr<FileSystem> fs,
                                          DiskCacheOptions options) {
  return WithDiskCache(std::move(fs), std::make_shared<SharedDiskCache>(std::move(options)));
}

std::shared_ptr<FileSystem> WithDiskCache(std::shared_ptr<FileSystem> fs,
                                          std::shared_ptr<SharedDiskCache> cache) {
  if (cache == nullptr) return fs;
  return std::make_shared<CachingFileSystem>(std::move(fs), std::move(cache));
}

std::shared_ptr<SharedDiskCache> CacheFromEnvironment() {
  const char* folder = std::getenv("PENSTOCK_CACHE_DIR");
  if (folder == nullptr || *folder == '\0') return nullptr;
  DiskCacheOptions options{.folder = folder};
  const char* gigabytes = std::getenv("PENSTOCK_CACHE_GB");
  double number = 0;
  if (gigabytes != nullptr && *gigabytes != '\0') {
    // 0 if it is not a number; opening the first file then reports the error.
    options.max_bytes = absl::SimpleAtod(gigabytes, &number) && number > 0 && number < 1e9
                            ? static_cast<int64_t>(number * 1e9)
                            : 0;
  }
  return std::make_shared<SharedDiskCache>(std::move(options));
}

}  // namespace penstock::io
