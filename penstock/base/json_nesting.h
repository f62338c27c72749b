// Nesting depth of untrusted JSON, checked before it is parsed, because parsers recurse.
#pragma once

#include "absl/strings/string_view.h"

namespace penstock::base {

// Whether arrays and objects are nested more than `levels` deep. Accepts any text; brackets inside
// strings do not count.
bool NestsDeeperThan(absl::string_view json, int levels);

}  // namespace penstock::base
