#include "penstock/nn/json_depth.h"

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace penstock::nn {
namespace {

bool IsWithin(const nlohmann::ordered_json& json, int levels) {
  if (!json.is_structured()) return true;
  if (levels == 0) return false;
  for (const auto& element : json) {
    if (!IsWithin(element, levels - 1)) return false;
  }
  return true;
}

// Of a text, before it is parsed: nlohmann's ordered objects copy their members, by recursion, as
// they grow.
bool IsWithin(absl::string_view text, int levels) {
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
      if (++depth > levels) return false;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return true;
}

absl::Status TooDeep() {
  return absl::InvalidArgumentError(absl::StrCat("the description is nested more than ",
                                                 kMaxJsonDepth, " levels deep, which no model is"));
}

}  // namespace

absl::Status CheckJsonDepth(const nlohmann::ordered_json& json) {
  return IsWithin(json, kMaxJsonDepth) ? absl::OkStatus() : TooDeep();
}

absl::StatusOr<nlohmann::ordered_json> ParseModelJson(absl::string_view text) {
  if (!IsWithin(text, kMaxJsonDepth)) return TooDeep();
  auto json = nlohmann::ordered_json::parse(text.begin(), text.end(), nullptr,
                                            /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::InvalidArgumentError("the description is not JSON");
  return json;
}

}  // namespace penstock::nn
