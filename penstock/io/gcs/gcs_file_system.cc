#include "penstock/io/gcs/gcs_file_system.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

#include "penstock/base/status.h"
#include "penstock/io/gcs/gcs_endpoint.h"
#include "penstock/io/gcs/gcs_reader.h"
#include "penstock/io/gcs/google_access_token.h"
#include "penstock/io/gcs/google_credentials.h"

namespace penstock::io {
namespace {

class GcsFileSystem : public ObjectFileSystem {
 public:
  GcsFileSystem(std::shared_ptr<FileSystem> others, GcsFileSystemOptions options)
      : ObjectFileSystem("gs", std::move(others), options), options_(std::move(options)) {}

 private:
  // Null if the credentials are of a kind that only the other file system can obtain.
  absl::StatusOr<std::shared_ptr<ObjectReader>> ReaderFor(const Uri& uri) override {
    const GcsEndpoint endpoint = FindGcsEndpoint(uri);
    std::lock_guard lock(mutex_);
    if (http_ == nullptr) {
      http_ = std::make_shared<HttpClient>(options_.http);
      search_ = std::make_unique<GoogleCredentialsSearch>(http_->clock());
    }
    std::shared_ptr<HttpAuthorizer> authorizer;
    if (!endpoint.anonymous) {
      PENSTOCK_RETURN_IF_ERROR(FindCredentials());
      if (others_have_credentials_) return nullptr;
      authorizer = token_;
    }
    std::shared_ptr<GcsReader>& reader =
        readers_[{endpoint.url(), endpoint.anonymous, endpoint.retry_limit_seconds}];
    if (reader == nullptr) {
      reader = std::make_shared<GcsReader>(http_, endpoint, std::move(authorizer),
                                           base::MixSeeds(options_.seed, readers_.size()));
    }
    return reader;
  }

  // Searched again until credentials are found; after an error the next call retries.
  absl::Status FindCredentials() {
    if (token_ != nullptr || others_have_credentials_ || !search_->Found()) return absl::OkStatus();
    auto token = GoogleAccessToken::FromDefaultChain(http_);
    others_have_credentials_ = absl::IsUnimplemented(token.status());
    if (others_have_credentials_) return absl::OkStatus();
    PENSTOCK_RETURN_IF_ERROR(token.status());
    token_ = *std::move(token);
    readers_.clear();  // the anonymous ones
    return absl::OkStatus();
  }

  const GcsFileSystemOptions options_;

  std::mutex mutex_;
  std::shared_ptr<HttpClient> http_;
  std::unique_ptr<GoogleCredentialsSearch> search_;
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
