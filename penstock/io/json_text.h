// Parsing of untrusted JSON: service responses, credentials files.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include <nlohmann/json.hpp>

namespace penstock::io {

// Maximum nesting depth. Services send JSON about 5 levels deep; the parser's stack overflows at
// some ten thousand levels.
inline constexpr int kMaxJsonDepth = 64;

// Parses `text`; returns a discarded value (is_discarded) if it is not JSON or is nested deeper
// than kMaxJsonDepth.
nlohmann::json ParseJson(absl::string_view text);

// Value of a string field of an object; `otherwise` if the field is missing or not a string.
std::string JsonString(const nlohmann::json& json, const char* field,
                       absl::string_view otherwise = "");

// Value of a field such as "size": "123", as Google's JSON APIs encode 64-bit integers. No value if
// it is missing, malformed or negative.
std::optional<int64_t> JsonCount(const nlohmann::json& json, const char* field);

}  // namespace penstock::io
