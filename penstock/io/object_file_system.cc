#include "penstock/io/object_file_system.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/io/arrow_connections.h"
#include "penstock/io/posix_error.h"

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
    constexpr int64_t kPiece = 8 << 20;
    if (offset < 0) {
      return absl::InvalidArgumentError(absl::StrCat(uri(), ": negative offset ", offset));
    }
    out = out.first(std::min<int64_t>(out.size(), size() - std::min(offset, size())));
    if (out.empty()) return 0;
    // Lives here, because nothing leaves before all pieces have ended.
    std::mutex mutex;
    std::condition_variable ended;
    absl::Status status;
    int64_t left = (out.size() + kPiece - 1) / kPiece;
    const auto cancelled = std::make_shared<std::atomic<bool>>(false);
    for (int64_t at = 0; at < static_cast<int64_t>(out.size()); at += kPiece) {
      reader_->Read(object_,
                    {.offset = offset + at, .out = out.subspan(at, kPiece), .cancelled = cancelled},
                    [&](ObjectRangeEnd end) {
                      if (!end.status.ok() && !cancelled->exchange(true)) reader_->http().Wake();
                      std::lock_guard lock(mutex);
                      // The others are cancelled by the first.
                      if (status.ok() || absl::IsCancelled(status)) status = end.status;
                      if (--left == 0) ended.notify_one();
                    });
    }
    std::unique_lock lock(mutex);
    ended.wait(lock, [&] { return left == 0; });
    PENSTOCK_RETURN_IF_ERROR(status);
    return out.size();
  }

 private:
  const StoredObject object_;
  const std::shared_ptr<ObjectReader> reader_;
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
  auto object = reader->Find(uri);
  if (!object.ok()) return Explain(object.status(), text);
  return std::make_unique<ObjectRandomAccessFile>(std::string(text), *std::move(object),
                                                  std::move(reader));
}

absl::StatusOr<std::unique_ptr<InputStream>> ObjectFileSystem::OpenInput(absl::string_view text) {
  PENSTOCK_ASSIGN_OR_RETURN(const Uri uri, FileUri(text));
  PENSTOCK_ASSIGN_OR_RETURN(std::shared_ptr<ObjectReader> reader, ReaderFor(uri));
  if (reader == nullptr) return next().OpenInput(text);
  auto stream = OpenObjectInputStream(std::string(text), uri, std::move(reader), ahead_);
  if (!stream.ok()) return Explain(stream.status(), text);
  return stream;
}

absl::StatusOr<std::vector<FileInfo>> ObjectFileSystem::List(absl::string_view text) {
  PENSTOCK_ASSIGN_OR_RETURN(const Uri uri, UriOfScheme(text));
  PENSTOCK_ASSIGN_OR_RETURN(const std::shared_ptr<ObjectReader> reader, ReaderFor(uri));
  if (reader == nullptr || !reader->lists()) return next().List(text);
  return ListWith(*reader, uri, /*all_levels=*/false);
}

absl::StatusOr<std::vector<FileInfo>> ObjectFileSystem::ListRecursive(absl::string_view text) {
  PENSTOCK_ASSIGN_OR_RETURN(const Uri uri, UriOfScheme(text));
  PENSTOCK_ASSIGN_OR_RETURN(const std::shared_ptr<ObjectReader> reader, ReaderFor(uri));
  if (reader == nullptr || !reader->lists()) return next().ListRecursive(text);
  return ListWith(*reader, uri, /*all_levels=*/true);
}

absl::StatusOr<std::vector<FileInfo>> ObjectFileSystem::ListWith(ObjectReader& reader,
                                                                 const Uri& folder,
                                                                 bool all_levels) {
  Uri prefix = folder;
  if (absl::EndsWith(prefix.path, "/")) prefix.path.pop_back();
  const std::string text = FormatUri(prefix);
  if (!prefix.path.empty()) prefix.path += '/';
  std::map<std::string, FileInfo> found;  // by path
  bool exists = prefix.path.empty();
  const auto uri_of = [&](std::string path) {
    Uri uri = folder;
    uri.path = std::move(path);
    return FormatUri(uri);
  };
  ObjectPage page;
  do {
    PENSTOCK_ASSIGN_OR_RETURN(page, reader.ListPage(prefix, all_levels, page.next));
    exists |= !page.objects.empty() || !page.folders.empty();
    for (ObjectPage::Object& object : page.objects) {
      // "a/" is no file: it marks that there is a folder.
      if (absl::EndsWith(object.path, "/")) continue;
      FileInfo info{.uri = uri_of(object.path),
                    .size = object.size,
                    .modified_unix_seconds = object.modified_unix_seconds,
                    .version = std::move(object.version)};
      found.insert_or_assign(std::move(object.path), std::move(info));
    }
    for (std::string& path : page.folders) {
      path.pop_back();
      FileInfo info{.uri = uri_of(path), .is_directory = true};
      found.try_emplace(std::move(path), std::move(info));
    }
  } while (!page.next.empty());
  if (!exists) {
    PENSTOCK_ASSIGN_OR_RETURN(const FileInfo info, next().Stat(text));
    if (!info.is_directory) return IsAFileError(text);
  }
  std::vector<FileInfo> out;
  for (auto& [path, info] : found) out.push_back(std::move(info));
  return out;
}

absl::StatusOr<Uri> ObjectFileSystem::UriOfScheme(absl::string_view text) const {
  PENSTOCK_ASSIGN_OR_RETURN(Uri uri, ParseUri(text));
  if (uri.scheme != scheme_) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", DisplayUri(uri), "' is not ", scheme_, "://"));
  }
  PENSTOCK_RETURN_IF_ERROR(CheckOptions(uri));
  return uri;
}

absl::StatusOr<Uri> ObjectFileSystem::FileUri(absl::string_view text) const {
  PENSTOCK_ASSIGN_OR_RETURN(Uri uri, UriOfScheme(text));
  if (uri.path.empty() || absl::EndsWith(uri.path, "/")) return IsAFolderError(DisplayUri(uri));
  return uri;
}

// What is no object may be a folder: worth another question.
absl::Status ObjectFileSystem::Explain(const absl::Status& status, absl::string_view text) {
  if (!absl::IsNotFound(status)) return status;
  const auto info = next().Stat(text);
  return info.ok() && info->is_directory ? IsAFolderError(text) : status;
}

}  // namespace penstock::io
