#include "penstock/io/arrow_status.h"

#include <cerrno>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include <arrow/status.h>
#include <arrow/util/io_util.h>

namespace penstock::io {
namespace {

// Arrow keeps the services' codes only in the text.
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

}  // namespace

absl::Status FromArrow(const arrow::Status& status, absl::string_view doing, const Uri& uri) {
  if (status.ok()) return absl::OkStatus();
  const absl::StatusCode code = CodeOf(status);
  const std::string what = absl::StrCat("cannot ", doing, " '", DisplayUri(uri), "': ");
  // What the service says, on one line.
  const std::string said = absl::StrJoin(
      absl::StrSplit(status.message(), absl::ByAnyChar("\r\n"), absl::SkipEmpty()), " ");
  switch (code) {
    case absl::StatusCode::kNotFound:
      return absl::Status(code, absl::StrCat(what, "it, or its bucket, does not exist"));
    case absl::StatusCode::kPermissionDenied:
      return absl::Status(
          code,
          absl::StrCat(what, "no right to it; ",
                       uri.scheme == "gs"
                           ? "log in with 'gcloud auth application-default login' or set "
                             "GOOGLE_APPLICATION_CREDENTIALS, and check the bucket's roles"
                           : "set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                             "and check the bucket's policy",
                       " (the service said: ", said, ")"));
    case absl::StatusCode::kUnavailable:
      return absl::Status(
          code, absl::StrCat(what, "the service did not answer; check the network (", said, ")"));
    default:
      return absl::Status(code, absl::StrCat(what, said));
  }
}

}  // namespace penstock::io
