#include "penstock/base/json_dump.h"

#include "nlohmann/json.hpp"

namespace penstock::base {

std::string DumpJson(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false,
                   nlohmann::ordered_json::error_handler_t::replace);
}

std::string ReplaceInvalidUtf8(const std::string& text) {
  return nlohmann::ordered_json::parse(DumpJson(text)).get<std::string>();
}

}  // namespace penstock::base
