// Arrow's errors as ours.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/base/status.h"
#include "penstock/io/uri.h"

namespace arrow {
class Status;
}

namespace penstock::io {

// "cannot open 'gs://b/x': no right to it; ...".
absl::Status FromArrow(const arrow::Status& status, absl::string_view doing, const Uri& uri);

}  // namespace penstock::io

#define PENSTOCK_RETURN_IF_ARROW_ERROR(expression, doing, uri) \
  PENSTOCK_RETURN_IF_ERROR(FromArrow((expression), doing, uri))
