#include "penstock/nn/policy.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

namespace penstock::nn {
namespace {

using base::DType;

struct PolicyRow {
  const char* name;
  DType compute, variable;
};

constexpr PolicyRow kPolicies[] = {
    {"float32", DType::kF32, DType::kF32},    {"mixed_bfloat16", DType::kBF16, DType::kF32},
    {"bfloat16", DType::kBF16, DType::kBF16}, {"mixed_float16", DType::kF16, DType::kF32},
    {"float16", DType::kF16, DType::kF16},
};

}  // namespace

absl::StatusOr<Policy> Policy::FromName(absl::string_view name) {
  for (const PolicyRow& row : kPolicies) {
    if (name == row.name) {
      return Policy{.name = row.name, .compute = row.compute, .variable = row.variable};
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown dtype policy '", name, "'; available: ", absl::StrJoin(PolicyNames(), ", ")));
}

absl::StatusOr<Policy> Policy::FromJson(const nlohmann::ordered_json& json) {
  if (json.is_string()) return FromName(json.get<std::string>());
  if (json.is_object() && json.contains("config") && json["config"].is_object() &&
      json["config"].contains("name") && json["config"]["name"].is_string()) {
    return FromName(json["config"]["name"].get<std::string>());
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "a dtype policy is a name or {\"class_name\": \"DTypePolicy\", \"config\": {\"name\"}}, got ",
      json.dump()));
}

nlohmann::ordered_json Policy::ToJson() const {
  return {{"module", "keras"},
          {"class_name", "DTypePolicy"},
          {"config", {{"name", name}}},
          {"registered_name", nullptr}};
}

std::vector<std::string> PolicyNames() {
  std::vector<std::string> names;
  for (const PolicyRow& row : kPolicies) names.push_back(row.name);
  return names;
}

}  // namespace penstock::nn
