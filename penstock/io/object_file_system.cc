#include "penstock/io/object_file_system.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
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

absl::StatusOr<Uri> ObjectFileSystem::FileUri(absl::string_view text) const {
  PENSTOCK_ASSIGN_OR_RETURN(Uri uri, ParseUri(text));
  if (uri.scheme != scheme_) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", DisplayUri(uri), "' is not ", scheme_, "://"));
  }
  PENSTOCK_RETURN_IF_ERROR(CheckOptions(uri));
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
