#include "penstock/io/local_file_system.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include <fcntl.h>
#include <sys/stat.h>

#include "penstock/base/status.h"
#include "penstock/io/file_descriptor.h"
#include "penstock/io/local_output_stream.h"
#include "penstock/io/posix_error.h"
#include "penstock/io/uri.h"

namespace penstock::io {
namespace {

class LocalRandomAccessFile : public RandomAccessFile {
 public:
  LocalRandomAccessFile(std::string uri, int64_t size, FileDescriptor fd)
      : RandomAccessFile(std::move(uri), size), fd_(std::move(fd)) {}

  absl::StatusOr<int64_t> Read(int64_t offset, absl::Span<char> out) override {
    if (offset < 0) {
      return absl::InvalidArgumentError(absl::StrCat(uri(), ": negative offset ", offset));
    }
    size_t done = 0;
    while (done < out.size()) {
      const ssize_t n = ::pread(fd_.get(), out.data() + done, out.size() - done,
                                static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return PosixError(errno, "read", uri());
      if (n == 0) break;
      done += n;
    }
    return static_cast<int64_t>(done);
  }

 private:
  const FileDescriptor fd_;
};

class LocalInputStream : public InputStream {
 public:
  LocalInputStream(std::string uri, FileDescriptor fd)
      : InputStream(std::move(uri)), fd_(std::move(fd)) {
    // The kernel then reads ahead twice as far; pipes have no such call, which does no harm.
    ::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  }

  absl::StatusOr<int64_t> Read(absl::Span<char> out) override {
    size_t done = 0;
    while (done < out.size()) {
      const ssize_t n = ::read(fd_.get(), out.data() + done, out.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return PosixError(errno, "read", uri());
      if (n == 0) break;
      done += n;
    }
    return static_cast<int64_t>(done);
  }

 private:
  const FileDescriptor fd_;
};

FileInfo ToFileInfo(std::string uri, const struct stat& info) {
  const bool is_directory = S_ISDIR(info.st_mode);
  return {.uri = std::move(uri),
          .is_directory = is_directory,
          .size = is_directory ? 0 : info.st_size,
          .modified_unix_seconds = info.st_mtim.tv_sec + info.st_mtim.tv_nsec * 1e-9};
}

bool ByUri(const FileInfo& a, const FileInfo& b) { return a.uri < b.uri; }

// A folder being walked, and those above it.
struct Walk {
  dev_t device;
  ino_t inode;
  const Walk* above;

  bool Contains(const struct stat& info) const {
    for (const Walk* at = this; at != nullptr; at = at->above) {
      if (at->device == info.st_dev && at->inode == info.st_ino) return true;
    }
    return false;
  }
};

// Calls visit(FileInfo, stat) for each entry of a folder but the unpublished.
template <typename Visit>
absl::Status ForEachEntry(const std::string& path, const std::string& uri, Visit visit) {
  const OpenFolder folder(::opendir(path.c_str()));
  if (folder == nullptr) return PosixError(errno, "list", uri);
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(folder.get());
    if (entry == nullptr) break;
    const absl::string_view name = entry->d_name;
    if (name == "." || name == ".." || IsUnpublished(name)) continue;
    struct stat info;
    const int fd = ::dirfd(folder.get());
    if (::fstatat(fd, entry->d_name, &info, 0) != 0 &&
        ::fstatat(fd, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;  // removed since
      return PosixError(errno, "look at", JoinPath(uri, name));
    }
    PENSTOCK_RETURN_IF_ERROR(visit(ToFileInfo(JoinPath(uri, name), info), info));
  }
  return errno == 0 ? absl::OkStatus() : PosixError(errno, "list", uri);
}

absl::Status CollectFiles(const std::string& path, const std::string& uri, const Walk& walk,
                          std::vector<FileInfo>& out) {
  return ForEachEntry(path, uri, [&](FileInfo entry, const struct stat& info) {
    if (!entry.is_directory) {
      out.push_back(std::move(entry));
      return absl::OkStatus();
    }
    if (walk.Contains(info)) return absl::OkStatus();  // a link to a folder above
    return CollectFiles(JoinPath(path, Basename(entry.uri)), entry.uri,
                        Walk{info.st_dev, info.st_ino, &walk}, out);
  });
}

class LocalFileSystem : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenRandomAccess(
      absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(Opened file, Open(uri));
    if (!S_ISREG(file.info.st_mode)) {
      return absl::FailedPreconditionError(
          absl::StrCat("'", uri, "' is no regular file; it can only be read as a stream"));
    }
    return std::make_unique<LocalRandomAccessFile>(std::string(uri), file.info.st_size,
                                                   std::move(file.fd));
  }

  absl::StatusOr<std::unique_ptr<InputStream>> OpenInput(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(Opened file, Open(uri));
    return std::make_unique<LocalInputStream>(std::string(uri), std::move(file.fd));
  }

  absl::StatusOr<std::unique_ptr<OutputStream>> Create(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(std::string path, PathOf(uri));
    return CreateLocalFile(std::string(uri), std::move(path));
  }

  absl::StatusOr<FileInfo> Stat(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string path, PathOf(uri));
    PENSTOCK_ASSIGN_OR_RETURN(const struct stat info, StatPath(path, uri));
    return ToFileInfo(FolderUri(uri), info);
  }

  absl::StatusOr<std::vector<FileInfo>> List(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string path, PathOf(uri));
    std::vector<FileInfo> out;
    PENSTOCK_RETURN_IF_ERROR(
        ForEachEntry(path, std::string(uri), [&](FileInfo entry, const struct stat&) {
          out.push_back(std::move(entry));
          return absl::OkStatus();
        }));
    std::sort(out.begin(), out.end(), ByUri);
    return out;
  }

  absl::StatusOr<std::vector<FileInfo>> ListRecursive(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string path, PathOf(uri));
    PENSTOCK_ASSIGN_OR_RETURN(const struct stat info, StatPath(path, uri));
    std::vector<FileInfo> out;
    PENSTOCK_RETURN_IF_ERROR(
        CollectFiles(path, std::string(uri), Walk{info.st_dev, info.st_ino, nullptr}, out));
    std::sort(out.begin(), out.end(), ByUri);
    return out;
  }

  absl::Status Remove(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string path, PathOf(uri));
    struct stat info;
    if (::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return IsAFolderError(uri);
    if (::unlink(path.c_str()) != 0) return PosixError(errno, "remove", uri);
    return absl::OkStatus();
  }

  absl::Status RemoveRecursively(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(std::string path, PathOf(uri));
    // "link/" would mean what the link points to.
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    if (path == "/") return absl::InvalidArgumentError("refused to remove '/'");
    struct stat info;
    if (::lstat(path.c_str(), &info) != 0) return PosixError(errno, "remove", uri);
    if (!S_ISDIR(info.st_mode) && !S_ISLNK(info.st_mode)) {
      return PosixError(ENOTDIR, "remove as a folder", uri);
    }
    std::error_code error;
    std::filesystem::remove_all(path, error);
    return error ? PosixError(error.value(), "remove", uri) : absl::OkStatus();
  }

  absl::Status CreateFolder(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string path, PathOf(uri));
    return CreateLocalFolders(std::string(uri), path);
  }

 private:
  struct Opened {
    FileDescriptor fd;
    struct stat info;
  };

  static absl::StatusOr<std::string> PathOf(absl::string_view text) {
    PENSTOCK_ASSIGN_OR_RETURN(Uri uri, ParseUri(text));
    if (uri.is_local()) return std::move(uri.path);
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not a local file"));
  }

  // "/data/" as "/data": as List would return it.
  static std::string FolderUri(absl::string_view uri) {
    while (uri.size() > 1 && uri.back() == '/' && uri.substr(uri.size() - 2) != "//") {
      uri.remove_suffix(1);
    }
    return std::string(uri);
  }

  static absl::StatusOr<struct stat> StatPath(const std::string& path, absl::string_view uri) {
    struct stat info;
    if (::stat(path.c_str(), &info) != 0) return PosixError(errno, "look at", uri);
    return info;
  }

  static absl::StatusOr<Opened> Open(absl::string_view uri) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string path, PathOf(uri));
    Opened file{FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), {}};
    if (!file.fd.valid() || ::fstat(file.fd.get(), &file.info) != 0) {
      return PosixError(errno, "open", uri);
    }
    if (S_ISDIR(file.info.st_mode)) return IsAFolderError(uri);
    return file;
  }
};

}  // namespace

std::shared_ptr<FileSystem> MakeLocalFileSystem() { return std::make_shared<LocalFileSystem>(); }

}  // namespace penstock::io
