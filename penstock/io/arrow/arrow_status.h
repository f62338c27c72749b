// Conversion of Arrow's errors to absl::Status. NotFound comes only from an error that the
// services' clients report as such, never from the text of a message. Network errors, and responses
// that are not from the service, are Unavailable.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/base/status.h"
#include "penstock/io/uri.h"

namespace arrow {
class Status;
}

namespace penstock::io {

// "cannot open 'gs://b/x': permission denied; ...".
absl::Status FromArrow(const arrow::Status& status, absl::string_view doing, const Uri& uri);

// An error of a write. No second request can tell whether a 404 is from the service, so it is
// NotFound (of the bucket) only if it contains the service's own error: JSON of GCS or XML of S3.
absl::Status FromArrowWriting(const arrow::Status& status, absl::string_view doing, const Uri& uri);

// An error while connecting, before any object was requested: "not found" then refers to something
// else, such as a credentials file or a library, and is not NotFound.
absl::Status FromArrowConnecting(const arrow::Status& status, absl::string_view doing,
                                 const Uri& uri);

}  // namespace penstock::io

#define PENSTOCK_RETURN_IF_ARROW_ERROR(expression, doing, uri) \
  PENSTOCK_RETURN_IF_ERROR(FromArrow((expression), doing, uri))
