#include "penstock/io/arrow_file_system.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <dlfcn.h>

#include <arrow/filesystem/filesystem.h>
#include <arrow/io/buffered.h>
#include <arrow/io/interfaces.h>
#include <arrow/memory_pool.h>
#include <arrow/util/io_util.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "penstock/base/status.h"
#include "penstock/io/google_credentials.h"
#include "penstock/io/posix_error.h"
#include "penstock/io/uri.h"

namespace penstock::io {
namespace {

using ArrowFs = arrow::fs::FileSystem;

// --- Arrow's errors as ours. Arrow keeps the services' codes only in the text.

struct ErrorRow {
  const char* text;
  absl::StatusCode code;
};

constexpr ErrorRow kErrors[] = {
    {"NOT_FOUND", absl::StatusCode::kNotFound},
    {"No such file or directory", absl::StatusCode::kNotFound},
    {"No such directory", absl::StatusCode::kNotFound},
    {"NO_SUCH_BUCKET", absl::StatusCode::kNotFound},
    {"NO_SUCH_KEY", absl::StatusCode::kNotFound},
    {"PERMISSION_DENIED", absl::StatusCode::kPermissionDenied},
    {"UNAUTHENTICATED", absl::StatusCode::kPermissionDenied},
    {"ACCESS_DENIED", absl::StatusCode::kPermissionDenied},
    {"INVALID_ACCESS_KEY_ID", absl::StatusCode::kPermissionDenied},
    {"SIGNATURE_DOES_NOT_MATCH", absl::StatusCode::kPermissionDenied},
    {"HTTP status 401", absl::StatusCode::kPermissionDenied},
    {"HTTP status 403", absl::StatusCode::kPermissionDenied},
    {"RESOURCE_EXHAUSTED", absl::StatusCode::kResourceExhausted},
    {"UNAVAILABLE", absl::StatusCode::kUnavailable},
    {"DEADLINE_EXCEEDED", absl::StatusCode::kUnavailable},
    {"NETWORK_CONNECTION", absl::StatusCode::kUnavailable},
    {"SLOW_DOWN", absl::StatusCode::kUnavailable},
    {"THROTTLING", absl::StatusCode::kUnavailable},
    {"Could not connect", absl::StatusCode::kUnavailable},
    {"Could not resolve", absl::StatusCode::kUnavailable},
};

absl::StatusCode CodeOf(const arrow::Status& status) {
  if (arrow::internal::ErrnoFromStatus(status) == ENOENT) return absl::StatusCode::kNotFound;
  for (const ErrorRow& row : kErrors) {
    if (absl::StrContains(status.message(), row.text)) return row.code;
  }
  if (status.IsInvalid()) return absl::StatusCode::kInvalidArgument;
  if (status.IsOutOfMemory()) return absl::StatusCode::kResourceExhausted;
  return absl::StatusCode::kUnknown;
}

absl::Status ToStatus(const arrow::Status& status, absl::string_view doing, const Uri& uri) {
  if (status.ok()) return absl::OkStatus();
  const absl::StatusCode code = CodeOf(status);
  const std::string what = absl::StrCat("cannot ", doing, " '", DisplayUri(uri), "': ");
  // What the service says, on one line.
  const std::string said =
      absl::StrJoin(absl::StrSplit(status.message(), absl::ByAnyChar("\r\n"), absl::SkipEmpty()), " ");
  switch (code) {
    case absl::StatusCode::kNotFound:
      return absl::Status(code, absl::StrCat(what, "it, or its bucket, does not exist"));
    case absl::StatusCode::kPermissionDenied:
      return absl::Status(
          code, absl::StrCat(what, "no right to it; ",
                             uri.scheme == "gs"
                                 ? "log in with 'gcloud auth application-default login' or set "
                                   "GOOGLE_APPLICATION_CREDENTIALS, and check the bucket's roles"
                                 : "set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                                   "and check the bucket's policy",
                             " (the service said: ", said, ")"));
    case absl::StatusCode::kUnavailable:
      return absl::Status(code, absl::StrCat(what, "the service did not answer; check the network (",
                                             said, ")"));
    default:
      return absl::Status(code, absl::StrCat(what, said));
  }
}

#define PENSTOCK_RETURN_IF_ARROW_ERROR(expression, doing, uri) \
  PENSTOCK_RETURN_IF_ERROR(ToStatus((expression), doing, uri))

// --- Connections: one Arrow file system for a scheme, user, bucket and options.

struct Scheme {
  const char* name;
  std::vector<absl::string_view> options;
};

const std::vector<Scheme>& Schemes() {
  static const auto* const schemes = new std::vector<Scheme>{
      {"gs",
       {"endpoint_override", "scheme", "project_id", "location", "retry_limit_seconds"}},
      {"s3",
       {"endpoint_override", "scheme", "region", "allow_bucket_creation", "allow_bucket_deletion",
        "allow_delayed_open", "smart_defaults", "tls_ca_dir_path", "tls_ca_file_path",
        "tls_verify_certificates"}},
  };
  return *schemes;
}

std::optional<absl::string_view> OptionValue(absl::string_view options, absl::string_view key) {
  for (absl::string_view option : absl::StrSplit(options, '&')) {
    const size_t equals = option.find('=');
    if (option.substr(0, equals) == key) return option.substr(equals + 1);
  }
  return std::nullopt;
}

absl::Status CheckOptions(const Uri& uri, absl::string_view text) {
  for (const Scheme& scheme : Schemes()) {
    if (scheme.name != uri.scheme) continue;
    for (absl::string_view option : absl::StrSplit(uri.options, '&', absl::SkipEmpty())) {
      const absl::string_view key = option.substr(0, option.find('='));
      if (std::find(scheme.options.begin(), scheme.options.end(), key) == scheme.options.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("'", text, "' has the option '", key, "'; ", uri.scheme, ":// has ",
                         absl::StrJoin(scheme.options, ", "),
                         ". If '?' belongs to the name, write '?&' behind it"));
      }
    }
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("'", text, "' is neither gs:// nor s3://"));
}

// s3:// stands in a module of its own, beside Arrow's library; loading it takes time and memory, so only
// those who use it do.
arrow::Status LoadS3() {
  Dl_info library;
  const auto anything_in_arrow = reinterpret_cast<const void*>(&arrow::fs::LoadFileSystemFactories);
  if (::dladdr(anything_in_arrow, &library) == 0) {
    return arrow::Status::IOError("Arrow's library was not found in this process");
  }
  const std::string module = JoinPath(Dirname(library.dli_fname), "libarrow_s3.so.2600");
  const arrow::Status loaded = arrow::fs::LoadFileSystemFactories(module.c_str());
  // The client of AWS crashes in the process's end when it was not shut down before.
  if (loaded.ok()) std::atexit([] { arrow::fs::EnsureFinalized(); });
  return loaded;
}

class Connections {
 public:
  absl::StatusOr<std::shared_ptr<ArrowFs>> For(const Uri& uri) {
    const std::string key =
        absl::StrCat(uri.scheme, "://", uri.user, "@", uri.bucket, "?", uri.options);
    std::lock_guard lock(mutex_);
    if (const auto it = open_.find(key); it != open_.end()) return it->second;
    if (uri.scheme == "s3" && !s3_loaded_) {
      PENSTOCK_RETURN_IF_ARROW_ERROR(LoadS3(), "load what s3:// needs for", uri);
      s3_loaded_ = true;
    }
    auto made = arrow::fs::FileSystemFromUri(ArrowUri(uri));
    PENSTOCK_RETURN_IF_ARROW_ERROR(made.status(), "reach", uri);
    return open_[key] = *std::move(made);
  }

 private:
  // What Arrow takes: our defaults filled in, no object's name.
  std::string ArrowUri(Uri uri) {
    uri.path.clear();
    const auto set_default = [&](absl::string_view key, absl::string_view value) {
      if (OptionValue(uri.options, key)) return;
      absl::StrAppend(&uri.options, uri.options.empty() ? "" : "&", key, "=", value);
    };
    if (uri.scheme == "gs") {
      // Arrow's own is 15 minutes of silence.
      set_default("retry_limit_seconds", "60");
      // Credentials are never sent to an endpoint without TLS, so none need be looked for.
      const bool encrypted = OptionValue(uri.options, "scheme").value_or("https") == "https";
      if (uri.user.empty() && (!encrypted || !HasGoogleCredentials())) uri.user = "anonymous";
      // Arrow takes http for anonymous users.
      set_default("scheme", "https");
    } else {
      // A small object is then one request, instead of three.
      set_default("allow_delayed_open", "true");
    }
    return FormatUri(uri);
  }

  bool HasGoogleCredentials() {
    if (!google_credentials_) google_credentials_ = GoogleCredentialsExist();
    return *google_credentials_;
  }

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<ArrowFs>> open_;
  std::optional<bool> google_credentials_;
  bool s3_loaded_ = false;
};

// --- Files.

class ArrowRandomAccessFile : public RandomAccessFile {
 public:
  ArrowRandomAccessFile(std::string text, Uri uri, int64_t size,
                        std::shared_ptr<arrow::io::RandomAccessFile> file)
      : RandomAccessFile(std::move(text), size), uri_(std::move(uri)), file_(std::move(file)) {}

  absl::StatusOr<int64_t> Read(int64_t offset, absl::Span<char> out) override {
    if (offset < 0) {
      return absl::InvalidArgumentError(absl::StrCat(uri(), ": negative offset ", offset));
    }
    // A service refuses a range that begins at the end, and any range of an empty object.
    const int64_t wanted = std::min<int64_t>(out.size(), size() - std::min(offset, size()));
    int64_t done = 0;
    while (done < wanted) {
      auto n = file_->ReadAt(offset + done, wanted - done, out.data() + done);
      PENSTOCK_RETURN_IF_ARROW_ERROR(n.status(), "read", uri_);
      if (*n == 0) {
        return absl::DataLossError(absl::StrCat(uri(), ":", offset + done,
                                                ": the file ended here, but has ", size(),
                                                " bytes; it may have been replaced"));
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
    const auto wanted = static_cast<int64_t>(out.size());
    while (done < wanted) {
      auto n = stream_->Read(wanted - done, out.data() + done);
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
  ArrowOutputStream(std::string text, Uri uri, std::string path, std::shared_ptr<ArrowFs> fs)
      : OutputStream(std::move(text)),
        uri_(std::move(uri)),
        path_(std::move(path)),
        fs_(std::move(fs)) {}

  ~ArrowOutputStream() override {
    if (stream_ != nullptr) Abandon();
  }

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
    if (status_.ok()) status_ = Send();
    PENSTOCK_RETURN_IF_ERROR(status_);
    status_ = absl::FailedPreconditionError(absl::StrCat("'", uri(), "' was closed before"));
    const std::shared_ptr<arrow::io::OutputStream> stream = std::move(stream_);
    return ToStatus(stream->Close(), "publish", uri_);
  }

 private:
  absl::Status Send() {
    if (stream_ == nullptr) {
      auto opened = fs_->OpenOutputStream(path_);
      PENSTOCK_RETURN_IF_ARROW_ERROR(opened.status(), "create", uri_);
      stream_ = *std::move(opened);
    }
    PENSTOCK_RETURN_IF_ARROW_ERROR(stream_->Write(buffer_.data(), buffer_.size()), "write to", uri_);
    buffer_.clear();
    return absl::OkStatus();
  }

  // Ends an upload that must not be published. Arrow can do so for s3://; for gs:// its streams publish
  // what they have when they are closed, aborted or destroyed, so such a stream is kept, unfinished,
  // until the process ends, and the service drops its half of it after a week.
  void Abandon() {
    if (uri_.scheme == "s3") {
      (void)stream_->Abort();  // at worst the service keeps parts that nothing names
      return;
    }
    static auto* const mutex = new std::mutex;
    static auto* const kept = new std::vector<std::shared_ptr<arrow::io::OutputStream>>;
    std::lock_guard lock(*mutex);
    kept->push_back(std::move(stream_));
  }

  const Uri uri_;
  const std::string path_;
  const std::shared_ptr<ArrowFs> fs_;
  std::string buffer_;
  std::shared_ptr<arrow::io::OutputStream> stream_;  // null until something is sent
  absl::Status status_;
};

// --- The file system.

// A URI, the connection that serves it, and the name Arrow knows it by: "bucket/folder/name".
struct Place {
  Uri uri;
  std::string path;
  std::shared_ptr<ArrowFs> fs;
};

class ArrowFileSystem : public FileSystem {
 public:
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
    auto buffered = arrow::io::BufferedInputStream::Create(
        kReadAhead, arrow::default_memory_pool(), *std::move(raw));
    if (!buffered.ok()) return Explain(buffered.status(), "open", place);
    return std::make_unique<ArrowInputStream>(std::string(uri), std::move(place.uri),
                                              *std::move(buffered));
  }

  absl::StatusOr<std::unique_ptr<OutputStream>> Create(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(Place place, FilePlace(uri));
    return std::make_unique<ArrowOutputStream>(std::string(uri), std::move(place.uri),
                                               std::move(place.path), std::move(place.fs));
  }

  absl::StatusOr<FileInfo> Stat(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(const Place place, FolderPlace(uri));
    PENSTOCK_ASSIGN_OR_RETURN(const arrow::fs::FileInfo info, Info(place));
    return ToFileInfo(info, place.uri);
  }

  absl::StatusOr<std::vector<FileInfo>> List(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(const Place place, FolderPlace(uri));
    // One level of gs:// lacks the folders that no one made explicitly; all levels tell of them.
    const bool lacks_folders = place.uri.scheme == "gs";
    PENSTOCK_ASSIGN_OR_RETURN(const auto entries, Select(place, lacks_folders));
    const size_t start = place.path.size() + 1;
    std::map<std::string, FileInfo> found;  // by path
    for (const arrow::fs::FileInfo& entry : entries) {
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
      if (entry.IsFile()) out.push_back(ToFileInfo(entry, place.uri));
    }
    return out;
  }

  absl::Status Remove(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(const Place place, FilePlace(uri));
    const arrow::Status status = place.fs->DeleteFile(place.path);
    return status.ok() ? absl::OkStatus() : Explain(status, "remove", place);
  }

  absl::Status RemoveRecursively(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(const Place place, FolderPlace(uri));
    if (place.uri.path.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("refused to remove the bucket '", uri, "'"));
    }
    PENSTOCK_ASSIGN_OR_RETURN(const arrow::fs::FileInfo info, Info(place));
    if (!info.IsDirectory()) return IsAFileError(uri);
    const absl::Status status = ToStatus(place.fs->DeleteDir(place.path), "remove", place.uri);
    // Last of all Arrow removes the object that marks the folder; there need not be one.
    return absl::IsNotFound(status) ? absl::OkStatus() : status;
  }

  absl::Status CreateFolder(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(const Place place, FolderPlace(uri));
    if (!place.uri.path.empty()) return absl::OkStatus();
    return ToStatus(place.fs->CreateDir(place.path, /*recursive=*/true), "make", place.uri);
  }

 private:
  absl::StatusOr<Place> FolderPlace(absl::string_view text) {
    Place place;
    PENSTOCK_ASSIGN_OR_RETURN(place.uri, ParseUri(text));
    PENSTOCK_RETURN_IF_ERROR(CheckOptions(place.uri, text));
    if (absl::EndsWith(place.uri.path, "/")) place.uri.path.pop_back();
    PENSTOCK_ASSIGN_OR_RETURN(place.fs, connections_.For(place.uri));
    place.path = place.uri.bucket;
    if (!place.uri.path.empty()) absl::StrAppend(&place.path, "/", place.uri.path);
    return place;
  }

  absl::StatusOr<Place> FilePlace(absl::string_view text) {
    PENSTOCK_ASSIGN_OR_RETURN(const Uri uri, ParseUri(text));
    if (uri.path.empty() || absl::EndsWith(uri.path, "/")) return IsAFolderError(text);
    return FolderPlace(text);
  }

  // What is there; NotFound when nothing is.
  static absl::StatusOr<arrow::fs::FileInfo> Info(const Place& place) {
    auto info = place.fs->GetFileInfo(place.path);
    PENSTOCK_RETURN_IF_ARROW_ERROR(info.status(), "look at", place.uri);
    if (info->type() == arrow::fs::FileType::NotFound) {
      return absl::NotFoundError(
          absl::StrCat("'", DisplayUri(place.uri), "' does not exist, or its bucket does not"));
    }
    return *std::move(info);
  }

  // A file that was not found may be a folder, and a folder a file: worth another question.
  static absl::Status Explain(const arrow::Status& error, absl::string_view doing,
                              const Place& place) {
    const absl::Status status = ToStatus(error, doing, place.uri);
    if (!absl::IsNotFound(status)) return status;
    const auto info = Info(place);
    if (!info.ok()) return status;
    if (info->IsDirectory()) return IsAFolderError(DisplayUri(place.uri));
    return doing == "list" ? IsAFileError(DisplayUri(place.uri)) : status;
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

  static FileInfo ToFileInfo(const arrow::fs::FileInfo& info, Uri uri) {
    const size_t slash = info.path().find('/');
    uri.path = slash == std::string::npos ? "" : info.path().substr(slash + 1);
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

  Connections connections_;
};

}  // namespace

std::shared_ptr<FileSystem> MakeArrowFileSystem() { return std::make_shared<ArrowFileSystem>(); }

}  // namespace penstock::io
