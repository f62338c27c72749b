#include "penstock/estimator/input_position.h"

#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/estimator/feature_column/fingerprint.h"
#include "penstock/io/uri.h"

namespace penstock::estimator {
namespace {

std::string PositionFile(absl::string_view checkpoint) {
  return io::AppendToName(checkpoint, ".position");
}

}  // namespace

std::string PipelineFingerprint(const data::Dataset& dataset) {
  return absl::StrCat(absl::Hex(feature_column::Fingerprint64(dataset.ToString())));
}

absl::Status WriteInputPosition(io::FileSystem& fs, absl::string_view checkpoint,
                                const InputPosition& position) {
  // 64-bit numbers as text: other readers of JSON have doubles.
  const nlohmann::ordered_json json = {
      {"seed", absl::StrCat(position.seed)}, {"epoch", position.epoch},
      {"elements", position.elements},       {"ended", position.ended},
      {"pipeline", position.pipeline},       {"draws", position.draws}};
  return io::WriteFile(fs, PositionFile(checkpoint), json.dump());
}

absl::StatusOr<std::optional<InputPosition>> ReadInputPosition(io::FileSystem& fs,
                                                               absl::string_view checkpoint) {
  const std::string file = PositionFile(checkpoint);
  const absl::StatusOr<std::string> text = io::ReadFile(fs, file);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  if (!text.ok()) return text.status();
  const auto json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const auto is = [&](const char* key, auto check) {
    return json.contains(key) && check(json[key]);
  };
  // The next epoch and step are numbers, too.
  const auto number = [](const nlohmann::json& j) {
    constexpr int64_t kMax = std::numeric_limits<int64_t>::max() / 2;
    return j.is_number_integer() && j.get<int64_t>() >= 0 && j.get<int64_t>() <= kMax;
  };
  const auto text_value = [](const nlohmann::json& j) { return j.is_string(); };
  const auto flag = [](const nlohmann::json& j) { return j.is_boolean(); };
  InputPosition position;
  if (!json.is_object() || !is("seed", text_value) || !is("epoch", number) ||
      !is("elements", number) || !is("ended", flag) || !is("pipeline", text_value) ||
      !is("draws", number) || !absl::SimpleAtoi(json["seed"].get<std::string>(), &position.seed)) {
    return absl::DataLossError(absl::StrCat(
        io::DisplayName(file), " is corrupt: remove it, and training starts its input again"));
  }
  position.epoch = json["epoch"].get<int64_t>();
  position.elements = json["elements"].get<int64_t>();
  position.ended = json["ended"].get<bool>();
  position.pipeline = json["pipeline"].get<std::string>();
  position.draws = json["draws"].get<int64_t>();
  return position;
}

void RemoveInputPosition(io::FileSystem& fs, absl::string_view checkpoint) {
  fs.Remove(PositionFile(checkpoint)).IgnoreError();
}

}  // namespace penstock::estimator
