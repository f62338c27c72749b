#include "penstock/io/s3/s3_file_system.h"

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/io/environment.h"
#include "penstock/io/http/http_retry.h"
#include "penstock/io/http/percent_encoding.h"
#include "penstock/io/s3/aws_credentials.h"
#include "penstock/io/s3/s3_reader.h"

namespace penstock::io {
namespace {

class S3FileSystem : public ObjectFileSystem {
 public:
  S3FileSystem(std::shared_ptr<FileSystem> others, S3FileSystemOptions options)
      : ObjectFileSystem("s3", std::move(others), options), options_(std::move(options)) {}

 private:
  absl::StatusOr<std::shared_ptr<ObjectReader>> ReaderFor(const Uri& uri) override {
    const std::string key = absl::StrCat(uri.user, "@", uri.bucket, "?", uri.options);
    std::shared_ptr<HttpClient> http;
    {
      std::lock_guard lock(mutex_);
      if (const auto it = readers_.find(key); it != readers_.end()) return it->second;
      if (http_ == nullptr) http_ = std::make_shared<HttpClient>(options_.http);
      http = http_;
    }
    // May block on the network, so it runs without the lock.
    PENSTOCK_ASSIGN_OR_RETURN(auto reader, MakeReader(uri, http));
    // Credentials that only Arrow can obtain now may be in a file later.
    if (reader == nullptr) return nullptr;
    std::lock_guard lock(mutex_);
    return readers_.emplace(key, std::move(reader)).first->second;
  }

  absl::StatusOr<std::shared_ptr<ObjectReader>> MakeReader(const Uri& uri,
                                                           std::shared_ptr<HttpClient> http) {
    if (absl::StrContains(uri.options, "tls_")) return nullptr;
    PENSTOCK_ASSIGN_OR_RETURN(AwsCredentials credentials, FindAwsCredentials(uri));
    if (credentials.needs_aws_client) return nullptr;
    PENSTOCK_ASSIGN_OR_RETURN(S3Server server, ServerOf(uri, credentials.region, *http));
    auto keys = std::make_shared<AwsKeys>(uri, std::move(credentials), http->clock());
    return std::make_shared<S3Reader>(std::move(http), std::move(server), std::move(keys),
                                      options_.retry_limit_seconds, SeedOf(uri));
  }

  absl::StatusOr<S3Server> ServerOf(const Uri& uri, std::string region, HttpClient& http) {
    region = OptionValue(uri, "region").value_or(region);
    S3Server server{.scheme = OptionValue(uri, "scheme").value_or("https"),
                    .host = OptionValue(uri, "endpoint_override").value_or("")};
    // Parses a URL such as "https://minio.example:9000", or nothing.
    if (absl::string_view url = FirstEnvironmentValue({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
        server.host.empty() && !url.empty()) {
      if (absl::ConsumePrefix(&url, "http://")) server.scheme = "http";
      absl::ConsumePrefix(&url, "https://");
      server.host = std::string(url.substr(0, url.find('/')));
    }
    if (!server.host.empty()) {
      if (!region.empty()) server.region = region;
      return server;
    }
    if (region.empty()) {
      PENSTOCK_ASSIGN_OR_RETURN(region, AskForRegion(uri, http));
    }
    server.region = region;
    // Wildcard certificates cover one label of a host name, so a bucket with dots goes into the
    // path.
    server.bucket_in_host = !absl::StrContains(uri.bucket, ".");
    server.host = absl::StrCat("s3.", server.region, ".amazonaws.com",
                               absl::StartsWith(server.region, "cn-") ? ".cn" : "");
    return server;
  }

  // S3 reports the region to every caller, with or without permission to read the bucket, even with
  // an error status. A bucket that does not exist has no region; any region reports it as missing.
  absl::StatusOr<std::string> AskForRegion(const Uri& uri, HttpClient& http) {
    const std::string doing = absl::StrCat("determine the region of 's3://", uri.bucket, "'");
    HttpRetry retry(http, options_.retry_limit_seconds, SeedOf(uri), doing);
    double delay = 0;
    for (;;) {
      HttpResponse response =
          http.Fetch({.url = absl::StrCat(options_.s3_region_url, "/", PercentEncode(uri.bucket)),
                      .head = true,
                      .delay_seconds = delay,
                      .wait = retry.wait()});
      if (response.outcome == HttpResponse::Outcome::kComplete) {
        if (!response.bucket_region.empty()) return response.bucket_region;
        if (response.status == 404 && !response.request_id.empty()) return std::string("us-east-1");
        if (!IsRetryable(response)) {
          response.error = absl::StrCat(DescribeOutcome(response), ", without a region");
          response.outcome = HttpResponse::Outcome::kNotFromService;
        }
      }
      const std::optional<double> next =
          IsRetryable(response) ? retry.NextDelay(response) : std::nullopt;
      if (!next) {
        return absl::UnavailableError(absl::StrCat(
            "cannot ", doing, ": ", DescribeOutcome(response), "; attempt ", retry.attempts(),
            "; check the network, or set the region with AWS_REGION or the option region"));
      }
      delay = *next;
    }
  }

  uint64_t SeedOf(const Uri& uri) const {
    return base::MixSeeds(options_.seed, std::hash<std::string>()(uri.bucket));
  }

  const S3FileSystemOptions options_;

  std::mutex mutex_;
  // Guarded by mutex_.
  std::shared_ptr<HttpClient> http_;
  std::map<std::string, std::shared_ptr<ObjectReader>> readers_;
};

}  // namespace

std::shared_ptr<FileSystem> MakeS3FileSystem(std::shared_ptr<FileSystem> others,
                                             S3FileSystemOptions options) {
  return std::make_shared<S3FileSystem>(std::move(others), std::move(options));
}

}  // namespace penstock::io
