#include "penstock/io/json_text.h"

#include "absl/strings/numbers.h"

namespace penstock::io {
namespace {

bool NestsDeeperThan(absl::string_view text, int limit) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > limit) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace

nlohmann::json ParseJson(absl::string_view text) {
  if (NestsDeeperThan(text, kMaxJsonDepth)) return nlohmann::json::value_t::discarded;
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
