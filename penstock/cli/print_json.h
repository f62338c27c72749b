// Output of commands with --json.
#pragma once

#include "nlohmann/json_fwd.hpp"

namespace penstock::cli {

// Prints `json` to stdout, indented, and a newline. Invalid UTF-8, which names of files may
// contain, becomes U+FFFD.
void PrintJson(const nlohmann::ordered_json& json);

}  // namespace penstock::cli
