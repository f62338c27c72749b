#include "penstock/pack/sources/tfds_features.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"

namespace penstock::pack {
namespace {

constexpr int kMaxDepth = 20;

// Returns json[key], or null if `json` is not an object or lacks the key.
const nlohmann::json& At(const nlohmann::json& json, const char* key) {
  static const nlohmann::json kNull;
  if (!json.is_object()) return kNull;
  const auto found = json.find(key);
  return found != json.end() ? *found : kNull;
}

std::string KindOf(const nlohmann::json& feature) {
  const nlohmann::json& name = At(feature, "pythonClassName");
  if (!name.is_string()) return "";
  const std::string full = name.get<std::string>();
  return full.substr(full.rfind('.') + 1);  // the full name if it has no dot
}

// Parses an integer; protobuf's JSON mapping writes 64-bit integers as strings.
int64_t Number(const nlohmann::json& json) {
  int64_t number = 0;
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_string() && absl::SimpleAtoi(json.get<std::string>(), &number)) return number;
  return 0;
}

absl::Status Add(const nlohmann::json& dictionary, const std::string& prefix, int depth,
                 std::vector<TfdsFeature>& out) {
  const nlohmann::json& features = At(At(dictionary, "featuresDict"), "features");
  if (!features.is_object() || depth > kMaxDepth) {
    return absl::InvalidArgumentError(
        "not the features.json of a TensorFlow data set (expected an object with "
        "featuresDict.features, as TFDS 4 writes it)");
  }
  for (const auto& [name, feature] : features.items()) {
    const std::string path = absl::StrCat(prefix, name);
    if (!At(feature, "featuresDict").is_null()) {
      PENSTOCK_RETURN_IF_ERROR(Add(feature, absl::StrCat(path, "/"), depth + 1, out));
      continue;
    }
    out.push_back({.name = path,
                   .kind = KindOf(feature),
                   .classes = Number(At(At(feature, "classLabel"), "numClasses"))});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<TfdsFeature>> ParseTfdsFeatures(absl::string_view json) {
  const nlohmann::json parsed =
      nlohmann::json::parse(json.begin(), json.end(), nullptr, /*allow_exceptions=*/false);
  std::vector<TfdsFeature> features;
  PENSTOCK_RETURN_IF_ERROR(Add(parsed, "", 0, features));
  return features;
}

}  // namespace penstock::pack
