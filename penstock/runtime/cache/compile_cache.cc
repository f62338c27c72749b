#include "penstock/runtime/cache/compile_cache.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/runtime/cache/cache_key.h"
#include "penstock/runtime/cache/user_cache.h"

namespace penstock::runtime {
namespace {

constexpr absl::string_view kEntrySuffix = ".program";
constexpr absl::string_view kPartSuffix = ".part";
// A part of this age belongs to a process that was killed.
constexpr time_t kAbandonedSeconds = 3600;

// Header of an entry, as in the file.
struct Header {
  char magic[8];
  char key[kKeyDigits];
  char checksum[kKeyDigits];  // SHA-256 of the bytes behind the header
  uint64_t size;              // of these
};
constexpr char kMagic[] = "penstkx1";

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

// Rejects files that may block (a pipe), and links.
File OpenFile(const std::string& path, int flags, const char* mode) {
  const int fd = ::open(path.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
  if (fd < 0) return nullptr;
  File file(::fdopen(fd, mode));
  if (file == nullptr) ::close(fd);
  return file;
}

Header MakeHeader(const std::string& key, absl::string_view bytes) {
  Header header;
  std::memcpy(header.magic, kMagic, sizeof(header.magic));
  std::memcpy(header.key, key.data(), sizeof(header.key));
  std::memcpy(header.checksum, Sha256(bytes).data(), sizeof(header.checksum));
  header.size = bytes.size();
  return header;
}

std::optional<std::string> ReadEntry(std::FILE* file, const std::string& key, int64_t max_bytes) {
  struct stat info;
  if (::fstat(::fileno(file), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != ::geteuid() ||
      (info.st_mode & (S_IWGRP | S_IWOTH)) != 0 ||
      info.st_size < static_cast<off_t>(sizeof(Header)) || info.st_size > max_bytes) {
    return std::nullopt;
  }
  Header header;
  std::string bytes(static_cast<size_t>(info.st_size) - sizeof(header), '\0');
  if (std::fread(&header, sizeof(header), 1, file) != 1 ||
      std::fread(bytes.data(), 1, bytes.size(), file) != bytes.size()) {
    return std::nullopt;
  }
  const Header expected = MakeHeader(key, bytes);
  if (std::memcmp(&header, &expected, sizeof(header)) != 0) return std::nullopt;
  return bytes;
}

bool WriteEntry(const std::string& path, const std::string& key, absl::string_view bytes) {
  File file = OpenFile(path, O_WRONLY | O_CREAT | O_EXCL, "wb");
  if (file == nullptr) return false;
  const Header header = MakeHeader(key, bytes);
  const bool written = std::fwrite(&header, sizeof(header), 1, file.get()) == 1 &&
                       std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size();
  // No fsync: an entry that a power failure leaves half written has a wrong checksum.
  return std::fclose(file.release()) == 0 && written;
}

struct Entry {
  std::string path;
  int64_t bytes;
  timespec used_at;
};

// Foreign files in the folder are neither counted nor removed.
bool IsOurs(absl::string_view name, absl::string_view suffix) {
  return name.size() >= kKeyDigits + suffix.size() && absl::EndsWith(name, suffix) &&
         name.substr(0, kKeyDigits).find_first_not_of("0123456789abcdef") ==
             absl::string_view::npos;
}

// The entries of a folder; removes abandoned parts.
std::vector<Entry> ListEntries(const std::string& folder) {
  std::vector<Entry> entries;
  const std::unique_ptr<DIR, int (*)(DIR*)> list(::opendir(folder.c_str()), ::closedir);
  if (list == nullptr) return entries;
  while (const dirent* item = ::readdir(list.get())) {
    const absl::string_view name = item->d_name;
    const bool part = IsOurs(name, kPartSuffix);
    struct stat info;
    if ((!part && !IsOurs(name, kEntrySuffix)) ||
        ::fstatat(::dirfd(list.get()), item->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
      continue;
    }
    std::string path = absl::StrCat(folder, "/", name);
    if (!part) {
      entries.push_back({std::move(path), info.st_size, info.st_mtim});
    } else if (info.st_mtim.tv_sec + kAbandonedSeconds < ::time(nullptr)) {
      ::unlink(path.c_str());
    }
  }
  return entries;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CompileCache>> CompileCache::Open(CompileCacheOptions options) {
  if (options.folder.empty() || options.max_bytes <= 0) {
    return absl::InvalidArgumentError("a compile cache requires a folder and a size");
  }
  PENSTOCK_RETURN_IF_ERROR(CheckSha256());
  std::error_code error;
  const std::filesystem::path folder(options.folder);
  std::filesystem::create_directories(folder.parent_path(), error);
  if (::mkdir(options.folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot create the folder ", options.folder));
  }
  if (::access(options.folder.c_str(), R_OK | W_OK | X_OK) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot use the folder ", options.folder));
  }
  return std::unique_ptr<CompileCache>(new CompileCache(std::move(options)));
}

std::string CompileCache::PathOf(const std::string& key) const {
  PENSTOCK_CHECK(key.size() == kKeyDigits);
  return absl::StrCat(options_.folder, "/", key, kEntrySuffix);
}

std::optional<std::string> CompileCache::Find(const std::string& key) {
  const std::string path = PathOf(key);
  const File file = OpenFile(path, O_RDONLY, "rb");
  if (file == nullptr && errno == ENOENT) return std::nullopt;
  std::optional<std::string> bytes;
  if (file != nullptr) bytes = ReadEntry(file.get(), key, options_.max_bytes);
  if (bytes.has_value()) {
    ::futimens(::fileno(file.get()), nullptr);  // last use: now
  } else {
    Remove(key);
  }
  return bytes;
}

void CompileCache::Store(const std::string& key, absl::string_view bytes) {
  if (static_cast<int64_t>(sizeof(Header) + bytes.size()) > options_.max_bytes) return;
  const std::string path = PathOf(key);
  const std::string part =
      absl::StrCat(options_.folder, "/", key, ".", absl::Hex(base::EntropySeed()), kPartSuffix);
  if (!WriteEntry(part, key, bytes) || std::rename(part.c_str(), path.c_str()) != 0) {
    ::unlink(part.c_str());
    return;
  }
  Evict(path);
}

void CompileCache::Remove(const std::string& key) { ::unlink(PathOf(key).c_str()); }

// Two processes at once may both remove the oldest entries, and then find them gone.
void CompileCache::Evict(const std::string& newest) {
  std::vector<Entry> entries = ListEntries(options_.folder);
  int64_t total = 0;
  for (const Entry& entry : entries) total += entry.bytes;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.used_at.tv_sec, a.used_at.tv_nsec) <
           std::pair(b.used_at.tv_sec, b.used_at.tv_nsec);
  });
  for (const Entry& entry : entries) {
    if (total <= options_.max_bytes) break;
    if (entry.path == newest) continue;
    if (::unlink(entry.path.c_str()) == 0 || errno == ENOENT) total -= entry.bytes;
  }
}

std::string CompileCacheFolder(const std::string& asked) {
  std::string folder = asked;
  if (folder.empty()) {
    const char* variable = std::getenv("PENSTOCK_COMPILE_CACHE");
    folder = variable == nullptr ? "" : variable;
  }
  if (folder == "0") return "";
  return folder.empty() ? UserCacheFolder() + "/programs" : folder;
}

}  // namespace penstock::runtime
