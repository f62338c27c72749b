// Error messages for requests that a storage service rejected.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/io/uri.h"

namespace penstock::io {

// `text` is the service's own message. "cannot open 'gs://b/x': permission denied; log in with ...
// (the service said: ...)".
absl::Status ServiceError(absl::StatusCode code, absl::string_view text, absl::string_view doing,
                          const Uri& uri);

}  // namespace penstock::io
