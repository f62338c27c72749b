#include "penstock/io/arrow_status.h"

#include <cerrno>

#include "absl/strings/match.h"
#include <arrow/status.h>
#include <arrow/util/io_util.h>

#include "penstock/io/service_error.h"

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
  return ServiceError(CodeOf(status), status.message(), doing, uri);
}

}  // namespace penstock::io
