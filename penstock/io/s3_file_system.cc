#include "penstock/io/s3_file_system.h"

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/io/aws_credentials.h"
#include "penstock/io/environment.h"
#include "penstock/io/s3_reader.h"

namespace penstock::io {
namespace {

class S3FileSystem : public ObjectFileSystem {
 public:
  S3FileSystem(std::shared_ptr<FileSystem> others, S3FileSystemOptions options)
      : ObjectFileSystem("s3", std::move(others), options), options_(std::move(options)) {}

 private:
  absl::StatusOr<std::shared_ptr<ObjectReader>> ReaderFor(const Uri& uri) override {
    std::lock_guard lock(mutex_);
    const std::string key = absl::StrCat(uri.user, "@", uri.bucket, "?", uri.options);
    if (const auto it = readers_.find(key); it != readers_.end()) return it->second;
    PENSTOCK_ASSIGN_OR_RETURN(auto reader, MakeReader(uri));
    return readers_[key] = std::move(reader);
  }

  absl::StatusOr<std::shared_ptr<ObjectReader>> MakeReader(const Uri& uri) {
    if (absl::StrContains(uri.options, "tls_")) return nullptr;
    PENSTOCK_ASSIGN_OR_RETURN(AwsCredentials credentials, FindAwsCredentials(uri));
    if (credentials.elsewhere) return nullptr;
    if (http_ == nullptr) http_ = std::make_shared<HttpClient>(options_.http);
    return std::make_shared<S3Reader>(http_, ServerOf(uri, credentials.region),
                                      std::move(credentials.key), options_.retry_limit_seconds,
                                      base::MixSeeds(options_.seed, readers_.size()));
  }

  S3Server ServerOf(const Uri& uri, std::string region) {
    region = OptionValue(uri, "region").value_or(region);
    S3Server server{.scheme = OptionValue(uri, "scheme").value_or("https"),
                    .host = OptionValue(uri, "endpoint_override").value_or("")};
    // "https://minio.example:9000", or nothing.
    if (absl::string_view url = FirstOfEnvironment({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
        server.host.empty() && !url.empty()) {
      if (absl::ConsumePrefix(&url, "http://")) server.scheme = "http";
      absl::ConsumePrefix(&url, "https://");
      server.host = std::string(url.substr(0, url.find('/')));
    }
    if (!server.host.empty()) {
      if (!region.empty()) server.region = region;
      return server;
    }
    server.region = region.empty() ? AskForRegion(uri) : region;
    // Certificates are for one step of a name.
    server.bucket_in_host = !absl::StrContains(uri.bucket, ".");
    server.host = absl::StrCat("s3.", server.region, ".amazonaws.com",
                               absl::StartsWith(server.region, "cn-") ? ".cn" : "");
    return server;
  }

  // Told to everybody, whether he may read the bucket or not.
  std::string AskForRegion(const Uri& uri) {
    const HttpAnswer answer =
        http_->Fetch({.url = absl::StrCat("https://s3.amazonaws.com/", uri.bucket), .head = true});
    return answer.bucket_region.empty() ? "us-east-1" : answer.bucket_region;
  }

  const S3FileSystemOptions options_;

  std::mutex mutex_;
  // Guarded by mutex_.
  std::shared_ptr<HttpClient> http_;
  std::map<std::string, std::shared_ptr<ObjectReader>> readers_;  // null: the others read
};

}  // namespace

std::shared_ptr<FileSystem> MakeS3FileSystem(std::shared_ptr<FileSystem> others,
                                             S3FileSystemOptions options) {
  return std::make_shared<S3FileSystem>(std::move(others), std::move(options));
}

}  // namespace penstock::io
