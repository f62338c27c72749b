#include "penstock/io/s3/s3_reader.h"

#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/io/http/percent_encoding.h"

namespace penstock::io {
namespace {

// <Error><Code>AccessDenied</Code><Message>Access Denied</Message>...
std::string S3MessageOf(const std::string& body) { return XmlText(body, "Message").value_or(""); }

std::string S3CodeOf(const HttpResponse& response) {
  if (!absl::StrContains(response.body, "<Error")) return "";
  return XmlText(response.body, "Code").value_or("");
}

bool IsS3Error(const HttpResponse& response) {
  return !response.request_id.empty() || !S3CodeOf(response).empty();
}

// https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html. A response to HEAD has no
// error code; for an expired key its status is 400.
bool RejectsS3Key(const HttpResponse& response) {
  const std::string code = S3CodeOf(response);
  return response.status == 401 || (response.status == 400 && response.body.empty()) ||
         code == "ExpiredToken" || code == "InvalidToken" || code == "TokenRefreshRequired" ||
         code == "InvalidAccessKeyId";
}

bool PassesAtS3(const HttpResponse& response) {
  const std::string code = S3CodeOf(response);
  return code == "RequestTimeout" || code == "SlowDown" || code == "InternalError";
}

std::string ETagOf(const HttpResponse& response) { return response.etag; }

constexpr ObjectService kS3 = {
    .version_of = &ETagOf,
    .version_name = "ETag",
    .error_message = &S3MessageOf,
    .is_own_error = &IsS3Error,
    .rejects_credentials = &RejectsS3Key,
    .is_transient = &PassesAtS3,
};

}  // namespace

// Creates and signs requests. Thread-safe.
class S3Reader::Signer {
 public:
  Signer(S3Server server, std::shared_ptr<AwsKeys> keys, base::Clock* clock)
      : server_(std::move(server)), keys_(std::move(keys)), clock_(clock) {}

  // `query` is "a=1&b=", names sorted, percent-encoded.
  HttpRequest Make(const Uri& uri, const char* method, std::map<std::string, std::string> headers,
                   const std::string& query = "") const {
    const std::string path =
        absl::StrCat(server_.bucket_in_host ? "" : absl::StrCat("/", PercentEncode(uri.bucket)),
                     "/", PercentEncode(uri.path, /*keep_slashes=*/true));
    const std::string host =
        server_.bucket_in_host ? absl::StrCat(uri.bucket, ".", server_.host) : server_.host;
    HttpRequest request{
        .url = absl::StrCat(server_.scheme, "://", host, path, query.empty() ? "" : "?", query)};
    request.head = absl::string_view(method) == "HEAD";
    const std::optional<AwsKey> key = keys_->Get();
    if (!key) {
      for (const auto& [name, value] : headers) {
        request.headers.push_back(absl::StrCat(name, ": ", value));
      }
      return request;
    }
    request.headers = SignAwsRequest({.method = method,
                                      .host = WithoutDefaultPort(host),
                                      .path = path,
                                      .query = query,
                                      .headers = std::move(headers),
                                      .region = server_.region},
                                     *key, clock_->UnixSeconds());
    return request;
  }

 private:
  // The Host header as the HTTP client sends it.
  std::string WithoutDefaultPort(absl::string_view host) const {
    (void)(server_.scheme == "https" ? absl::ConsumeSuffix(&host, ":443")
                                     : absl::ConsumeSuffix(&host, ":80"));
    return std::string(host);
  }

  const S3Server server_;
  const std::shared_ptr<AwsKeys> keys_;
  base::Clock* const clock_;
};

S3Reader::S3Reader(std::shared_ptr<HttpClient> http, S3Server server, std::shared_ptr<AwsKeys> keys,
                   double retry_limit_seconds, uint64_t seed)
    : ObjectReader(http, kS3, retry_limit_seconds, seed),
      keys_(std::move(keys)),
      signer_(std::make_shared<Signer>(std::move(server), keys_, http->clock())) {}

bool S3Reader::Reauthorize(const std::string& rejected_authorization) {
  // "AWS4-HMAC-SHA256 Credential=ID/20231114/...".
  constexpr absl::string_view kCredential = "Credential=";
  const absl::string_view refused = rejected_authorization;
  const size_t begin = refused.find(kCredential);
  if (begin == absl::string_view::npos) return false;
  const absl::string_view id = refused.substr(begin + kCredential.size());
  return keys_->Reload(id.substr(0, id.find('/')));
}

absl::StatusOr<ObjectReader::RangeRequest> S3Reader::MakeRangeRequest() {
  return [signer = signer_](const StoredObject& object, int64_t begin, int64_t end) {
    std::map<std::string, std::string> headers = {
        {"range", absl::StrCat("bytes=", begin, "-", end - 1)}};
    if (!object.version.empty()) headers["if-match"] = object.version;
    return signer->Make(object.uri, "GET", std::move(headers));
  };
}

absl::StatusOr<HttpRequest> S3Reader::StatRequest(const Uri& uri) {
  return signer_->Make(uri, "HEAD", {});
}

std::optional<StoredObject> S3Reader::ParseStat(const Uri& uri, const HttpResponse& response) {
  if (response.etag.empty() || response.length < 0) return std::nullopt;
  return StoredObject{.uri = uri,
                      .version = response.etag,
                      .size = response.length,
                      .modified_unix_seconds = response.modified_unix_seconds};
}

absl::StatusOr<HttpRequest> S3Reader::ListRequest(const Uri& prefix, bool all_levels,
                                                  const std::string& page) {
  Uri bucket = prefix;
  bucket.path.clear();
  const std::string query = absl::StrCat(
      page.empty() ? "" : absl::StrCat("continuation-token=", PercentEncode(page), "&"),
      all_levels ? "" : "delimiter=%2F&",
      "encoding-type=url&list-type=2&prefix=", PercentEncode(prefix.path));
  return signer_->Make(bucket, "GET", {}, query);
}

std::optional<ObjectPage> S3Reader::ParseListing(const Uri& prefix, const HttpResponse& response) {
  return ParseS3Listing(response.body, prefix.path);
}

}  // namespace penstock::io
