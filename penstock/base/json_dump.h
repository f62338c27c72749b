// Writes JSON whose strings may not be UTF-8, such as names of files.
#pragma once

#include <string>

#include "nlohmann/json_fwd.hpp"

namespace penstock::base {

// Serializes `json`. Invalid UTF-8 becomes U+FFFD; nlohmann's dump() throws an exception there.
// Every element gets a line of its own, indented by `indent` spaces per level; -1: a single line.
std::string DumpJson(const nlohmann::ordered_json& json, int indent = -1);

// Returns `text` with U+FFFD in place of invalid UTF-8, as it is read back from JSON.
std::string ReplaceInvalidUtf8(const std::string& text);

}  // namespace penstock::base
