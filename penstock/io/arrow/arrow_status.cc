#include "penstock/io/arrow/arrow_status.h"

#include <cerrno>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include <arrow/status.h>
#include <arrow/util/io_util.h>

#include "penstock/io/json_text.h"
#include "penstock/io/object/service_error.h"

namespace penstock::io {
namespace {

// Arrow reports the services' codes only in the text: "google::cloud::Status(NOT_FOUND: ...)", "AWS
// Error NO_SUCH_KEY during ...", "AWS Error UNKNOWN (HTTP status 404) during ...".
struct ErrorRow {
  const char* code;
  absl::StatusCode status;
};

constexpr ErrorRow kGoogleErrors[] = {
    {"NOT_FOUND", absl::StatusCode::kNotFound},
    {"PERMISSION_DENIED", absl::StatusCode::kPermissionDenied},
    {"UNAUTHENTICATED", absl::StatusCode::kUnauthenticated},
    {"RESOURCE_EXHAUSTED", absl::StatusCode::kResourceExhausted},
    {"INVALID_ARGUMENT", absl::StatusCode::kInvalidArgument},
    {"FAILED_PRECONDITION", absl::StatusCode::kFailedPrecondition},
    {"ABORTED", absl::StatusCode::kAborted},
    {"OUT_OF_RANGE", absl::StatusCode::kOutOfRange},
    {"UNIMPLEMENTED", absl::StatusCode::kUnimplemented},
    {"ALREADY_EXISTS", absl::StatusCode::kAlreadyExists},
};

constexpr ErrorRow kAwsErrors[] = {
    {"NO_SUCH_BUCKET", absl::StatusCode::kNotFound},
    {"NO_SUCH_KEY", absl::StatusCode::kNotFound},
    {"RESOURCE_NOT_FOUND", absl::StatusCode::kNotFound},
    {"ACCESS_DENIED", absl::StatusCode::kPermissionDenied},
    {"INVALID_ACCESS_KEY_ID", absl::StatusCode::kUnauthenticated},
    {"SIGNATURE_DOES_NOT_MATCH", absl::StatusCode::kUnauthenticated},
    {"MISSING_AUTHENTICATION_TOKEN", absl::StatusCode::kUnauthenticated},
    {"UNRECOGNIZED_CLIENT", absl::StatusCode::kUnauthenticated},
    {"EXPIRED_TOKEN", absl::StatusCode::kUnauthenticated},
    {"INVALID_CLIENT_TOKEN_ID", absl::StatusCode::kUnauthenticated},
    {"INVALID_PARAMETER_VALUE", absl::StatusCode::kInvalidArgument},
    {"VALIDATION", absl::StatusCode::kInvalidArgument},
};

// The word after `prefix` in `text`; empty if `prefix` is not found.
absl::string_view WordBehind(absl::string_view text, absl::string_view prefix) {
  const size_t begin = text.find(prefix);
  if (begin == absl::string_view::npos) return "";
  const absl::string_view rest = text.substr(begin + prefix.size());
  return rest.substr(0, rest.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"));
}

// All other codes come from the network, or from a proxy: 404 without an error code of S3, pages
// that cannot be parsed.
template <size_t kRows>
absl::StatusCode Lookup(const ErrorRow (&rows)[kRows], absl::string_view code) {
  for (const ErrorRow& row : rows) {
    if (code == row.code) return row.status;
  }
  return absl::StatusCode::kUnavailable;
}

// Whether the text of an error contains the service's own response with this HTTP status. For gs://
// that is {"error": {"code": 404, ...}}, which the client either passes on unchanged, or parses and
// reports the status.
bool HasOwnGoogleError(absl::string_view text, int http_status) {
  if (absl::StrContains(text, absl::StrCat("http_status_code=", http_status))) return true;
  const size_t begin = text.find('{');
  if (begin == absl::string_view::npos) return false;
  const absl::string_view body = text.substr(begin);
  const nlohmann::json json = ParseJson(body.substr(0, body.find(" error_info=")));
  if (!json.is_object() || !json.contains("error") || !json["error"].is_object()) return false;
  const auto code = json["error"].find("code");
  return code != json["error"].end() && *code == http_status;
}

// Whether an error of a write is the service's own. For s3:// it has an error code, which no proxy
// page has. Google's client reports a page in place of the written object as INVALID_ARGUMENT.
bool IsOwnError(const absl::Status& error, absl::string_view text, absl::string_view scheme) {
  if (scheme != "gs") {
    return !absl::IsNotFound(error) || absl::StrContains(text, "AWS Error NO_SUCH_");
  }
  if (absl::IsNotFound(error)) return HasOwnGoogleError(text, 404);
  const bool is_google = absl::StrContains(text, "google::cloud::Status(");
  return !absl::IsInvalidArgument(error) || !is_google || HasOwnGoogleError(text, 400);
}

absl::StatusCode CodeOf(const arrow::Status& status) {
  const absl::string_view text = status.message();
  if (const absl::string_view code = WordBehind(text, "google::cloud::Status("); !code.empty()) {
    // A proxy's page, which the client treats as the service's message.
    const std::string lower = absl::AsciiStrToLower(text);
    if (absl::StrContains(lower, "<html") || absl::StrContains(lower, "<!doctype")) {
      return absl::StatusCode::kUnavailable;
    }
    return Lookup(kGoogleErrors, code);
  }
  if (const absl::string_view code = WordBehind(text, "AWS Error "); !code.empty()) {
    const absl::string_view http = WordBehind(text, "(HTTP status ");
    if (http == "401") return absl::StatusCode::kUnauthenticated;
    if (http == "403") return absl::StatusCode::kPermissionDenied;
    if (http == "301" || http == "400") return absl::StatusCode::kInvalidArgument;
    return Lookup(kAwsErrors, code);
  }
  // Arrow's own message for an object that a service reported as missing: "No such file or
  // directory 'bucket/x'".
  if (arrow::internal::ErrnoFromStatus(status) == ENOENT ||
      absl::StartsWith(text, "No such file or directory '")) {
    return absl::StatusCode::kNotFound;
  }
  if (status.IsInvalid()) return absl::StatusCode::kInvalidArgument;
  if (status.IsOutOfMemory()) return absl::StatusCode::kResourceExhausted;
  if (status.IsNotImplemented()) return absl::StatusCode::kUnimplemented;
  return absl::StatusCode::kUnknown;
}

// What the service said, without what Google's client wraps around it: "google::cloud::Status(PERMISSION_DENIED:
// Permanent error, with a last message of {"error": {"code": 403, "message": "no access"}} error_info={...})".
std::string Said(absl::string_view text) {
  constexpr absl::string_view kBefore = "with a last message of ", kBehind = " error_info=";
  const size_t begin = text.find(kBefore);
  if (!absl::StrContains(text, "google::cloud::Status(") || begin == absl::string_view::npos) {
    return std::string(text);
  }
  absl::string_view said = text.substr(begin + kBefore.size());
  said = said.substr(0, said.find(kBehind));
  const nlohmann::json json = ParseJson(said);
  if (json.is_object() && json.contains("error") && json["error"].is_object()) {
    const auto message = json["error"].find("message");
    if (message != json["error"].end() && message->is_string()) return message->get<std::string>();
  }
  return std::string(said);
}

}  // namespace

absl::Status FromArrow(const arrow::Status& status, absl::string_view doing, const Uri& uri) {
  if (status.ok()) return absl::OkStatus();
  return ServiceError(CodeOf(status), Said(status.message()), doing, uri);
}

absl::Status FromArrowWriting(const arrow::Status& status, absl::string_view doing,
                              const Uri& uri) {
  const absl::Status error = FromArrow(status, doing, uri);
  if (IsOwnError(error, status.message(), uri.scheme)) return error;
  return ServiceError(absl::StatusCode::kUnavailable, Said(status.message()), doing, uri);
}

absl::Status FromArrowConnecting(const arrow::Status& status, absl::string_view doing,
                                 const Uri& uri) {
  const absl::Status error = FromArrow(status, doing, uri);
  if (!absl::IsNotFound(error)) return error;
  return ServiceError(absl::StatusCode::kFailedPrecondition, Said(status.message()), doing, uri);
}

}  // namespace penstock::io
