// Converts Arrow's errors. NotFound comes only from an error that the services' clients report as
// such, never from the text of a message. Network errors, and answers that are not the service's
// own, are Unavailable.
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

// An error of writing, where no second look can tell whether a 404 is the service's: it is NotFound
// (of the bucket) only with the service's own error, JSON of GCS or XML of S3.
absl::Status FromArrowWriting(const arrow::Status& status, absl::string_view doing, const Uri& uri);

// An error of connecting, before any object was asked for: what is not found then is something
// else, such as a file of credentials or a library.
absl::Status FromArrowConnecting(const arrow::Status& status, absl::string_view doing,
                                 const Uri& uri);

}  // namespace penstock::io

#define PENSTOCK_RETURN_IF_ARROW_ERROR(expression, doing, uri) \
  PENSTOCK_RETURN_IF_ERROR(FromArrow((expression), doing, uri))
