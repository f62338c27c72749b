// How deep a JSON text is nested, told before it is parsed: parsers and what they build recurse.
#pragma once

#include "absl/strings/string_view.h"

namespace penstock::base {

// Whether lists and objects stand within one another more than `levels` deep. Any text will do;
// brackets within strings do not count.
bool NestsDeeperThan(absl::string_view json, int levels);

}  // namespace penstock::base
