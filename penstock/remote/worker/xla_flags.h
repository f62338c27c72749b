// XLA flags that a client may set for a program. XLA has hundreds of flags; some write files or load
// libraries by a path, so that only those in the table of xla_flags.cc are accepted.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace penstock::remote {

// OK, or PERMISSION_DENIED with the accepted flags.
absl::Status CheckXlaFlag(absl::string_view name, absl::string_view value);

}  // namespace penstock::remote
