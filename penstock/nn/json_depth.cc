#include "penstock/nn/json_depth.h"

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "penstock/base/json_nesting.h"

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

absl::Status TooDeep() {
  return absl::InvalidArgumentError(
      absl::StrCat("the JSON is nested more than ", kMaxJsonDepth, " levels deep"));
}

}  // namespace

absl::Status CheckJsonDepth(const nlohmann::ordered_json& json) {
  return IsWithin(json, kMaxJsonDepth) ? absl::OkStatus() : TooDeep();
}

absl::StatusOr<nlohmann::ordered_json> ParseModelJson(absl::string_view text) {
  // Check before parsing: nlohmann's ordered objects copy their members recursively as they grow.
  if (base::NestsDeeperThan(text, kMaxJsonDepth)) return TooDeep();
  auto json = nlohmann::ordered_json::parse(text.begin(), text.end(), nullptr,
                                            /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::InvalidArgumentError("the text is not JSON");
  return json;
}

}  // namespace penstock::nn
