// JSON from outside: answers of services, files of credentials.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include <nlohmann/json.hpp>

namespace penstock::io {

// What services send is nested some 5 deep; a parser's stack ends somewhere in the ten thousands.
inline constexpr int kMaxJsonDepth = 64;

// A discarded value (is_discarded) when `text` is no JSON or nested deeper than kMaxJsonDepth.
nlohmann::json ParseJson(absl::string_view text);

// A field of an object; `otherwise` when it is missing or no string.
std::string JsonString(const nlohmann::json& json, const char* field,
                       absl::string_view otherwise = "");

// "size": "123", as Google's JSON APIs write 64-bit numbers. Nothing when it is missing, no such
// text, or negative.
std::optional<int64_t> JsonCount(const nlohmann::json& json, const char* field);

}  // namespace penstock::io
