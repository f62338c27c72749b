#include "penstock/io/local/local_file_system.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include <fcntl.h>
#include <sys/stat.h>

#include "penstock/base/status.h"
#include "penstock/io/local/file_descriptor.h"
#include "penstock/io/local/local_output_stream.h"
#include "penstock/io/local/open_local_file.h"
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
      if (n == 0) {
        const int64_t end = offset + static_cast<int64_t>(done);
        if (offset < size()) PENSTOCK_RETURN_IF_ERROR(CheckEnd(fd_.get(), end, size(), uri()));
        break;
      }
      done += n;
    }
    return static_cast<int64_t>(done);
  }

 private:
  const FileDescriptor fd_;
};

class LocalInputStream : public InputStream {
 public:
  LocalInputStream(std::string uri, OpenedFile file)
      : InputStream(std::move(uri)), file_(std::move(file)) {
    // Doubles the kernel's read-ahead. Fails on pipes, which is harmless.
    ::posix_fadvise(file_.fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  }

  absl::StatusOr<int64_t> Read(absl::Span<char> out) override {
    size_t done = TakeReadAhead(out);
    while (done < out.size()) {
      const ssize_t n = ::read(file_.fd.get(), out.data() + done, out.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return PosixError(errno, "read", uri());
      if (n == 0) {
        const int64_t end = position_ + static_cast<int64_t>(done);
        PENSTOCK_RETURN_IF_ERROR(CheckEnd(file_.fd.get(), end, file_.info.st_size, uri()));
        break;
      }
      done += n;
    }
    position_ += static_cast<int64_t>(done);
    return static_cast<int64_t>(done);
  }

 private:
  size_t TakeReadAhead(absl::Span<char> out) {
    const size_t n = file_.read_ahead.copy(out.data(), out.size());
    file_.read_ahead.erase(0, n);
    return n;
  }

  OpenedFile file_;
  int64_t position_ = 0;
};

FileInfo ToFileInfo(std::string uri, const struct stat& info) {
  const bool is_directory = S_ISDIR(info.st_mode);
  return {.uri = std::move(uri),
          .is_directory = is_directory,
          .size = is_directory ? 0 : info.st_size,
          .modified_unix_seconds = info.st_mtim.tv_sec + info.st_mtim.tv_nsec * 1e-9,
          .device = info.st_dev,
          .inode = info.st_ino};
}

bool ByUri(const FileInfo& a, const FileInfo& b) { return a.uri < b.uri; }

// Calls visit(FileInfo) for each entry of a folder except unpublished files.
template <typename Visit>
absl::Status ForEachEntry(const std::string& path, const std::string& uri, Visit visit) {
  OpenFolder folder;
  do {
    folder.reset(::opendir(path.c_str()));
  } while (folder == nullptr && errno == EINTR);
  if (folder == nullptr) return PathError(errno, "list", uri, path);
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(folder.get());
    if (entry == nullptr && errno == EINTR) continue;
    if (entry == nullptr) break;
    const absl::string_view name = entry->d_name;
    if (name == "." || name == ".." || IsUnpublished(name)) continue;
    const int fd = ::dirfd(folder.get());
    struct stat info;
    const auto look = [&](struct stat* at, int flags) {
      return RetryInterrupted([&] { return ::fstatat(fd, entry->d_name, at, flags); });
    };
    if (look(&info, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;  // removed since
      return PosixError(errno, "stat", JoinPath(uri, name));
    }
    const bool is_link = S_ISLNK(info.st_mode);
    // A dangling link is listed as a file. If its target cannot be determined (a failing disk or
    // server), omitting it, or treating a folder as a file, would lose data.
    struct stat target;
    if (is_link && look(&target, 0) == 0) {
      info = target;
    } else if (is_link && errno != ENOENT && errno != ELOOP && errno != ENOTDIR) {
      return PosixError(errno, "stat", JoinPath(uri, name));
    }
    FileInfo found = ToFileInfo(JoinPath(uri, name), info);
    found.is_link = is_link;
    visit(std::move(found));
  }
  return errno == 0 ? absl::OkStatus() : PosixError(errno, "list", uri);
}

// Lists all files below a folder, following links to folders, visiting each folder once.
class TreeWalk {
 public:
  absl::Status Run(const std::string& path, FileInfo root) {
    PENSTOCK_RETURN_IF_ERROR(Enter(path, root, /*is_root=*/true));
    // Links are followed after all real folders have been visited, in name order, so that the same
    // tree always gives the same files.
    while (!links_.empty()) {
      std::vector<Folder> links = std::move(links_);
      links_.clear();
      std::sort(links.begin(), links.end(),
                [](const Folder& a, const Folder& b) { return ByUri(a.info, b.info); });
      for (const Folder& link : links) PENSTOCK_RETURN_IF_ERROR(Enter(link.path, link.info));
    }
    return absl::OkStatus();
  }

  std::vector<FileInfo> TakeSorted() {
    std::sort(files_.begin(), files_.end(), ByUri);
    return std::move(files_);
  }

 private:
  struct Folder {
    std::string path;
    FileInfo info;
  };

  absl::Status Enter(const std::string& path, const FileInfo& info, bool is_root = false) {
    if (!entered_.insert({info.device, info.inode}).second) return absl::OkStatus();
    std::vector<Folder> folders;
    const absl::Status status = ForEachEntry(path, info.uri, [&](FileInfo entry) {
      if (!entry.is_directory) return files_.push_back(std::move(entry));
      Folder folder{JoinPath(path, Basename(entry.uri)), std::move(entry)};
      (folder.info.is_link ? links_ : folders).push_back(std::move(folder));
    });
    if (absl::IsNotFound(status) && !is_root) return absl::OkStatus();  // removed since
    PENSTOCK_RETURN_IF_ERROR(status);
    for (const Folder& folder : folders) PENSTOCK_RETURN_IF_ERROR(Enter(folder.path, folder.info));
    return absl::OkStatus();
  }

  std::set<std::pair<uint64_t, uint64_t>> entered_;  // devices and inodes
  std::vector<Folder> links_;
  std::vector<FileInfo> files_;
};

class LocalFileSystem : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenRandomAccess(
      absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string path, PathOf(uri));
    PENSTOCK_ASSIGN_OR_RETURN(OpenedFile file, OpenRegularFile(path, uri));
    return std::make_unique<LocalRandomAccessFile>(std::string(uri), file.info.st_size,
                                                   std::move(file.fd));
  }

  absl::StatusOr<std::unique_ptr<InputStream>> OpenInput(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string path, PathOf(uri));
    PENSTOCK_ASSIGN_OR_RETURN(OpenedFile file, OpenStreamable(path, uri));
    return std::make_unique<LocalInputStream>(std::string(uri), std::move(file));
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
    PENSTOCK_RETURN_IF_ERROR(ForEachEntry(
        path, std::string(uri), [&](FileInfo entry) { out.push_back(std::move(entry)); }));
    std::sort(out.begin(), out.end(), ByUri);
    return out;
  }

  absl::StatusOr<std::vector<FileInfo>> ListRecursive(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string path, PathOf(uri));
    PENSTOCK_ASSIGN_OR_RETURN(const struct stat info, StatPath(path, uri));
    TreeWalk walk;
    PENSTOCK_RETURN_IF_ERROR(walk.Run(path, ToFileInfo(std::string(uri), info)));
    return walk.TakeSorted();
  }

  absl::Status Remove(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string path, PathOf(uri));
    struct stat info;
    if (::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return IsAFolderError(uri);
    if (RetryInterrupted([&] { return ::unlink(path.c_str()); }) != 0) {
      return PathError(errno, "remove", uri, path);
    }
    return absl::OkStatus();
  }

  absl::Status RemoveRecursively(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(std::string path, PathOf(uri));
    // "link/" would refer to the target of the link.
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    if (path == "/") return absl::InvalidArgumentError("refusing to remove '/'");
    struct stat info;
    if (RetryInterrupted([&] { return ::lstat(path.c_str(), &info); }) != 0) {
      return PathError(errno, "remove", uri, path);
    }
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
  static absl::StatusOr<std::string> PathOf(absl::string_view text) {
    PENSTOCK_ASSIGN_OR_RETURN(Uri uri, ParseUri(text));
    if (uri.is_local()) return std::move(uri.path);
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not a local file"));
  }

  // Normalizes "/data/" to "/data", as List returns it.
  static std::string FolderUri(absl::string_view uri) {
    while (uri.size() > 1 && uri.back() == '/' && uri.substr(uri.size() - 2) != "//") {
      uri.remove_suffix(1);
    }
    return std::string(uri);
  }

  static absl::StatusOr<struct stat> StatPath(const std::string& path, absl::string_view uri) {
    struct stat info;
    if (RetryInterrupted([&] { return ::stat(path.c_str(), &info); }) != 0) {
      return PathError(errno, "stat", uri, path);
    }
    return info;
  }
};

}  // namespace

std::shared_ptr<FileSystem> MakeLocalFileSystem() { return std::make_shared<LocalFileSystem>(); }

}  // namespace penstock::io
