#include "penstock/io/gcs_file_system.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/io/arrow_connections.h"
#include "penstock/io/gcs_endpoint.h"
#include "penstock/io/gcs_input_stream.h"
#include "penstock/io/gcs_reader.h"
#include "penstock/io/google_access_token.h"
#include "penstock/io/google_credentials.h"
#include "penstock/io/posix_error.h"
#include "penstock/io/uri.h"

namespace penstock::io {
namespace {

class GcsRandomAccessFile : public RandomAccessFile {
 public:
  GcsRandomAccessFile(std::string text, GcsObject object, std::shared_ptr<GcsReader> reader)
      : RandomAccessFile(std::move(text), object.size),
        object_(std::move(object)),
        reader_(std::move(reader)) {}

  std::string version() const override { return absl::StrCat(object_.generation); }

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
                    [&](GcsRangeEnd end) {
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
  const GcsObject object_;
  const std::shared_ptr<GcsReader> reader_;
};

class GcsFileSystem : public FileSystem {
 public:
  GcsFileSystem(std::shared_ptr<FileSystem> others, GcsFileSystemOptions options)
      : others_(std::move(others)), options_(std::move(options)) {
    ahead_->max_bytes = options_.read_ahead_bytes;
    ahead_->max_stream_bytes = options_.stream_read_ahead_bytes;
  }

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenRandomAccess(
      absl::string_view text) override {
    PENSTOCK_ASSIGN_OR_RETURN(const Uri uri, FileUri(text));
    PENSTOCK_ASSIGN_OR_RETURN(std::shared_ptr<GcsReader> reader, ReaderFor(uri));
    if (reader == nullptr) return others_->OpenRandomAccess(text);
    auto object = reader->Find(uri);
    if (!object.ok()) return Explain(object.status(), text);
    return std::make_unique<GcsRandomAccessFile>(std::string(text), *std::move(object),
                                                 std::move(reader));
  }

  absl::StatusOr<std::unique_ptr<InputStream>> OpenInput(absl::string_view text) override {
    PENSTOCK_ASSIGN_OR_RETURN(const Uri uri, FileUri(text));
    PENSTOCK_ASSIGN_OR_RETURN(std::shared_ptr<GcsReader> reader, ReaderFor(uri));
    if (reader == nullptr) return others_->OpenInput(text);
    auto stream = OpenGcsInputStream(std::string(text), uri, std::move(reader), ahead_);
    if (!stream.ok()) return Explain(stream.status(), text);
    return stream;
  }

  absl::StatusOr<std::unique_ptr<OutputStream>> Create(absl::string_view uri) override {
    return others_->Create(uri);
  }
  absl::StatusOr<FileInfo> Stat(absl::string_view uri) override { return others_->Stat(uri); }
  absl::StatusOr<std::vector<FileInfo>> List(absl::string_view uri) override {
    return others_->List(uri);
  }
  absl::StatusOr<std::vector<FileInfo>> ListRecursive(absl::string_view uri) override {
    return others_->ListRecursive(uri);
  }
  absl::Status Remove(absl::string_view uri) override { return others_->Remove(uri); }
  absl::Status RemoveRecursively(absl::string_view uri) override {
    return others_->RemoveRecursively(uri);
  }
  absl::Status CreateFolder(absl::string_view uri) override { return others_->CreateFolder(uri); }

 private:
  static absl::StatusOr<Uri> FileUri(absl::string_view text) {
    PENSTOCK_ASSIGN_OR_RETURN(Uri uri, ParseUri(text));
    if (uri.scheme != "gs") {
      return absl::InvalidArgumentError(absl::StrCat("'", DisplayUri(uri), "' is not gs://"));
    }
    PENSTOCK_RETURN_IF_ERROR(CheckOptions(uri));
    if (uri.path.empty() || absl::EndsWith(uri.path, "/")) return IsAFolderError(DisplayUri(uri));
    return uri;
  }

  // Null when credentials are needed of a kind that only the others can get.
  absl::StatusOr<std::shared_ptr<GcsReader>> ReaderFor(const Uri& uri) {
    const GcsEndpoint endpoint = FindGcsEndpoint(uri);
    std::lock_guard lock(mutex_);
    if (http_ == nullptr) http_ = std::make_shared<HttpClient>(options_.http);
    GcsReader::Authorize authorize = [] { return std::string(); };
    if (!endpoint.anonymous) {
      PENSTOCK_RETURN_IF_ERROR(FindCredentials());
      if (others_have_credentials_) return nullptr;
      if (token_ != nullptr) authorize = [token = token_] { return token->Authorization(); };
    }
    std::shared_ptr<GcsReader>& reader =
        readers_[{endpoint.url(), endpoint.anonymous, endpoint.retry_limit_seconds}];
    if (reader == nullptr) {
      reader = std::make_shared<GcsReader>(http_, endpoint, std::move(authorize),
                                           base::MixSeeds(options_.seed, readers_.size()));
    }
    return reader;
  }

  // Once; an error is looked at again the next time.
  absl::Status FindCredentials() {
    if (looked_for_credentials_) return absl::OkStatus();
    if (GoogleCredentialsExist()) {
      auto token = GoogleAccessToken::FromDefaultChain(http_);
      others_have_credentials_ = absl::IsUnimplemented(token.status());
      if (!others_have_credentials_) {
        PENSTOCK_RETURN_IF_ERROR(token.status());
        token_ = *std::move(token);
      }
    }
    looked_for_credentials_ = true;
    return absl::OkStatus();
  }

  // What is no object may be a folder: worth another question.
  absl::Status Explain(const absl::Status& status, absl::string_view text) {
    if (!absl::IsNotFound(status)) return status;
    const auto info = others_->Stat(text);
    return info.ok() && info->is_directory ? IsAFolderError(text) : status;
  }

  const std::shared_ptr<FileSystem> others_;
  const GcsFileSystemOptions options_;
  const std::shared_ptr<ReadAhead> ahead_ = std::make_shared<ReadAhead>();

  std::mutex mutex_;
  std::shared_ptr<HttpClient> http_;
  bool looked_for_credentials_ = false;
  bool others_have_credentials_ = false;
  std::shared_ptr<GoogleAccessToken> token_;  // null: anonymous
  std::map<std::tuple<std::string, bool, double>, std::shared_ptr<GcsReader>> readers_;
};

}  // namespace

std::shared_ptr<FileSystem> MakeGcsFileSystem(std::shared_ptr<FileSystem> others,
                                              GcsFileSystemOptions options) {
  return std::make_shared<GcsFileSystem>(std::move(others), std::move(options));
}

}  // namespace penstock::io
