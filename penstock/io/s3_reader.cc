#include "penstock/io/s3_reader.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/io/percent_encoding.h"

namespace penstock::io {
namespace {

// <Error><Code>AccessDenied</Code><Message>Access Denied</Message>...
std::string S3MessageOf(const std::string& body) {
  constexpr absl::string_view kBegin = "<Message>";
  const size_t begin = body.find(kBegin.data());
  if (begin == std::string::npos) return "";
  const size_t end = body.find("</Message>", begin);
  if (end == std::string::npos) return "";
  return body.substr(begin + kBegin.size(), end - begin - kBegin.size());
}

std::string ETagOf(const HttpAnswer& answer) { return answer.etag; }

constexpr ObjectService kS3 = {
    .version_of = &ETagOf,
    .version_name = "ETag",
    .message_of = &S3MessageOf,
};

}  // namespace

// Makes requests; any thread may.
class S3Reader::Signer {
 public:
  Signer(S3Server server, std::optional<AwsKey> key, base::Clock* clock)
      : server_(std::move(server)), key_(std::move(key)), clock_(clock) {}

  HttpRequest Make(const Uri& uri, const char* method,
                   std::map<std::string, std::string> headers) const {
    const std::string path =
        absl::StrCat(server_.bucket_in_host ? "" : absl::StrCat("/", PercentEncode(uri.bucket)),
                     "/", PercentEncode(uri.path, /*keep_slashes=*/true));
    const std::string host =
        server_.bucket_in_host ? absl::StrCat(uri.bucket, ".", server_.host) : server_.host;
    HttpRequest request{.url = absl::StrCat(server_.scheme, "://", host, path)};
    request.head = absl::string_view(method) == "HEAD";
    if (!key_) {
      for (const auto& [name, value] : headers) {
        request.headers.push_back(absl::StrCat(name, ": ", value));
      }
      return request;
    }
    request.headers = SignAwsRequest({.method = method,
                                      .host = WithoutDefaultPort(host),
                                      .path = path,
                                      .headers = std::move(headers),
                                      .region = server_.region},
                                     *key_, clock_->UnixSeconds());
    return request;
  }

 private:
  // As the client sends it.
  std::string WithoutDefaultPort(absl::string_view host) const {
    (void)(server_.scheme == "https" ? absl::ConsumeSuffix(&host, ":443")
                                     : absl::ConsumeSuffix(&host, ":80"));
    return std::string(host);
  }

  const S3Server server_;
  const std::optional<AwsKey> key_;
  base::Clock* const clock_;
};

S3Reader::S3Reader(std::shared_ptr<HttpClient> http, S3Server server, std::optional<AwsKey> key,
                   double retry_limit_seconds, uint64_t seed)
    : ObjectReader(http, kS3, retry_limit_seconds, seed),
      signer_(std::make_shared<Signer>(std::move(server), std::move(key), http->clock())) {}

absl::StatusOr<ObjectReader::RangeRequest> S3Reader::MakeRangeRequest() {
  return [signer = signer_](const StoredObject& object, int64_t begin, int64_t end) {
    std::map<std::string, std::string> headers = {
        {"range", absl::StrCat("bytes=", begin, "-", end - 1)}};
    if (!object.version.empty()) headers["if-match"] = object.version;
    return signer->Make(object.uri, "GET", std::move(headers));
  };
}

absl::StatusOr<HttpRequest> S3Reader::FindRequest(const Uri& uri) {
  return signer_->Make(uri, "HEAD", {});
}

absl::StatusOr<StoredObject> S3Reader::Found(const Uri& uri, const HttpAnswer& answer) {
  if (answer.etag.empty() || answer.length < 0) {
    return NotAStorageServiceError(uri, "the answer is no description of an object");
  }
  return StoredObject{.uri = uri, .version = answer.etag, .size = answer.length};
}

}  // namespace penstock::io
