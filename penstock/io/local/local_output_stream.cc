#include "penstock/io/local/local_output_stream.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/io/local/file_descriptor.h"
#include "penstock/io/local/open_local_file.h"
#include "penstock/io/posix_error.h"
#include "penstock/io/uri.h"

namespace penstock::io {
namespace {

constexpr absl::string_view kUnpublishedPrefix = ".penstock-";
constexpr absl::string_view kUnpublishedSuffix = ".part";
constexpr size_t kBufferBytes = 256 << 10;

absl::Status WriteAll(int fd, absl::string_view bytes, const std::string& uri) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return PosixError(n == 0 ? EIO : errno, "write to", uri);
    bytes.remove_prefix(n);
  }
  return absl::OkStatus();
}

// Some file systems (FUSE, SMB) do not support fsync; nothing more can be done there.
bool Sync(int fd) {
  return RetryInterrupted([&] { return ::fsync(fd); }) == 0 || errno == EINVAL || errno == ENOTSUP;
}

// Flushes a folder, because a rename or a new folder may otherwise be lost in a power failure.
absl::Status SyncFolder(const std::string& folder, const std::string& uri) {
  const FileDescriptor fd(
      RetryInterrupted([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (!fd.valid()) return PathError(errno, "open the folder of", uri, folder);
  if (!Sync(fd.get())) return PosixError(errno, "flush to disk the folder of", uri);
  return absl::OkStatus();
}

// Buffered writes to a file descriptor.
class BufferedFile {
 public:
  BufferedFile(FileDescriptor fd, std::string uri) : fd_(std::move(fd)), uri_(std::move(uri)) {}

  absl::Status Append(absl::string_view bytes) {
    if (buffer_.size() + bytes.size() > kBufferBytes) PENSTOCK_RETURN_IF_ERROR(Flush());
    if (bytes.size() > kBufferBytes) return WriteAll(fd_.get(), bytes, uri_);
    buffer_.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  absl::Status Flush() {
    const absl::Status status = WriteAll(fd_.get(), buffer_, uri_);
    buffer_.clear();
    return status;
  }
  // Writes all buffered bytes to the file system.
  absl::Status Close() {
    PENSTOCK_RETURN_IF_ERROR(Flush());
    const int error = fd_.Close();
    return error == 0 ? absl::OkStatus() : PosixError(error, "write to", uri_);
  }
  int fd() const { return fd_.get(); }

 private:
  FileDescriptor fd_;
  std::string uri_;
  std::string buffer_;
};

// A stream to something other than a regular file, which cannot be replaced by rename.
class DirectOutputStream : public OutputStream {
 public:
  DirectOutputStream(std::string uri, FileDescriptor fd)
      : OutputStream(uri), file_(std::move(fd), std::move(uri)) {}

  absl::Status Append(absl::string_view bytes) override { return file_.Append(bytes); }
  absl::Status Close() override { return file_.Close(); }

 private:
  BufferedFile file_;
};

// The first 16 hexadecimal digits of the kernel's id of this boot; empty if it has none.
std::string BootId() {
  // A stream of the C++ library: tests that make system calls fail count those of files that are written.
  std::string text;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> text;
  std::string id;
  for (const char c : text) {
    if (absl::ascii_isxdigit(static_cast<unsigned char>(c)) && id.size() < 16) id += c;
  }
  return id.size() == 16 ? id : "";
}

// Beginning of the names of files that are locked while they are written. Boots differ, and a lock is only sure to be
// seen by the kernel that holds it.
std::string LockedPrefix() {
  static const std::string& boot = *new std::string(BootId());
  return boot.empty() ? "" : absl::StrCat(kUnpublishedPrefix, boot, "-");
}

// The lock is that of the open file: it goes on until `file` and `lock` are closed, and ends with the process.
struct TemporaryFile {
  std::string path;
  FileDescriptor file, lock;
};

// Locks a new file. False: its file system has no locks, or RemoveAbandonedFiles has come in between.
bool Lock(TemporaryFile& file) {
  if (RetryInterrupted([&] { return ::flock(file.file.get(), LOCK_EX | LOCK_NB); }) != 0) {
    return false;
  }
  struct stat info;
  if (::fstat(file.file.get(), &info) != 0 || info.st_nlink == 0) return false;
  file.lock = FileDescriptor(::fcntl(file.file.get(), F_DUPFD_CLOEXEC, 0));
  return file.lock.valid();
}

absl::StatusOr<TemporaryFile> MakeTemporaryFile(const std::string& uri, const std::string& folder) {
  std::string prefix = LockedPrefix();
  for (int attempt = 0;; ++attempt) {
    const bool locked = !prefix.empty();
    TemporaryFile made;
    made.path = JoinPath(folder, absl::StrCat(locked ? prefix : std::string(kUnpublishedPrefix),
                                              absl::Hex(base::EntropySeed()), kUnpublishedSuffix));
    made.file = FileDescriptor(RetryInterrupted(
        [&] { return ::open(made.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); }));
    if (!made.file.valid() && errno == EEXIST && attempt < 100) continue;
    if (!made.file.valid()) return PathError(errno, "create", uri, folder);
    if (!locked || Lock(made)) return made;
    ::unlink(made.path.c_str());
    if (attempt > 2) prefix.clear();  // under another name it is never taken for abandoned
  }
}

class LocalOutputStream : public OutputStream {
 public:
  LocalOutputStream(std::string uri, std::string target, TemporaryFile temporary)
      : OutputStream(uri),
        target_(std::move(target)),
        temporary_(std::move(temporary.path)),
        lock_(std::move(temporary.lock)),
        file_(std::move(temporary.file), std::move(uri)) {}

  ~LocalOutputStream() override {
    if (!published_) ::unlink(temporary_.c_str());
  }

  absl::Status Append(absl::string_view bytes) override {
    if (status_.ok()) status_ = file_.Append(bytes);
    return status_;
  }

  absl::Status Close() override {
    PENSTOCK_RETURN_IF_ERROR(status_);
    status_ = absl::FailedPreconditionError(absl::StrCat("'", uri(), "' is already closed"));
    PENSTOCK_RETURN_IF_ERROR(file_.Flush());
    if (!Sync(file_.fd())) return PosixError(errno, "flush to disk", uri());
    PENSTOCK_RETURN_IF_ERROR(file_.Close());
    if (RetryInterrupted([&] { return ::rename(temporary_.c_str(), target_.c_str()); }) != 0) {
      return PathError(errno, "publish", uri(), Dirname(target_));
    }
    published_ = true;
    return SyncFolder(Dirname(target_), uri());
  }

 private:
  const std::string target_;
  const std::string temporary_;
  const FileDescriptor lock_;  // until it is renamed
  BufferedFile file_;
  absl::Status status_;
  bool published_ = false;
};

// Resolves links, so that the link stays and its target is created or replaced. The target's folder
// is not created: it may belong to a disk that is not mounted.
absl::StatusOr<std::string> FollowLinks(const std::string& path, const std::string& uri) {
  constexpr int kMaxLinks = 40;  // the kernel's limit
  std::string target = path;
  struct stat info;
  for (int i = 0; i < kMaxLinks; ++i) {
    const int looked = RetryInterrupted([&] { return ::lstat(target.c_str(), &info); });
    if (looked != 0 && errno != ENOENT) return PosixError(errno, "create", uri);
    if (looked == 0 && S_ISLNK(info.st_mode)) {
      std::error_code error;
      const std::string next = std::filesystem::read_symlink(target, error).string();
      if (error) return PosixError(error.value(), "create", uri);
      target = next[0] == '/' ? next : JoinPath(Dirname(target), next);
      continue;
    }
    const std::string folder = Dirname(target);
    if (target != path && RetryInterrupted([&] { return ::stat(folder.c_str(), &info); }) != 0) {
      return PathError(errno, "create", uri, path);
    }
    return target;
  }
  return PosixError(ELOOP, "create", uri);
}

// Opens something that exists and is not a regular file; it cannot be replaced by rename. A pipe
// without a reader would block forever, and a disk must not be overwritten by mistake.
absl::StatusOr<std::unique_ptr<OutputStream>> OpenAsItIs(std::string uri, const std::string& path,
                                                         mode_t mode) {
  const auto refuse = [&](const char* why) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot write to '", uri, "': it is ", NameOfFileType(mode), why));
  };
  if (S_ISSOCK(mode) || S_ISBLK(mode)) return refuse("");
  FileDescriptor fd(RetryInterrupted(
      [&] { return ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC); }));
  if (!fd.valid() && errno == ENXIO && S_ISFIFO(mode)) {
    return refuse(", and no process is reading from it");
  }
  if (!fd.valid()) return PathError(errno, "open", uri, path);
  PENSTOCK_RETURN_IF_ERROR(SetBlocking(fd, uri));
  return std::make_unique<DirectOutputStream>(std::move(uri), std::move(fd));
}

}  // namespace

bool IsUnpublished(absl::string_view basename) {
  return absl::StartsWith(basename, kUnpublishedPrefix) &&
         absl::EndsWith(basename, kUnpublishedSuffix);
}

void RemoveAbandonedFiles(const std::string& folder) {
  const std::string prefix = LockedPrefix();
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  if (prefix.empty() || error) return;
  for (; entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    const std::string path = entries->path().string();
    const std::string name = entries->path().filename().string();
    if (!absl::StartsWith(name, prefix) || !IsUnpublished(name)) continue;
    const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat info, named;
    if (!file.valid() || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) continue;  // it is being written
    // Its writer may have renamed it meanwhile; names are random, so no other file has got this one.
    const bool same = ::lstat(path.c_str(), &named) == 0 && named.st_ino == info.st_ino &&
                      named.st_dev == info.st_dev;
    if (same) ::unlink(path.c_str());
  }
}

absl::Status CreateLocalFolders(const std::string& uri, const std::string& path) {
  struct stat info;
  if (RetryInterrupted([&] { return ::stat(path.c_str(), &info); }) == 0) {
    return S_ISDIR(info.st_mode) ? absl::OkStatus() : PosixError(ENOTDIR, "make the folder", uri);
  }
  if (errno != ENOENT) return PosixError(errno, "make the folder", uri);
  // A dangling link to a disk that is not mounted: do not create a folder in its place.
  if (::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) {
    return PathError(ENOENT, "make the folder", uri, path);
  }
  const std::string parent = Dirname(path);
  if (parent == path) return PosixError(ENOENT, "make the folder", uri);
  PENSTOCK_RETURN_IF_ERROR(CreateLocalFolders(uri, parent));
  if (RetryInterrupted([&] { return ::mkdir(path.c_str(), 0777); }) != 0 && errno != EEXIST) {
    return PathError(errno, "make the folder", uri, parent);
  }
  return SyncFolder(parent, uri);
}

absl::StatusOr<std::unique_ptr<OutputStream>> CreateLocalFile(std::string uri, std::string path) {
  if (path.back() == '/') return IsAFolderError(uri);
  struct stat info;
  const bool exists = RetryInterrupted([&] { return ::stat(path.c_str(), &info); }) == 0;
  if (!exists && errno != ENOENT) return PosixError(errno, "create", uri);
  if (exists && S_ISDIR(info.st_mode)) return IsAFolderError(uri);
  if (exists && !S_ISREG(info.st_mode)) return OpenAsItIs(std::move(uri), path, info.st_mode);
  PENSTOCK_ASSIGN_OR_RETURN(path, FollowLinks(path, uri));
  const std::string folder = Dirname(path);
  PENSTOCK_RETURN_IF_ERROR(CreateLocalFolders(uri, folder));
  PENSTOCK_ASSIGN_OR_RETURN(TemporaryFile temporary, MakeTemporaryFile(uri, folder));
  const int file = temporary.file.get();
  auto out = std::make_unique<LocalOutputStream>(uri, path, std::move(temporary));
  if (exists && RetryInterrupted([&] { return ::fchmod(file, info.st_mode & 07777); }) != 0) {
    return PosixError(errno, "set the permissions of", uri);
  }
  return out;
}

}  // namespace penstock::io
