// Untrusted JSON: answers of services, credentials files.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include <nlohmann/json.hpp>

namespace penstock::io {

// Services send JSON about 5 levels deep; a parser's stack ends at some ten thousand levels.
inline constexpr int kMaxJsonDepth = 64;

// Returns a discarded value (is_discarded) if `text` is not JSON, or deeper than kMaxJsonDepth.
nlohmann::json ParseJson(absl::string_view text);

// A string field of an object; `otherwise` if it is missing or not a string.
std::string JsonString(const nlohmann::json& json, const char* field,
                       absl::string_view otherwise = "");

// "size": "123", as Google's JSON APIs write 64-bit numbers. No value if it is missing, not such a
// text, or negative.
std::optional<int64_t> JsonCount(const nlohmann::json& json, const char* field);

}  // namespace penstock::io
