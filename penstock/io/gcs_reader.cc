#include "penstock/io/gcs_reader.h"

#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include <nlohmann/json.hpp>

#include "penstock/base/status.h"
#include "penstock/io/percent_encoding.h"

namespace penstock::io {
namespace {

// {"error": {"message": "..."}}.
std::string GcsMessageOf(const std::string& body) {
  const auto json = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (json.is_object() && json.contains("error") && json["error"].is_object()) {
    const auto message = json["error"].find("message");
    if (message != json["error"].end() && message->is_string()) return message->get<std::string>();
  }
  return "";
}

std::string GenerationOf(const HttpAnswer& answer) {
  return answer.generation == 0 ? "" : absl::StrCat(answer.generation);
}

constexpr ObjectService kGcs = {
    .version_of = &GenerationOf,
    .version_name = "generation",
    .message_of = &GcsMessageOf,
};

// Names of objects stand in one step of the URL.
std::string ObjectUrl(const std::string& server, const Uri& uri) {
  return absl::StrCat(server, "/storage/v1/b/", PercentEncode(uri.bucket), "/o/",
                      PercentEncode(uri.path));
}

// "size": "123", as the JSON API writes 64-bit numbers.
std::optional<int64_t> NumberOf(const nlohmann::json& json, const char* field) {
  int64_t number = 0;
  if (!json.is_object() || !json.contains(field) || !json[field].is_string()) return std::nullopt;
  if (!absl::SimpleAtoi(json[field].get_ref<const std::string&>(), &number)) return std::nullopt;
  return number;
}

}  // namespace

GcsReader::GcsReader(std::shared_ptr<HttpClient> http, GcsEndpoint endpoint, Authorize authorize,
                     uint64_t seed)
    : ObjectReader(std::move(http), kGcs, endpoint.retry_limit_seconds, seed),
      url_(endpoint.url()),
      authorize_(std::move(authorize)) {}

absl::StatusOr<ObjectReader::RangeRequest> GcsReader::MakeRangeRequest() {
  PENSTOCK_ASSIGN_OR_RETURN(std::string authorization, authorize_());
  return [url = url_, authorization = std::move(authorization)](const StoredObject& object,
                                                                int64_t begin, int64_t end) {
    HttpRequest request{.url = absl::StrCat(ObjectUrl(url, object.uri), "?alt=media")};
    if (!object.version.empty()) absl::StrAppend(&request.url, "&generation=", object.version);
    // Objects stored compressed are wanted as they are stored: ranges are of those bytes.
    request.headers = {absl::StrCat("Range: bytes=", begin, "-", end - 1), "Accept-Encoding: gzip"};
    if (!authorization.empty()) request.headers.push_back("Authorization: " + authorization);
    return request;
  };
}

absl::StatusOr<HttpRequest> GcsReader::FindRequest(const Uri& uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string authorization, authorize_());
  HttpRequest request{.url = absl::StrCat(ObjectUrl(url_, uri), "?fields=size,generation")};
  if (!authorization.empty()) request.headers.push_back("Authorization: " + authorization);
  return request;
}

absl::StatusOr<StoredObject> GcsReader::Found(const Uri& uri, const HttpAnswer& answer) {
  const auto json = nlohmann::json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  const auto size = NumberOf(json, "size");
  const auto generation = NumberOf(json, "generation");
  if (!size || !generation) {
    return NotAStorageServiceError(uri, "the answer is no description of an object");
  }
  return StoredObject{.uri = uri, .version = absl::StrCat(*generation), .size = *size};
}

absl::StatusOr<HttpRequest> GcsReader::ListRequest(const Uri& prefix, bool all_levels,
                                                   const std::string& page) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string authorization, authorize_());
  HttpRequest request{
      .url = absl::StrCat(url_, "/storage/v1/b/", PercentEncode(prefix.bucket),
                          "/o?fields=items(name,size,generation,updated),prefixes,nextPageToken",
                          "&prefix=", PercentEncode(prefix.path))};
  if (!all_levels) absl::StrAppend(&request.url, "&delimiter=%2F");
  if (!page.empty()) absl::StrAppend(&request.url, "&pageToken=", PercentEncode(page));
  if (!authorization.empty()) request.headers.push_back("Authorization: " + authorization);
  return request;
}

absl::StatusOr<ObjectPage> GcsReader::Listed(const Uri& prefix, const HttpAnswer& answer) {
  const auto json = nlohmann::json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  const auto wrong = [&] {
    return NotAStorageServiceError(prefix, "the answer is no list of objects");
  };
  if (!json.is_object()) return wrong();
  ObjectPage page;
  for (const auto& item : json.value("items", nlohmann::json::array())) {
    const auto size = NumberOf(item, "size");
    const auto generation = NumberOf(item, "generation");
    if (!size || !generation || !item.contains("name") || !item["name"].is_string()) return wrong();
    ObjectPage::Object object{.path = item["name"].get<std::string>(),
                              .version = absl::StrCat(*generation),
                              .size = *size};
    absl::Time updated;
    if (item.contains("updated") && item["updated"].is_string() &&
        absl::ParseTime(absl::RFC3339_full, item["updated"].get<std::string>(), &updated,
                        nullptr)) {
      object.modified_unix_seconds = absl::ToDoubleSeconds(updated - absl::UnixEpoch());
    }
    page.objects.push_back(std::move(object));
  }
  for (const auto& folder : json.value("prefixes", nlohmann::json::array())) {
    if (!folder.is_string()) return wrong();
    page.folders.push_back(folder.get<std::string>());
  }
  if (const auto next = json.find("nextPageToken"); next != json.end() && next->is_string()) {
    page.next = next->get<std::string>();
  }
  return page;
}

}  // namespace penstock::io
