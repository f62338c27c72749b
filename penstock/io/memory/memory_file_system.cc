#include "penstock/io/memory/memory_file_system.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/clock.h"
#include "penstock/base/status.h"
#include "penstock/io/memory/bytes.h"
#include "penstock/io/posix_error.h"
#include "penstock/io/uri.h"

namespace penstock::io {
namespace {

struct Content {
  std::string bytes;
  double modified_unix_seconds;
};

// File contents are immutable, so readers need no lock.
struct Tree {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const Content>> files;
};

class MemoryInputStream : public InputStream {
 public:
  MemoryInputStream(std::string uri, std::shared_ptr<const Content> content)
      : InputStream(std::move(uri)), content_(std::move(content)) {}

  absl::StatusOr<int64_t> Read(absl::Span<char> out) override {
    const size_t n = content_->bytes.copy(out.data(), out.size(), position_);
    position_ += n;
    return n;
  }

 private:
  const std::shared_ptr<const Content> content_;
  size_t position_ = 0;
};

class MemoryOutputStream : public OutputStream {
 public:
  MemoryOutputStream(std::string uri, std::string name, std::shared_ptr<Tree> tree)
      : OutputStream(std::move(uri)), name_(std::move(name)), tree_(std::move(tree)) {}

  absl::Status Append(absl::string_view bytes) override {
    bytes_.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }

  absl::Status Close() override {
    if (tree_ == nullptr) {
      return absl::FailedPreconditionError(absl::StrCat("'", uri(), "' is already closed"));
    }
    auto content = std::make_shared<const Content>(
        Content{std::move(bytes_), base::Clock::Real()->UnixSeconds()});
    const std::shared_ptr<Tree> tree = std::move(tree_);
    std::lock_guard lock(tree->mutex);
    tree->files[name_] = std::move(content);
    return absl::OkStatus();
  }

 private:
  const std::string name_;
  std::shared_ptr<Tree> tree_;  // null after Close
  std::string bytes_;
};

class MemoryFileSystem : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenRandomAccess(
      absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(auto content, Find(uri));
    return std::make_unique<BytesFile>(std::string(uri), content->bytes, content);
  }

  absl::StatusOr<std::unique_ptr<InputStream>> OpenInput(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(auto content, Find(uri));
    return std::make_unique<MemoryInputStream>(std::string(uri), std::move(content));
  }

  absl::StatusOr<std::unique_ptr<OutputStream>> Create(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(std::string name, FileName(uri));
    std::lock_guard lock(tree_->mutex);
    if (IsFolder(name)) return IsAFolderError(uri);
    for (size_t slash = name.find('/'); slash != std::string::npos;
         slash = name.find('/', slash + 1)) {
      if (tree_->files.contains(name.substr(0, slash))) {
        return PosixError(ENOTDIR, "create", uri);
      }
    }
    return std::make_unique<MemoryOutputStream>(std::string(uri), std::move(name), tree_);
  }

  absl::StatusOr<FileInfo> Stat(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string name, FolderName(uri));
    std::lock_guard lock(tree_->mutex);
    if (const auto it = tree_->files.find(name); it != tree_->files.end()) return Info(*it);
    if (IsFolder(name)) return FolderInfo(name);
    return Missing(uri);
  }

  absl::StatusOr<std::vector<FileInfo>> List(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string folder, FolderName(uri));
    std::lock_guard lock(tree_->mutex);
    PENSTOCK_RETURN_IF_ERROR(CheckFolder(uri, folder));
    const std::string prefix = Prefix(folder);
    std::map<std::string, FileInfo> found;
    for (const auto& file : Below(tree_->files, prefix)) {
      const size_t slash = file.first.find('/', prefix.size());
      if (slash == std::string::npos) {
        found[file.first] = Info(file);
      } else {
        found.insert({file.first.substr(0, slash), FolderInfo(file.first.substr(0, slash))});
      }
    }
    std::vector<FileInfo> out;
    for (auto& [name, info] : found) out.push_back(std::move(info));
    return out;
  }

  absl::StatusOr<std::vector<FileInfo>> ListRecursive(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string folder, FolderName(uri));
    std::lock_guard lock(tree_->mutex);
    PENSTOCK_RETURN_IF_ERROR(CheckFolder(uri, folder));
    std::vector<FileInfo> out;
    for (const auto& file : Below(tree_->files, Prefix(folder))) out.push_back(Info(file));
    return out;
  }

  absl::Status Remove(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string name, FileName(uri));
    std::lock_guard lock(tree_->mutex);
    if (tree_->files.erase(name) > 0) return absl::OkStatus();
    return IsFolder(name) ? IsAFolderError(uri) : Missing(uri);
  }

  absl::Status RemoveRecursively(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string folder, FolderName(uri));
    if (folder.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("refusing to remove the root '", uri, "'"));
    }
    std::lock_guard lock(tree_->mutex);
    PENSTOCK_RETURN_IF_ERROR(CheckFolder(uri, folder));
    const std::string prefix = Prefix(folder);
    std::erase_if(tree_->files, [&](const auto& f) { return absl::StartsWith(f.first, prefix); });
    return absl::OkStatus();
  }

  absl::Status CreateFolder(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string folder, FolderName(uri));
    std::lock_guard lock(tree_->mutex);
    return tree_->files.contains(folder) ? IsAFileError(uri) : absl::OkStatus();
  }

 private:
  using Files = std::map<std::string, std::shared_ptr<const Content>>;

  static std::vector<Files::value_type> Below(const Files& files, const std::string& prefix) {
    std::vector<Files::value_type> out;
    for (auto it = files.lower_bound(prefix);
         it != files.end() && absl::StartsWith(it->first, prefix); ++it) {
      out.push_back(*it);
    }
    return out;
  }

  static std::string Prefix(const std::string& folder) {
    return folder.empty() ? "" : absl::StrCat(folder, "/");
  }
  static std::string UriOf(const std::string& name) { return absl::StrCat("memory://", name); }
  static FileInfo Info(const Files::value_type& file) {
    return {.uri = UriOf(file.first),
            .is_directory = false,
            .size = static_cast<int64_t>(file.second->bytes.size()),
            .modified_unix_seconds = file.second->modified_unix_seconds};
  }
  static FileInfo FolderInfo(const std::string& name) {
    return {.uri = UriOf(name), .is_directory = true, .size = 0, .modified_unix_seconds = 0};
  }
  static absl::Status Missing(absl::string_view uri) {
    return absl::NotFoundError(absl::StrCat("'", uri, "' does not exist"));
  }

  // The name without a trailing slash, which is accepted for folders and files.
  static absl::StatusOr<std::string> FolderName(absl::string_view text) {
    PENSTOCK_ASSIGN_OR_RETURN(Uri uri, ParseUri(text));
    if (uri.scheme != "memory") {
      return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not a memory:// URI"));
    }
    if (absl::EndsWith(uri.path, "/")) uri.path.pop_back();
    return std::move(uri.path);
  }
  static absl::StatusOr<std::string> FileName(absl::string_view uri) {
    PENSTOCK_ASSIGN_OR_RETURN(std::string name, FolderName(uri));
    if (name.empty() || absl::EndsWith(uri, "/")) return IsAFolderError(uri);
    return name;
  }

  // The functions below require tree_->mutex.
  bool IsFolder(const std::string& name) const {
    const std::string prefix = Prefix(name);
    const auto file = tree_->files.lower_bound(prefix);
    return name.empty() || (file != tree_->files.end() && absl::StartsWith(file->first, prefix));
  }
  absl::Status CheckFolder(absl::string_view uri, const std::string& name) const {
    if (IsFolder(name)) return absl::OkStatus();
    return tree_->files.contains(name) ? IsAFileError(uri) : Missing(uri);
  }

  absl::StatusOr<std::shared_ptr<const Content>> Find(absl::string_view uri) const {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string name, FileName(uri));
    std::lock_guard lock(tree_->mutex);
    if (const auto it = tree_->files.find(name); it != tree_->files.end()) return it->second;
    return IsFolder(name) ? IsAFolderError(uri) : Missing(uri);
  }

  const std::shared_ptr<Tree> tree_ = std::make_shared<Tree>();
};

}  // namespace

std::shared_ptr<FileSystem> MakeMemoryFileSystem() { return std::make_shared<MemoryFileSystem>(); }

}  // namespace penstock::io
