#include "penstock/io/cache/disk_cache.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#define XXH_INLINE_ALL
#include <arrow/vendored/xxhash.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/io/local/file_descriptor.h"
#include "penstock/io/local/local_output_stream.h"
#include "penstock/io/local/open_local_file.h"
#include "penstock/io/posix_error.h"
#include "penstock/io/uri.h"

namespace penstock::io {
namespace {

constexpr char kMagic[8] = {'p', 'e', 'n', 's', 't', 'k', 'c', '1'};
constexpr int64_t kHeaderBytes = 4096;
constexpr size_t kPieces = DiskCache::kBlockBytes / CachedBlock::kChunkBytes;
constexpr char kPartSuffix[] = ".part";
// Eviction frees more than needed, because scanning the folder takes a while.
constexpr double kKeptShare = 0.9;
constexpr time_t kTouchSeconds = 60;
// Pause after a failure: each call to a failing disk may take seconds to return.
constexpr double kPauseSeconds = 60;
// Longer than a healthy process holds the lock; a stopped process (SIGSTOP) keeps holding it.
constexpr int kLockMilliseconds = 1000;
// Never block (on a pipe), never follow a symbolic link.
constexpr int kReadFlags = O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC;

// The header of a block file, in host byte order; followed by the names, then zero padding.
struct Header {
  char magic[sizeof(kMagic)];
  uint64_t checksum;  // of the header after this field
  int64_t block;
  int64_t size;
  uint32_t file_bytes;     // length of the file's name
  uint32_t version_bytes;  // length of the version, which follows the name
  uint64_t checksums[kPieces];
};
constexpr size_t kMaxNameBytes = kHeaderBytes - sizeof(Header);

uint64_t Checksum(absl::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

uint64_t HeaderChecksum(const char* header) {
  constexpr size_t kBegin = offsetof(Header, block);
  return Checksum({header + kBegin, kHeaderBytes - kBegin});
}

// Disk usage of a file.
int64_t RoundedUp(int64_t size) { return (size + 4095) / 4096 * 4096; }

// False with errno 0 if the file ends early.
bool ReadAt(int fd, int64_t offset, absl::Span<char> out) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t n = ::pread(fd, out.data() + done, out.size() - done, offset + done);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = 0;
    if (n <= 0) return false;
    done += n;
  }
  return true;
}

bool WriteAt(int fd, int64_t offset, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = EIO;
    if (n <= 0) return false;
    bytes.remove_prefix(n);
    offset += n;
  }
  return true;
}

absl::string_view PieceOf(absl::string_view bytes, size_t i) {
  return bytes.substr(i * CachedBlock::kChunkBytes, CachedBlock::kChunkBytes);
}

std::string MakeHeader(absl::string_view file, int64_t block, absl::string_view version,
                       absl::string_view bytes) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.block = block;
  header.size = bytes.size();
  header.file_bytes = file.size();
  header.version_bytes = version.size();
  for (size_t i = 0; i * CachedBlock::kChunkBytes < bytes.size(); ++i) {
    header.checksums[i] = Checksum(PieceOf(bytes, i));
  }
  std::string out(kHeaderBytes, '\0');
  file.copy(&out[sizeof(header)], file.size());
  version.copy(&out[sizeof(header) + file.size()], version.size());
  std::memcpy(out.data(), &header, sizeof(header));
  header.checksum = HeaderChecksum(out.data());
  std::memcpy(out.data(), &header, sizeof(header));
  return out;
}

// One file in the folder.
struct Entry {
  std::string path;
  int64_t bytes;
  timespec read_at;
};

// Names created by this cache: 32 hexadecimal digits, the first two equal to the folder's name, and
// a suffix for unpublished files. Other files in the folder are neither counted nor removed.
bool IsOurs(absl::string_view folder, absl::string_view name) {
  constexpr size_t kDigits = 32;
  const auto is_hex = [](absl::string_view text) {
    return text.find_first_not_of("0123456789abcdef") == absl::string_view::npos;
  };
  if (name.size() < kDigits || !is_hex(name.substr(0, kDigits)) ||
      !absl::StartsWith(name, Basename(folder))) {
    return false;
  }
  name.remove_prefix(kDigits);
  return name.empty() || (absl::ConsumePrefix(&name, ".") &&
                          absl::ConsumeSuffix(&name, kPartSuffix) && is_hex(name));
}

// Whether no process is writing the file: the kernel releases the locks of a killed process.
bool IsAbandoned(const std::string& part) {
  const FileDescriptor fd(::open(part.c_str(), kReadFlags));
  return fd.valid() && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
}

absl::Status ListFolder(const std::string& path, std::vector<Entry>& entries) {
  const OpenFolder folder(::opendir(path.c_str()));
  if (folder == nullptr) {
    return errno == ENOENT ? absl::OkStatus() : PosixError(errno, "list", path);
  }
  for (;;) {
    errno = 0;
    const dirent* const entry = ::readdir(folder.get());
    if (entry == nullptr) return errno == 0 ? absl::OkStatus() : PosixError(errno, "list", path);
    struct stat info;
    if (!IsOurs(path, entry->d_name) ||
        ::fstatat(::dirfd(folder.get()), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(info.st_mode)) {
      continue;
    }
    std::string file = absl::StrCat(path, "/", entry->d_name);
    if (absl::EndsWith(file, kPartSuffix) && IsAbandoned(file)) {
      ::unlink(file.c_str());
    } else {
      entries.push_back({std::move(file), RoundedUp(info.st_size), info.st_mtim});
    }
  }
}

}  // namespace

bool CachedBlock::Read(int64_t offset, absl::Span<char> out) const {
  std::vector<char> piece;
  while (!out.empty()) {
    const size_t i = offset / kChunkBytes;
    const int64_t begin = i * kChunkBytes;
    const int64_t bytes = std::min(kChunkBytes, size_ - begin);
    const int64_t n = std::min<int64_t>(out.size(), begin + bytes - offset);
    const bool whole = offset == begin && n == bytes;
    if (!whole) piece.resize(bytes);
    const absl::Span<char> to = whole ? out.first(n) : absl::MakeSpan(piece);
    if (!ReadAt(fd_.get(), kHeaderBytes + begin, to)) return false;
    if (Checksum({to.data(), to.size()}) != checksums_[i]) return false;
    if (!whole) std::memcpy(out.data(), piece.data() + (offset - begin), n);
    out.remove_prefix(n);
    offset += n;
  }
  return true;
}

// The lock between threads and processes. Reads and writes the number of bytes in the folder.
class DiskCache::Lock {
 public:
  explicit Lock(DiskCache& cache) : held_(cache.mutex_), fd_(cache.lock_.get()) {
    const std::string name = JoinPath(cache.options_.folder, "lock");
    for (int waited = 0; ::flock(fd_, LOCK_EX | LOCK_NB) != 0; ++waited) {
      if (errno != EINTR && errno != EWOULDBLOCK) {
        status_ = PosixError(errno, "lock", name);
        return;
      }
      if (waited == kLockMilliseconds) {
        status_ = absl::UnavailableError(
            absl::StrCat("another process has held the lock '", name, "' for more than 1 s"));
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  ~Lock() {
    if (status_.ok()) ::flock(fd_, LOCK_UN);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  const absl::Status& status() const { return status_; }

  std::optional<int64_t> bytes() const {
    int64_t bytes = 0;
    if (!ReadAt(fd_, 0, {reinterpret_cast<char*>(&bytes), sizeof(bytes)}) || bytes < 0) return {};
    return bytes;
  }
  bool SetBytes(int64_t bytes) {
    return WriteAt(fd_, 0, {reinterpret_cast<const char*>(&bytes), sizeof(bytes)});
  }

 private:
  const std::lock_guard<std::mutex> held_;
  const int fd_;
  absl::Status status_;
};

void WarnOfCache(const DiskCacheOptions& options, absl::string_view text) {
  const std::string line =
      absl::StrCat("the disk cache in '", options.folder, "' (PENSTOCK_CACHE_DIR) ", text);
  if (options.warn != nullptr) return options.warn(line);
  std::fprintf(stderr, "warning: %s\n", line.c_str());
}

DiskCache::DiskCache(DiskCacheOptions options) : options_(std::move(options)) {}

absl::StatusOr<std::unique_ptr<DiskCache>> DiskCache::Open(DiskCacheOptions options) {
  const std::string& folder = options.folder;
  if (folder.empty() || options.max_bytes <= 0) {
    return absl::InvalidArgumentError("a disk cache needs a folder and a size above 0");
  }
  if (options.clock == nullptr) options.clock = base::Clock::Real();
  PENSTOCK_RETURN_IF_ERROR(CreateLocalFolders(folder, Dirname(folder)));
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return PosixError(errno, "create the cache folder", folder);
  }
  auto cache = std::unique_ptr<DiskCache>(new DiskCache(std::move(options)));
  const std::string lock = JoinPath(cache->options_.folder, "lock");
  cache->lock_ = FileDescriptor(
      ::open(lock.c_str(), O_RDWR | O_CREAT | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!cache->lock_.valid()) return PathError(errno, "open the cache lock", lock, lock);
  struct stat info;
  if (::fstat(cache->lock_.get(), &info) != 0)
    return PosixError(errno, "open the cache lock", lock);
  if (!S_ISREG(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat("'", lock, "' is ", NameOfFileType(info.st_mode)));
  }
  if (info.st_size != 0 && info.st_size != sizeof(int64_t)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "'", lock, "' is not a file of the cache; give the cache a folder of its own"));
  }
  return cache;
}

// Disables the cache for a minute; the first failure prints a warning.
void DiskCache::Fail(const absl::Status& why, std::atomic<double>& until) {
  until = options_.clock->Seconds() + kPauseSeconds;
  if (warned_of_failure_.exchange(true)) return;
  WarnOfCache(options_, absl::StrCat("is unavailable, reading files directly from their storage: ",
                                     why.message()));
}

bool DiskCache::IsPaused(const std::atomic<double>& until) const {
  return until != 0 && options_.clock->Seconds() < until;
}

void DiskCache::ReportCorrupt(absl::string_view file, int64_t block) {
  if (warned_of_corruption_.exchange(true)) return;
  WarnOfCache(options_,
              absl::StrCat("has a corrupt block, number ", block, " of ", file,
                           "; fetching it again. Further corrupt blocks will not be reported"));
}

std::string DiskCache::PathOf(absl::string_view file, int64_t block) const {
  const std::string key = absl::StrCat(file, "\n", block);
  const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
  const std::string name = absl::StrFormat("%016x%016x", hash.high64, hash.low64);
  return absl::StrCat(options_.folder, "/", name.substr(0, 2), "/", name);
}

std::unique_ptr<CachedBlock> DiskCache::Find(absl::string_view file, int64_t block) {
  if (IsPaused(retry_read_at_)) return nullptr;
  const std::string path = PathOf(file, block);
  const auto fail = [&] {
    Fail(PosixError(errno, "read", path), retry_read_at_);
    return nullptr;
  };
  const auto damaged = [&] {
    ReportCorrupt(file, block);
    return nullptr;
  };
  auto found = std::make_unique<CachedBlock>();
  found->fd_ = FileDescriptor(::open(path.c_str(), kReadFlags));
  if (!found->fd_.valid() && errno == ENOENT) return nullptr;
  if (!found->fd_.valid()) return errno == ELOOP ? damaged() : fail();
  char bytes[kHeaderBytes];
  Header header;
  struct stat info;
  if (::fstat(found->fd_.get(), &info) != 0) return fail();
  if (!S_ISREG(info.st_mode)) return damaged();
  if (!ReadAt(found->fd_.get(), 0, absl::MakeSpan(bytes))) return errno == 0 ? damaged() : fail();
  std::memcpy(&header, bytes, sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 ||
      header.checksum != HeaderChecksum(bytes) || header.block != block || header.size < 0 ||
      header.size > kBlockBytes || info.st_size != kHeaderBytes + header.size ||
      uint64_t{header.file_bytes} + header.version_bytes > kMaxNameBytes) {
    return damaged();
  }
  const absl::string_view names(bytes + sizeof(header), header.file_bytes + header.version_bytes);
  if (names.substr(0, header.file_bytes) != file) return nullptr;
  found->version_ = std::string(names.substr(header.file_bytes));
  found->size_ = header.size;
  found->checksums_.assign(header.checksums, header.checksums + kPieces);
  if (info.st_mtim.tv_sec + kTouchSeconds <= ::time(nullptr)) ::futimens(found->fd_.get(), nullptr);
  return found;
}

// A temporary file for a block, locked and counted. Without an fd if the cache has no space for it.
struct DiskCache::Part {
  FileDescriptor fd = {};
  std::string path = {};
};

absl::StatusOr<DiskCache::Part> DiskCache::CreatePart(const std::string& path, int64_t size) {
  const int64_t bytes = RoundedUp(size);
  Lock lock(*this);
  PENSTOCK_RETURN_IF_ERROR(lock.status());
  const std::optional<int64_t> counted = lock.bytes();
  int64_t total = counted.value_or(0);
  if (!counted || total + bytes > options_.max_bytes) {
    const int64_t limit = options_.max_bytes - bytes;
    if (limit < 0) return Part{};
    PENSTOCK_ASSIGN_OR_RETURN(
        total, Evict(std::min(limit, static_cast<int64_t>(
                                         kKeptShare * static_cast<double>(options_.max_bytes)))));
    if (total > limit) return Part{};
  }
  // Counted before it is written: if the process is killed, the count may be too high until the
  // next scan of the folder, but never too low.
  if (!lock.SetBytes(total + bytes)) return PosixError(errno, "write to", options_.folder);
  Part part{.path = absl::StrCat(path, ".", absl::Hex(base::EntropySeed()), kPartSuffix)};
  const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
  part.fd = FileDescriptor(::open(part.path.c_str(), flags, 0600));
  if (!part.fd.valid() && errno == ENOENT) {
    ::mkdir(Dirname(path).c_str(), 0700);
    part.fd = FileDescriptor(::open(part.path.c_str(), flags, 0600));
  }
  // Sets the final size immediately, so that scans of the folder count it.
  if (!part.fd.valid() || ::flock(part.fd.get(), LOCK_EX | LOCK_NB) != 0 ||
      ::ftruncate(part.fd.get(), size) != 0) {
    const absl::Status failed = PosixError(errno, "write", part.path);
    if (part.fd.valid()) ::unlink(part.path.c_str());
    (void)lock.SetBytes(total);
    return failed;
  }
  return part;
}

// Evicts blocks until at most `max_bytes` are left; returns the number of bytes left.
absl::StatusOr<int64_t> DiskCache::Evict(int64_t max_bytes) {
  std::vector<Entry> entries;
  for (int i = 0; i < 256; ++i) {
    PENSTOCK_RETURN_IF_ERROR(ListFolder(absl::StrFormat("%s/%02x", options_.folder, i), entries));
  }
  int64_t total = 0;
  for (const Entry& entry : entries) total += entry.bytes;
  if (total <= max_bytes) return total;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.read_at.tv_sec, a.read_at.tv_nsec) <
           std::pair(b.read_at.tv_sec, b.read_at.tv_nsec);
  });
  for (const Entry& entry : entries) {
    if (total <= max_bytes) break;
    if (absl::EndsWith(entry.path, kPartSuffix)) continue;
    if (::unlink(entry.path.c_str()) == 0) total -= entry.bytes;
  }
  return total;
}

void DiskCache::Store(absl::string_view file, int64_t block, absl::string_view version,
                      absl::string_view bytes) {
  PENSTOCK_CHECK(bytes.size() <= static_cast<size_t>(kBlockBytes));
  if (file.size() + version.size() > kMaxNameBytes || IsPaused(retry_write_at_)) return;
  const std::string path = PathOf(file, block);
  absl::StatusOr<Part> part = CreatePart(path, kHeaderBytes + static_cast<int64_t>(bytes.size()));
  if (!part.ok()) return Fail(part.status(), retry_write_at_);
  if (!part->fd.valid()) return;
  // No fsync: a block that is incomplete after a power failure has a wrong checksum.
  const auto publish = [&]() -> absl::Status {
    if (!WriteAt(part->fd.get(), kHeaderBytes, bytes) ||
        !WriteAt(part->fd.get(), 0, MakeHeader(file, block, version, bytes))) {
      return PosixError(errno, "write", path);
    }
    // Without the lock a listing in Evict could miss a file during its rename and count too
    // little.
    const Lock lock(*this);
    PENSTOCK_RETURN_IF_ERROR(lock.status());
    if (std::rename(part->path.c_str(), path.c_str()) == 0) return absl::OkStatus();
    return PosixError(errno, "write", path);
  };
  const absl::Status kept = publish();
  if (kept.ok()) return;
  Fail(kept, retry_write_at_);
  ::unlink(part->path.c_str());
}

}  // namespace penstock::io
