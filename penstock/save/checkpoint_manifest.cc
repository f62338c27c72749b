#include "penstock/save/checkpoint_manifest.h"

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"

#include "zlib.h"

namespace penstock::save {
namespace {

using Json = nlohmann::json;

constexpr absl::string_view kFormat = "penstock checkpoint";
constexpr absl::string_view kBeforeCrc = "{\"crc32\": \"";
constexpr absl::string_view kAfterCrc = "\",";
// Deeper than any state, and far from the limit of the JSON library's recursion.
constexpr int kMaxDepth = 64;
// Inside a manifest it is one level deeper.
constexpr int kMaxStateDepth = kMaxDepth - 1;

std::string Hex(uint32_t crc) { return absl::StrFormat("%08x", crc); }

absl::StatusOr<uint32_t> ParseHex(absl::string_view text) {
  uint32_t value = 0;
  if (!absl::SimpleHexAtoi(text, &value) || Hex(value) != text) {
    return absl::DataLossError("a checksum is not 8 hexadecimal digits");
  }
  return value;
}

absl::StatusOr<Json> ParseJson(absl::string_view text, int max_depth) {
  bool too_deep = false;
  const auto limit_depth = [&](int depth, Json::parse_event_t, Json&) {
    too_deep |= depth > max_depth;
    return depth <= max_depth;
  };
  Json json = Json::parse(text.begin(), text.end(), limit_depth, /*allow_exceptions=*/false);
  if (too_deep) {
    return absl::InvalidArgumentError(
        absl::StrCat("JSON is nested deeper than ", max_depth, " levels"));
  }
  if (json.is_discarded()) return absl::InvalidArgumentError("not JSON");
  return json;
}

absl::Status CheckStateBytes(size_t bytes) {
  if (static_cast<int64_t>(bytes) <= kMaxStateBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the state of a checkpoint is ", bytes, " bytes of JSON, at most ",
                   kMaxStateBytes, " are allowed: store arrays in Checkpoint::arrays"));
}

// A whole number that is not negative.
absl::StatusOr<int64_t> Count(const Json& object, const char* key) {
  const auto* value = object.at(key).get_ptr<const Json::number_integer_t*>();
  if (value == nullptr || *value < 0) {
    return absl::DataLossError(absl::StrCat("\"", key, "\" is not an integer"));
  }
  return *value;
}

// Throws Json::exception where a field is missing or of another type.
absl::StatusOr<Manifest> FromJson(const Json& json) {
  if (json.at("format").get<std::string>() != kFormat) {
    return absl::DataLossError("not the manifest of a checkpoint");
  }
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t version, Count(json, "version"));
  if (version > kManifestVersion) {
    return absl::UnimplementedError(absl::StrCat(
        "written by a newer Penstock (checkpoint version ", version, "; this program reads up to ",
        kManifestVersion, "): resume with that version, or use another folder"));
  }
  Manifest manifest{.state = json.at("state").dump()};
  PENSTOCK_ASSIGN_OR_RETURN(manifest.step, Count(json, "step"));
  if (json.contains("score")) manifest.score = json.at("score").get<double>();
  for (const Json& entry : json.at("files")) {
    ManifestFile file{.name = entry.at("name").get<std::string>()};
    PENSTOCK_ASSIGN_OR_RETURN(file.bytes, Count(entry, "bytes"));
    if (file.name.empty() || file.name[0] == '.' || file.name.find('/') != std::string::npos) {
      return absl::DataLossError("a file's name is a path");
    }
    PENSTOCK_ASSIGN_OR_RETURN(file.crc32, ParseHex(entry.at("crc32").get<std::string>()));
    manifest.files.push_back(std::move(file));
  }
  return manifest;
}

}  // namespace

uint32_t Crc32(uint32_t crc, absl::string_view bytes) {
  return static_cast<uint32_t>(
      crc32_z(crc, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

absl::StatusOr<std::string> WriteManifest(const Manifest& manifest) {
  PENSTOCK_RETURN_IF_ERROR(CheckStateBytes(manifest.state.size()));
  absl::StatusOr<Json> state = ParseJson(manifest.state, kMaxStateDepth);
  if (!state.ok()) return base::WithContext(state.status(), "the state of a checkpoint");
  // As written: a number may become longer.
  PENSTOCK_RETURN_IF_ERROR(CheckStateBytes(state->dump().size()));
  Json files = Json::array();
  for (const ManifestFile& file : manifest.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"crc32", Hex(file.crc32)}});
  }
  Json json = {{"format", std::string(kFormat)},
               {"version", kManifestVersion},
               {"step", manifest.step},
               {"files", std::move(files)},
               {"state", *std::move(state)}};
  if (manifest.score.has_value()) json["score"] = *manifest.score;
  // Indented, unless the indentation makes it longer than what ParseManifest's caller reads.
  std::string text = json.dump(2);
  if (static_cast<int64_t>(text.size()) > kMaxManifestBytes / 2) text = json.dump();
  const std::string rest = absl::StrCat(text.substr(1), "\n");
  return absl::StrCat(kBeforeCrc, Hex(Crc32(0, rest)), kAfterCrc, rest);
}

absl::StatusOr<Manifest> ParseManifest(absl::string_view text) {
  absl::string_view rest = text;
  if (!absl::ConsumePrefix(&rest, kBeforeCrc) || rest.size() < 8) {
    return absl::DataLossError("does not begin like a checkpoint's manifest");
  }
  PENSTOCK_ASSIGN_OR_RETURN(const uint32_t crc, ParseHex(rest.substr(0, 8)));
  rest.remove_prefix(8);
  if (!absl::ConsumePrefix(&rest, kAfterCrc) || Crc32(0, rest) != crc) {
    return absl::DataLossError(
        "its checksum does not match: the manifest was changed or truncated");
  }
  absl::StatusOr<Json> json = ParseJson(text, kMaxDepth);
  if (!json.ok()) return absl::DataLossError(json.status().message());
  try {
    return FromJson(*json);
  } catch (const Json::exception& e) {
    return absl::DataLossError(absl::StrCat("a field is missing or of a wrong type: ", e.what()));
  }
}

}  // namespace penstock::save
