#include "penstock/io/gcs/gcs_reader.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "penstock/base/status.h"
#include "penstock/io/http/percent_encoding.h"
#include "penstock/io/json_text.h"

namespace penstock::io {
namespace {

// {"error": {"code": 404, "message": "..."}}.
nlohmann::json GcsErrorOf(const std::string& body) {
  const nlohmann::json json = ParseJson(body);
  return json.is_object() ? json.value("error", nlohmann::json()) : nlohmann::json();
}

std::string GcsMessageOf(const std::string& body) {
  return JsonString(GcsErrorOf(body), "message");
}

// Download errors are plain text, "No such object: b/x"; all errors have a distinctive header
// field.
bool IsGcsError(const HttpResponse& response) {
  return !response.request_id.empty() || GcsErrorOf(response.body).is_object() ||
         absl::StartsWith(response.body, "No such object");
}

bool RejectsGcsToken(const HttpResponse& response) { return response.status == 401; }

bool NeverPasses(const HttpResponse&) { return false; }

std::string GenerationOf(const HttpResponse& response) {
  return response.generation == 0 ? "" : absl::StrCat(response.generation);
}

constexpr ObjectService kGcs = {
    .version_of = &GenerationOf,
    .version_name = "generation",
    .error_message = &GcsMessageOf,
    .is_own_error = &IsGcsError,
    .rejects_credentials = &RejectsGcsToken,
    .is_transient = &NeverPasses,
};

// The object name is one segment of the URL.
std::string ObjectUrl(const std::string& server, const Uri& uri) {
  return absl::StrCat(server, "/storage/v1/b/", PercentEncode(uri.bucket), "/o/",
                      PercentEncode(uri.path));
}

}  // namespace

GcsReader::GcsReader(std::shared_ptr<HttpClient> http, GcsEndpoint endpoint,
                     std::shared_ptr<HttpAuthorizer> authorizer, uint64_t seed)
    : ObjectReader(std::move(http), kGcs, endpoint.retry_limit_seconds, seed),
      url_(endpoint.url()),
      authorizer_(std::move(authorizer)) {}

absl::StatusOr<std::string> GcsReader::Authorization() {
  if (authorizer_ == nullptr) return "";
  return authorizer_->Authorization();
}

bool GcsReader::Reauthorize(const std::string& rejected_authorization) {
  if (authorizer_ == nullptr) return false;
  authorizer_->OnRejected(rejected_authorization);
  const auto authorization = authorizer_->Authorization();
  return authorization.ok() && *authorization != rejected_authorization;
}

absl::StatusOr<ObjectReader::RangeRequest> GcsReader::MakeRangeRequest() {
  PENSTOCK_ASSIGN_OR_RETURN(std::string authorization, Authorization());
  return [url = url_, authorization = std::move(authorization)](const StoredObject& object,
                                                                int64_t begin, int64_t end) {
    HttpRequest request{.url = absl::StrCat(ObjectUrl(url, object.uri), "?alt=media")};
    if (!object.version.empty()) absl::StrAppend(&request.url, "&generation=", object.version);
    // Objects stored with gzip encoding are requested as stored, because ranges refer to those
    // bytes.
    request.headers = {absl::StrCat("Range: bytes=", begin, "-", end - 1), "Accept-Encoding: gzip"};
    if (!authorization.empty()) request.headers.push_back("Authorization: " + authorization);
    return request;
  };
}

absl::StatusOr<HttpRequest> GcsReader::StatRequest(const Uri& uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string authorization, Authorization());
  HttpRequest request{.url = absl::StrCat(ObjectUrl(url_, uri), "?fields=size,generation,updated")};
  if (!authorization.empty()) request.headers.push_back("Authorization: " + authorization);
  return request;
}

std::optional<StoredObject> GcsReader::ParseStat(const Uri& uri, const HttpResponse& response) {
  const nlohmann::json json = ParseJson(response.body);
  const auto size = JsonCount(json, "size");
  const auto generation = JsonCount(json, "generation");
  if (!size || !generation) return std::nullopt;
  StoredObject object{.uri = uri, .version = absl::StrCat(*generation), .size = *size};
  if (absl::Time updated;
      absl::ParseTime(absl::RFC3339_full, JsonString(json, "updated"), &updated, nullptr)) {
    object.modified_unix_seconds = absl::ToDoubleSeconds(updated - absl::UnixEpoch());
  }
  return object;
}

absl::StatusOr<HttpRequest> GcsReader::ListRequest(const Uri& prefix, bool all_levels,
                                                   const std::string& page) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string authorization, Authorization());
  HttpRequest request{
      .url = absl::StrCat(url_, "/storage/v1/b/", PercentEncode(prefix.bucket),
                          "/o?fields=kind,items(name,size,generation,updated),prefixes,",
                          "nextPageToken&prefix=", PercentEncode(prefix.path))};
  if (!all_levels) absl::StrAppend(&request.url, "&delimiter=%2F");
  if (!page.empty()) absl::StrAppend(&request.url, "&pageToken=", PercentEncode(page));
  if (!authorization.empty()) request.headers.push_back("Authorization: " + authorization);
  return request;
}

std::optional<ObjectPage> GcsReader::ParseListing(const Uri& prefix, const HttpResponse& response) {
  return ParseGcsListing(response.body, prefix.path);
}

}  // namespace penstock::io
