// Whether two names are those of one file.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace penstock::io {

// One text for the different names of a file or folder, for comparisons (it is not a name to open).
// Links of a local path are resolved. Of a URI, credentials and options are left out, except the
// endpoint, which is another store. A malformed name is returned as it is. Different texts may
// still be one file, in a folder that is mounted twice.
std::string CanonicalName(absl::string_view name);

}  // namespace penstock::io
