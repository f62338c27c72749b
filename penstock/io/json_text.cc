#include "penstock/io/json_text.h"

#include "absl/strings/numbers.h"

#include "penstock/base/json_nesting.h"

namespace penstock::io {

nlohmann::json ParseJson(absl::string_view text) {
  if (base::NestsDeeperThan(text, kMaxJsonDepth)) return nlohmann::json::value_t::discarded;
  return nlohmann::json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
}

std::string JsonString(const nlohmann::json& json, const char* field, absl::string_view otherwise) {
  if (json.is_object()) {
    const auto it = json.find(field);
    if (it != json.end() && it->is_string()) return it->get<std::string>();
  }
  return std::string(otherwise);
}

std::optional<int64_t> JsonCount(const nlohmann::json& json, const char* field) {
  int64_t number = 0;
  if (!absl::SimpleAtoi(JsonString(json, field), &number) || number < 0) return std::nullopt;
  return number;
}

}  // namespace penstock::io
