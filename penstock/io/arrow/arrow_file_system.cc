#include "penstock/io/arrow/arrow_file_system.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <arrow/filesystem/filesystem.h>
#include <arrow/io/buffered.h>
#include <arrow/io/interfaces.h>
#include <arrow/memory_pool.h>

#include "penstock/base/clock.h"
#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/io/arrow/arrow_connections.h"
#include "penstock/io/arrow/arrow_status.h"
#include "penstock/io/gcs/gcs_endpoint.h"
#include "penstock/io/http/http_retry.h"
#include "penstock/io/http/network_wait.h"
#include "penstock/io/object/service_error.h"
#include "penstock/io/posix_error.h"
#include "penstock/io/uri.h"

namespace penstock::io {
namespace {

// Arrow's clients retry internally, within the limit of http_retry.h, and do not report it.
std::unique_ptr<NetworkWait> WaitFor(absl::string_view doing, const Uri& uri) {
  const double limit =
      uri.scheme == "gs" ? FindGcsEndpoint(uri).retry_limit_seconds : kLongestS3RetrySeconds;
  return std::make_unique<NetworkWait>(
      NetworkWaits::Default(), absl::StrCat(doing, " '", DisplayUri(uri), "'"),
      absl::StrCat("the service's client retries each request for about ", limit,
                   " s, longer if the service does not respond"));
}

// Retries `call` while it fails with UNAVAILABLE, per http_retry.h. The services' clients retry the
// errors that they know, but fail immediately after a response that is not from the service, such
// as a proxy's page, and when the service has lost an upload.
absl::Status RetryUnavailable(double limit_seconds, const std::function<absl::Status()>& call) {
  HttpRetry retry(base::Clock::Real(), limit_seconds, base::EntropySeed());
  for (;;) {
    absl::Status status = call();
    if (!absl::IsUnavailable(status)) return status;
    const std::optional<double> delay =
        retry.NextDelay({.outcome = HttpResponse::Outcome::kNotFromService});
    if (!delay) return status;
    std::this_thread::sleep_for(std::chrono::duration<double>(*delay));
  }
}

class ArrowRandomAccessFile : public RandomAccessFile {
 public:
  ArrowRandomAccessFile(std::string text, Uri uri, int64_t size,
                        std::shared_ptr<arrow::io::RandomAccessFile> file)
      : RandomAccessFile(std::move(text), size), uri_(std::move(uri)), file_(std::move(file)) {}

  absl::StatusOr<int64_t> Read(int64_t offset, absl::Span<char> out) override {
    if (offset < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(DisplayUri(uri_), ": negative offset ", offset));
    }
    // A service rejects a range that begins at the end, and any range of an empty object.
    const int64_t requested = std::min<int64_t>(out.size(), size() - std::min(offset, size()));
    int64_t done = 0;
    while (done < requested) {
      const auto wait = WaitFor("read", uri_);
      auto n = file_->ReadAt(offset + done, requested - done, out.data() + done);
      PENSTOCK_RETURN_IF_ARROW_ERROR(n.status(), "read", uri_);
      if (*n == 0) {
        return absl::AbortedError(
            absl::StrCat(DisplayUri(uri_), ":", offset + done, ": the file ends here, but had ",
                         size(), " bytes when it was opened; it may have been replaced"));
      }
      done += *n;
    }
    return done;
  }

 private:
  const Uri uri_;
  const std::shared_ptr<arrow::io::RandomAccessFile> file_;
};

class ArrowInputStream : public InputStream {
 public:
  ArrowInputStream(std::string text, Uri uri, std::shared_ptr<arrow::io::InputStream> stream)
      : InputStream(std::move(text)), uri_(std::move(uri)), stream_(std::move(stream)) {}

  absl::StatusOr<int64_t> Read(absl::Span<char> out) override {
    int64_t done = 0;
    const auto requested = static_cast<int64_t>(out.size());
    while (done < requested) {
      const auto wait = WaitFor("read", uri_);
      auto n = stream_->Read(requested - done, out.data() + done);
      PENSTOCK_RETURN_IF_ARROW_ERROR(n.status(), "read", uri_);
      if (*n == 0) break;
      done += *n;
    }
    return done;
  }

 private:
  const Uri uri_;
  const std::shared_ptr<arrow::io::InputStream> stream_;
};

class ArrowOutputStream : public OutputStream {
 public:
  ArrowOutputStream(std::string text, Uri uri, std::string path,
                    std::shared_ptr<arrow::fs::FileSystem> fs, double retry_limit_seconds)
      : OutputStream(std::move(text)),
        uri_(std::move(uri)),
        path_(std::move(path)),
        fs_(std::move(fs)),
        retry_limit_seconds_(retry_limit_seconds) {}

  ~ArrowOutputStream() override { Abandon(); }

  absl::Status Append(absl::string_view bytes) override {
    while (status_.ok() && !bytes.empty()) {
      const size_t room = kUploadBuffer - buffer_.size();
      const absl::string_view part = bytes.substr(0, room);
      buffer_.append(part.data(), part.size());
      bytes.remove_prefix(part.size());
      if (buffer_.size() == kUploadBuffer) status_ = Send();
    }
    return status_;
  }

  absl::Status Close() override {
    PENSTOCK_RETURN_IF_ERROR(status_);
    status_ =
        absl::FailedPreconditionError(absl::StrCat("'", DisplayUri(uri_), "' is already closed"));
    const auto wait = WaitFor("publish", uri_);
    if (sent_ > 0) {
      PENSTOCK_RETURN_IF_ERROR(SendOnce());
      return Publish();
    }
    return RetryUnavailable(retry_limit_seconds_, [&] {
      PENSTOCK_RETURN_IF_ERROR(SendOnce());
      return Publish();
    });
  }

 private:
  int64_t size() const { return sent_ + static_cast<int64_t>(buffer_.size()); }

  // AWS's client treats a page with status 200, and a response truncated in its headers, as
  // success; Google's accepts any JSON, including the metadata of an empty object. So the object's
  // size is verified. With a write-only key the acknowledgment is trusted.
  absl::Status Confirm() {
    const auto info = fs_->GetFileInfo(path_);
    const absl::Status looked = FromArrowWriting(info.status(), "confirm", uri_);
    if (absl::IsPermissionDenied(looked)) return absl::OkStatus();
    PENSTOCK_RETURN_IF_ERROR(looked);
    if (info->IsFile() && info->size() == size()) return absl::OkStatus();
    return absl::UnavailableError(
        absl::StrCat("cannot publish '", DisplayUri(uri_), "': the upload of ", size(),
                     " bytes was acknowledged, but ",
                     info->IsFile() ? absl::StrCat("the object has ", info->size(), " bytes")
                                    : "the object does not exist",
                     "; is a proxy between here and the service? Write it again"));
  }

  absl::Status Publish() {
    const std::shared_ptr<arrow::io::OutputStream> stream = std::move(stream_);
    const absl::Status status = FromArrowWriting(stream->Close(), "publish", uri_);
    if (absl::IsNotFound(status) && uri_.scheme == "gs") {
      // The bucket existed when the upload began.
      return ServiceError(absl::StatusCode::kUnavailable,
                          "the service no longer knows this upload, perhaps because its response "
                          "to the last part was lost",
                          "publish", uri_);
    }
    PENSTOCK_RETURN_IF_ERROR(status);
    return Confirm();
  }

  absl::Status Send() {
    const auto wait = WaitFor("write to", uri_);
    PENSTOCK_RETURN_IF_ERROR(sent_ > 0 ? SendOnce() : RetryUnavailable(retry_limit_seconds_, [&] {
      return SendOnce();
    }));
    sent_ += static_cast<int64_t>(buffer_.size());
    buffer_.clear();
    return absl::OkStatus();
  }

  // Sends the buffer without changing it. If nothing was sent before, a new upload begins, so this
  // can be retried. Later parts are not kept; for them only the client's own retries apply.
  absl::Status SendOnce() {
    if (sent_ == 0) {
      Abandon();
      auto opened = fs_->OpenOutputStream(path_);
      PENSTOCK_RETURN_IF_ERROR(FromArrowWriting(opened.status(), "create", uri_));
      stream_ = *std::move(opened);
    }
    return FromArrowWriting(stream_->Write(buffer_.data(), buffer_.size()), "write to", uri_);
  }

  // Abandons an upload, if one began, without publishing it. Arrow supports that for s3://. For
  // gs:// its streams publish what they have when they are closed, aborted or destroyed, so such a
  // stream is kept, unfinished, until the process exits; the service discards the incomplete upload
  // after a week.
  void Abandon() {
    const std::shared_ptr<arrow::io::OutputStream> stream = std::move(stream_);
    if (stream == nullptr) return;
    if (uri_.scheme == "s3") {
      (void)stream->Abort();  // at worst the service keeps unreferenced parts
      return;
    }
    static auto* const mutex = new std::mutex;
    static auto* const kept = new std::vector<std::shared_ptr<arrow::io::OutputStream>>;
    std::lock_guard lock(*mutex);
    kept->push_back(stream);
  }

  const Uri uri_;
  const std::string path_;
  const std::shared_ptr<arrow::fs::FileSystem> fs_;
  const double retry_limit_seconds_;
  std::string buffer_;
  int64_t sent_ = 0;                                 // bytes sent before those in buffer_
  std::shared_ptr<arrow::io::OutputStream> stream_;  // null until an upload begins
  absl::Status status_;
};

// A URI, its connection, and its name in Arrow: "bucket/folder/name". Every Arrow call that may
// wait for the network creates one first, and its lifetime delimits the reported wait.
struct Place {
  Uri uri;
  std::string path;
  std::shared_ptr<arrow::fs::FileSystem> fs;
  double retry_limit_seconds = 0;
  std::unique_ptr<NetworkWait> wait;
};

class ArrowFileSystem : public FileSystem {
 public:
  explicit ArrowFileSystem(ArrowFileSystemOptions options) : options_(options) {}

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenRandomAccess(
      absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(Place place, FilePlace(uri));
    auto file = place.fs->OpenInputFile(place.path);
    if (!file.ok()) return Explain(file.status(), "open", place);
    auto size = (*file)->GetSize();
    if (!size.ok()) return Explain(size.status(), "open", place);
    return std::make_unique<ArrowRandomAccessFile>(std::string(uri), std::move(place.uri), *size,
                                                   *std::move(file));
  }

  absl::StatusOr<std::unique_ptr<InputStream>> OpenInput(absl::string_view uri) override {
    // Arrow's s3:// sends one request for each Read of its stream.
    constexpr int64_t kReadAhead = 4 << 20;
    PENSTOCK_ASSIGN_OR_RETURN(Place place, FilePlace(uri));
    auto raw = place.fs->OpenInputStream(place.path);
    if (!raw.ok()) return Explain(raw.status(), "open", place);
    auto buffered = arrow::io::BufferedInputStream::Create(kReadAhead, arrow::default_memory_pool(),
                                                           *std::move(raw));
    if (!buffered.ok()) return Explain(buffered.status(), "open", place);
    return std::make_unique<ArrowInputStream>(std::string(uri), std::move(place.uri),
                                              *std::move(buffered));
  }

  absl::StatusOr<std::unique_ptr<OutputStream>> Create(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(Place place, FilePlace(uri));
    return std::make_unique<ArrowOutputStream>(std::string(uri), std::move(place.uri),
                                               std::move(place.path), std::move(place.fs),
                                               place.retry_limit_seconds);
  }

  absl::StatusOr<FileInfo> Stat(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(const Place place, FolderPlace(uri));
    PENSTOCK_ASSIGN_OR_RETURN(const arrow::fs::FileInfo info, Info(place));
    return ToFileInfo(info, place.uri);
  }

  absl::StatusOr<std::vector<FileInfo>> List(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(const Place place, FolderPlace(uri));
    // A one-level listing of gs:// omits folders that were not created explicitly; a recursive
    // listing reveals them.
    const bool lacks_folders = place.uri.scheme == "gs";
    PENSTOCK_ASSIGN_OR_RETURN(const auto entries, Select(place, lacks_folders));
    const size_t start = place.path.size() + 1;
    std::map<std::string, FileInfo> found;  // by path
    for (const arrow::fs::FileInfo& entry : entries) {
      if (!IsAddressable(PathBehindBucket(entry.path()))) continue;
      const size_t slash = entry.path().find('/', start);
      if (slash == std::string::npos) {
        found.insert_or_assign(entry.path(), ToFileInfo(entry, place.uri));
      } else {
        const arrow::fs::FileInfo folder(entry.path().substr(0, slash),
                                         arrow::fs::FileType::Directory);
        found.try_emplace(folder.path(), ToFileInfo(folder, place.uri));
      }
    }
    std::vector<FileInfo> out;
    for (auto& [path, info] : found) out.push_back(std::move(info));
    return out;
  }

  absl::StatusOr<std::vector<FileInfo>> ListRecursive(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(const Place place, FolderPlace(uri));
    PENSTOCK_ASSIGN_OR_RETURN(auto entries, Select(place, /*recursive=*/true));
    std::sort(entries.begin(), entries.end(), arrow::fs::FileInfo::ByPath());
    std::vector<FileInfo> out;
    for (const arrow::fs::FileInfo& entry : entries) {
      if (entry.IsFile() && IsAddressable(PathBehindBucket(entry.path()))) {
        out.push_back(ToFileInfo(entry, place.uri));
      }
    }
    return out;
  }

  absl::Status Remove(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(const Place place, FilePlace(uri));
    return RetryUnavailable(place.retry_limit_seconds, [&] {
      const arrow::Status status = place.fs->DeleteFile(place.path);
      return status.ok() ? absl::OkStatus() : Explain(status, "remove", place);
    });
  }

  absl::Status RemoveRecursively(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(const Place place, FolderPlace(uri));
    if (place.uri.path.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("refusing to remove the bucket '", DisplayUri(place.uri), "'"));
    }
    PENSTOCK_ASSIGN_OR_RETURN(const arrow::fs::FileInfo info, Info(place));
    if (!info.IsDirectory()) return IsAFileError(DisplayUri(place.uri));
    const absl::Status status = RetryUnavailable(place.retry_limit_seconds, [&] {
      return FromArrow(place.fs->DeleteDir(place.path), "remove", place.uri);
    });
    // Finally Arrow removes the folder's marker object, which may not exist.
    return absl::IsNotFound(status) ? absl::OkStatus() : status;
  }

  absl::Status CreateFolder(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(const Place place, FolderPlace(uri));
    if (!place.uri.path.empty()) return absl::OkStatus();
    return FromArrow(place.fs->CreateDir(place.path, /*recursive=*/true), "make", place.uri);
  }

 private:
  absl::StatusOr<Place> FolderPlace(absl::string_view text) {
    Place place;
    PENSTOCK_ASSIGN_OR_RETURN(place.uri, ParseUri(text));
    place.wait = WaitFor("reach", place.uri);
    if (absl::EndsWith(place.uri.path, "/")) place.uri.path.pop_back();
    PENSTOCK_ASSIGN_OR_RETURN(place.fs, connections_.For(place.uri));
    place.retry_limit_seconds = place.uri.scheme == "gs"
                                    ? FindGcsEndpoint(place.uri).retry_limit_seconds
                                    : options_.s3_retry_limit_seconds;
    place.path = place.uri.bucket;
    if (!place.uri.path.empty()) absl::StrAppend(&place.path, "/", place.uri.path);
    return place;
  }

  absl::StatusOr<Place> FilePlace(absl::string_view text) {
    PENSTOCK_ASSIGN_OR_RETURN(const Uri uri, ParseUri(text));
    if (uri.path.empty() || absl::EndsWith(uri.path, "/")) return IsAFolderError(DisplayUri(uri));
    return FolderPlace(text);
  }

  // Information about the file or folder; NotFound if there is neither.
  static absl::StatusOr<arrow::fs::FileInfo> Info(const Place& place) {
    auto info = place.fs->GetFileInfo(place.path);
    PENSTOCK_RETURN_IF_ARROW_ERROR(info.status(), "stat", place.uri);
    if (info->type() == arrow::fs::FileType::NotFound) {
      return absl::NotFoundError(
          absl::StrCat("'", DisplayUri(place.uri), "' does not exist, or its bucket does not"));
    }
    return *std::move(info);
  }

  // "Not found" may mean a folder where a file was expected or the reverse, and may come from a
  // proxy instead of the service. A second request tells which.
  static absl::Status Explain(const arrow::Status& error, absl::string_view doing,
                              const Place& place) {
    const absl::Status status = FromArrow(error, doing, place.uri);
    if (!absl::IsNotFound(status)) return status;
    const auto info = Info(place);
    if (!info.ok()) return info.status();
    if (info->IsDirectory()) return IsAFolderError(DisplayUri(place.uri));
    if (doing == "list") return IsAFileError(DisplayUri(place.uri));
    return ServiceError(
        absl::StatusCode::kUnavailable,
        "it was not found, but a second request found it; is a proxy between here and the service?",
        doing, place.uri);
  }

  static absl::StatusOr<arrow::fs::FileInfoVector> Select(const Place& place, bool recursive) {
    arrow::fs::FileSelector selector;
    selector.base_dir = place.path;
    selector.recursive = recursive;
    auto entries = place.fs->GetFileInfo(selector);
    if (entries.ok()) return *std::move(entries);
    if (absl::StrContains(entries.status().message(), "Cannot use file")) {
      return IsAFileError(DisplayUri(place.uri));
    }
    return Explain(entries.status(), "list", place);
  }

  // The part of "bucket/folder/name" after the bucket.
  static std::string PathBehindBucket(const std::string& path) {
    const size_t slash = path.find('/');
    return slash == std::string::npos ? "" : path.substr(slash + 1);
  }

  static FileInfo ToFileInfo(const arrow::fs::FileInfo& info, Uri uri) {
    uri.path = PathBehindBucket(info.path());
    FileInfo out;
    out.uri = FormatUri(uri);
    out.is_directory = info.IsDirectory();
    if (info.IsFile()) out.size = info.size();
    if (info.mtime() != arrow::fs::kNoTime) {
      out.modified_unix_seconds =
          std::chrono::duration<double>(info.mtime().time_since_epoch()).count();
    }
    return out;
  }

  const ArrowFileSystemOptions options_;
  ArrowConnections connections_;
};

}  // namespace

std::shared_ptr<FileSystem> MakeArrowFileSystem(ArrowFileSystemOptions options) {
  return std::make_shared<ArrowFileSystem>(options);
}

}  // namespace penstock::io
