#include "penstock/io/object/object_file_system.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/base/status.h"
#include "penstock/io/posix_error.h"
#include "penstock/io/scheme_table.h"

namespace penstock::io {
namespace {

class ObjectRandomAccessFile : public RandomAccessFile {
 public:
  ObjectRandomAccessFile(std::string text, StoredObject object,
                         std::shared_ptr<ObjectReader> reader)
      : RandomAccessFile(std::move(text), object.size),
        object_(std::move(object)),
        reader_(std::move(reader)) {}

  std::string version() const override { return object_.version; }

  absl::StatusOr<int64_t> Read(int64_t offset, absl::Span<char> out) override {
    if (offset < 0) {
      return absl::InvalidArgumentError(absl::StrCat(uri(), ": negative offset ", offset));
    }
    out = out.first(std::min<int64_t>(out.size(), size() - std::min(offset, size())));
    if (out.empty()) return 0;
    ObjectRangeResult end = ReadPieces(offset, out);
    if (!end.rejected_authorization.empty() && reader_->Reauthorize(end.rejected_authorization)) {
      end = ReadPieces(offset, out);
    }
    PENSTOCK_RETURN_IF_ERROR(end.status);
    return out.size();
  }

 private:
  // Reads all pieces concurrently; returns the first failure.
  ObjectRangeResult ReadPieces(int64_t offset, absl::Span<char> out) {
    constexpr int64_t kPiece = 8 << 20;
    // May live on the stack, because this function returns only after all pieces have ended.
    std::mutex mutex;
    std::condition_variable ended;
    ObjectRangeResult first;
    int64_t left = (out.size() + kPiece - 1) / kPiece;
    const auto cancelled = std::make_shared<std::atomic<bool>>(false);
    for (int64_t at = 0; at < static_cast<int64_t>(out.size()); at += kPiece) {
      reader_->Read(object_,
                    {.offset = offset + at, .out = out.subspan(at, kPiece), .cancelled = cancelled},
                    [&](ObjectRangeResult end) {
                      if (!end.status.ok() && !cancelled->exchange(true)) reader_->http().Wake();
                      std::lock_guard lock(mutex);
                      // The first failure cancels the others.
                      if (first.status.ok() || absl::IsCancelled(first.status)) {
                        first = std::move(end);
                      }
                      if (--left == 0) ended.notify_one();
                    });
    }
    std::unique_lock lock(mutex);
    ended.wait(lock, [&] { return left == 0; });
    return first;
  }

  const StoredObject object_;
  const std::shared_ptr<ObjectReader> reader_;
};

// Counts object names that no URI can express, and reports them in one message per listing.
class UnaddressableNames {
 public:
  explicit UnaddressableNames(const Uri& prefix) : prefix_(prefix) {}
  ~UnaddressableNames() {
    if (count_ == 0) return;
    absl::FPrintF(stderr,
                  "penstock: omitting %d of the objects in '%s': their names have empty, '.' or "
                  "'..' segments or NUL bytes; the first is '%s'\n",
                  count_, DisplayUri(prefix_), first_);
  }
  UnaddressableNames(const UnaddressableNames&) = delete;
  UnaddressableNames& operator=(const UnaddressableNames&) = delete;

  void Add(const std::string& path) {
    if (count_++ == 0) first_ = absl::CHexEscape(path);
  }

 private:
  const Uri& prefix_;
  int64_t count_ = 0;
  std::string first_;
};

// Detects endless listings.
class PageOrder {
 public:
  explicit PageOrder(const Uri& prefix) : prefix_(prefix) {}

  absl::Status Check(const ObjectPage& page) {
    constexpr int kMaxEmptyPages = 10000;  // a service may skip many deleted versions
    empty_ = page.objects.empty() && page.folders.empty() ? empty_ + 1 : 0;
    if (!page.next.empty() && !seen_.insert(page.next).second) {
      return Wrong("repeats a page token");
    }
    if (empty_ > kMaxEmptyPages) return Wrong("is endless");
    return absl::OkStatus();
  }

 private:
  absl::Status Wrong(absl::string_view why) const {
    return absl::UnavailableError(absl::StrCat("cannot list '", DisplayUri(prefix_),
                                               "': the listing ", why,
                                               "; is a proxy between here and the service?"));
  }

  const Uri& prefix_;
  int empty_ = 0;
  std::set<std::string> seen_;
};

}  // namespace

ObjectFileSystem::ObjectFileSystem(std::string scheme, std::shared_ptr<FileSystem> others,
                                   const ObjectFileSystemOptions& options)
    : ForwardingFileSystem(std::move(others)), scheme_(std::move(scheme)) {
  ahead_->max_bytes = options.read_ahead_bytes;
  ahead_->max_stream_bytes = options.stream_read_ahead_bytes;
}

absl::StatusOr<std::unique_ptr<RandomAccessFile>> ObjectFileSystem::OpenRandomAccess(
    absl::string_view text) {
  PENSTOCK_ASSIGN_OR_RETURN(const Uri uri, FileUri(text));
  PENSTOCK_ASSIGN_OR_RETURN(std::shared_ptr<ObjectReader> reader, ReaderFor(uri));
  if (reader == nullptr) return next().OpenRandomAccess(text);
  auto object = reader->Stat(uri);
  if (!object.ok()) return Explain(object.status(), *reader, uri);
  return std::make_unique<ObjectRandomAccessFile>(std::string(text), *std::move(object),
                                                  std::move(reader));
}

absl::StatusOr<std::unique_ptr<InputStream>> ObjectFileSystem::OpenInput(absl::string_view text) {
  PENSTOCK_ASSIGN_OR_RETURN(const Uri uri, FileUri(text));
  PENSTOCK_ASSIGN_OR_RETURN(std::shared_ptr<ObjectReader> reader, ReaderFor(uri));
  if (reader == nullptr) return next().OpenInput(text);
  auto stream = OpenObjectInputStream(std::string(text), uri, reader, ahead_);
  if (!stream.ok()) return Explain(stream.status(), *reader, uri);
  return stream;
}

absl::StatusOr<FileInfo> ObjectFileSystem::Stat(absl::string_view text) {
  PENSTOCK_ASSIGN_OR_RETURN(Uri uri, UriOfScheme(text));
  if (absl::EndsWith(uri.path, "/")) uri.path.pop_back();
  PENSTOCK_ASSIGN_OR_RETURN(const std::shared_ptr<ObjectReader> reader, ReaderFor(uri));
  if (reader == nullptr) return next().Stat(text);
  FileInfo info{.uri = FormatUri(uri)};
  if (uri.path.empty()) {
    PENSTOCK_RETURN_IF_ERROR(reader->ListPage(uri, /*all_levels=*/false, "").status());
    info.is_directory = true;
    return info;
  }
  auto found = reader->Stat(uri);
  if (absl::IsNotFound(found.status())) {
    PENSTOCK_ASSIGN_OR_RETURN(info.is_directory, IsFolder(*reader, uri));
    if (!info.is_directory) return found.status();
    return info;
  }
  PENSTOCK_RETURN_IF_ERROR(found.status());
  info.size = found->size;
  info.modified_unix_seconds = found->modified_unix_seconds;
  info.version = std::move(found->version);
  return info;
}

absl::StatusOr<std::vector<FileInfo>> ObjectFileSystem::List(absl::string_view text) {
  PENSTOCK_ASSIGN_OR_RETURN(const Uri uri, UriOfScheme(text));
  PENSTOCK_ASSIGN_OR_RETURN(const std::shared_ptr<ObjectReader> reader, ReaderFor(uri));
  if (reader == nullptr) return next().List(text);
  return ListWith(*reader, uri, /*all_levels=*/false);
}

absl::StatusOr<std::vector<FileInfo>> ObjectFileSystem::ListRecursive(absl::string_view text) {
  PENSTOCK_ASSIGN_OR_RETURN(const Uri uri, UriOfScheme(text));
  PENSTOCK_ASSIGN_OR_RETURN(const std::shared_ptr<ObjectReader> reader, ReaderFor(uri));
  if (reader == nullptr) return next().ListRecursive(text);
  return ListWith(*reader, uri, /*all_levels=*/true);
}

absl::StatusOr<std::vector<FileInfo>> ObjectFileSystem::ListWith(ObjectReader& reader,
                                                                 const Uri& folder,
                                                                 bool all_levels) {
  Uri prefix = folder;
  if (absl::EndsWith(prefix.path, "/")) prefix.path.pop_back();
  if (!prefix.path.empty()) prefix.path += '/';
  std::map<std::string, FileInfo> found;  // by path
  bool exists = prefix.path.empty();
  const auto uri_of = [&](std::string path) {
    Uri uri = folder;
    uri.path = std::move(path);
    return FormatUri(uri);
  };
  UnaddressableNames unaddressable(prefix);
  PageOrder order(prefix);
  ObjectPage page;
  do {
    PENSTOCK_ASSIGN_OR_RETURN(page, reader.ListPage(prefix, all_levels, page.next));
    PENSTOCK_RETURN_IF_ERROR(order.Check(page));
    exists |= !page.objects.empty() || !page.folders.empty();
    for (ObjectPage::Object& object : page.objects) {
      // "a/" is not a file but a folder marker.
      const bool is_marker = absl::EndsWith(object.path, "/");
      if (is_marker && object.path == prefix.path) continue;
      if (!IsAddressable(object.path)) {
        unaddressable.Add(object.path);
        continue;
      }
      if (is_marker) continue;
      FileInfo info{.uri = uri_of(object.path),
                    .size = object.size,
                    .modified_unix_seconds = object.modified_unix_seconds,
                    .version = std::move(object.version)};
      found.insert_or_assign(std::move(object.path), std::move(info));
    }
    for (std::string& path : page.folders) {
      if (!IsAddressable(path)) {
        unaddressable.Add(path);
        continue;
      }
      path.pop_back();
      FileInfo info{.uri = uri_of(path), .is_directory = true};
      found.try_emplace(std::move(path), std::move(info));
    }
  } while (!page.next.empty());
  if (!exists) {
    Uri file = prefix;
    file.path.pop_back();
    PENSTOCK_RETURN_IF_ERROR(reader.Stat(file).status());
    return IsAFileError(DisplayUri(file));
  }
  std::vector<FileInfo> out;
  for (auto& [path, info] : found) out.push_back(std::move(info));
  return out;
}

absl::StatusOr<Uri> ObjectFileSystem::UriOfScheme(absl::string_view text) const {
  PENSTOCK_ASSIGN_OR_RETURN(Uri uri, ParseUri(text));
  if (uri.scheme != scheme_) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", DisplayUri(uri), "' is not a ", scheme_, ":// URI"));
  }
  PENSTOCK_RETURN_IF_ERROR(CheckOptions(uri));
  return uri;
}

absl::StatusOr<Uri> ObjectFileSystem::FileUri(absl::string_view text) const {
  PENSTOCK_ASSIGN_OR_RETURN(Uri uri, UriOfScheme(text));
  if (uri.path.empty() || absl::EndsWith(uri.path, "/")) return IsAFolderError(DisplayUri(uri));
  return uri;
}

absl::StatusOr<bool> ObjectFileSystem::IsFolder(ObjectReader& reader, const Uri& uri) {
  Uri folder = uri;
  folder.path += '/';
  PENSTOCK_ASSIGN_OR_RETURN(const ObjectPage page, reader.ListPage(folder, false, ""));
  return !page.objects.empty() || !page.folders.empty();
}

// A name without an object may be a folder, which takes another request to find out.
absl::Status ObjectFileSystem::Explain(const absl::Status& status, ObjectReader& reader,
                                       const Uri& uri) {
  if (!absl::IsNotFound(status)) return status;
  const auto is_folder = IsFolder(reader, uri);
  return is_folder.ok() && *is_folder ? IsAFolderError(DisplayUri(uri)) : status;
}

}  // namespace penstock::io
