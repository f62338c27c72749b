#include "penstock/cli/config_file.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/io/file_system.h"
#include "penstock/io/uri.h"

#include "yaml-cpp/yaml.h"

namespace penstock::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxBytes = 1 << 20;
constexpr int64_t kMaxValues = 100000;
constexpr int kMaxDepth = 3;  // commands, options, values
constexpr char kTooDeep[] = "is nested more deeply than options and lists of their values";

absl::Status Invalid(absl::string_view uri, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(io::DisplayName(std::string(uri)), ": ", what));
}

// A scalar of a YAML file stays text: the option knows whether it is a number. `values` counts the
// values so far, since aliases let a small file stand for many.
absl::StatusOr<Json> FromYaml(const YAML::Node& node, int64_t& values, int depth = 0) {
  if (depth > kMaxDepth) return absl::InvalidArgumentError(kTooDeep);
  if (++values > kMaxValues) {
    return absl::InvalidArgumentError(absl::StrCat("has more than ", kMaxValues, " values"));
  }
  switch (node.Type()) {
    case YAML::NodeType::Scalar:
      return Json(node.Scalar());
    case YAML::NodeType::Sequence: {
      Json list = Json::array();
      for (const YAML::Node& item : node) {
        PENSTOCK_ASSIGN_OR_RETURN(Json value, FromYaml(item, values, depth + 1));
        list.push_back(std::move(value));
      }
      return list;
    }
    case YAML::NodeType::Map: {
      Json map = Json::object();
      for (const auto& pair : node) {
        const YAML::Node& key = pair.first;
        if (!key.IsScalar()) return absl::InvalidArgumentError("a key is not a string");
        if (map.contains(key.Scalar())) {
          return absl::InvalidArgumentError(absl::StrCat("'", key.Scalar(), "' occurs twice"));
        }
        PENSTOCK_ASSIGN_OR_RETURN(map[key.Scalar()], FromYaml(pair.second, values, depth + 1));
      }
      return map;
    }
    default:
      return Json(nullptr);
  }
}

absl::StatusOr<Json> ParseYaml(absl::string_view text) {
  try {
    int64_t values = 0;
    return FromYaml(YAML::Load(std::string(text)), values);
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(error.what());
  }
}

absl::StatusOr<Json> ParseJson(absl::string_view text) {
  // Keys of the object that the parser is in, by depth, since the parser keeps the last of two
  // values with the same key.
  std::vector<std::set<std::string>> keys;
  std::string twice;
  bool too_deep = false;
  const auto callback = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMaxDepth) too_deep = true;
    if (too_deep) return false;  // drops the value, which would be copied by a recursive function
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
      twice = parsed.get<std::string>();
    return true;
  };
  Json json;
  try {
    json = Json::parse(text, callback);
  } catch (const Json::exception& error) {
    // Without the library's "[json.exception.parse_error.101] ".
    const absl::string_view what = error.what();
    return absl::InvalidArgumentError(
        absl::StrCat("is not JSON (the names of YAML files end in .yaml): ",
                     what.substr(std::min(what.size(), what.find("] ") + 2))));
  }
  if (too_deep) return absl::InvalidArgumentError(kTooDeep);
  if (!twice.empty()) return absl::InvalidArgumentError(absl::StrCat("'", twice, "' occurs twice"));
  return json;
}

absl::StatusOr<std::string> Scalar(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number() || value.is_boolean()) return value.dump();
  return absl::InvalidArgumentError("is not a string, a number, true, false, or a list of them");
}

absl::StatusOr<ConfigEntry> Entry(const std::string& key, const Json& value) {
  ConfigEntry entry{.key = key, .values = {}, .is_list = value.is_array()};
  const Json list = value.is_array() ? value : Json::array({value});
  for (const Json& item : list) {
    absl::StatusOr<std::string> text = Scalar(item);
    if (!text.ok()) return base::WithContext(text.status(), absl::StrCat("'", key, "'"));
    entry.values.push_back(*std::move(text));
  }
  return entry;
}

}  // namespace

absl::StatusOr<std::vector<ConfigEntry>> ParseConfig(absl::string_view text, absl::string_view uri,
                                                     absl::string_view command) {
  const bool yaml = absl::EndsWith(uri, ".yaml") || absl::EndsWith(uri, ".yml");
  absl::StatusOr<Json> json = yaml ? ParseYaml(text) : ParseJson(text);
  if (!json.ok()) return Invalid(uri, json.status().message());
  if (!json->is_object()) return Invalid(uri, "is not an object with an option per key");
  if (const auto section = json->find(std::string(command)); section != json->end()) {
    if (!section->is_object())
      return Invalid(uri, absl::StrCat("'", command, "' is not an object"));
    json = Json(*section);
  }
  std::vector<ConfigEntry> entries;
  for (const auto& [key, value] : json->items()) {
    absl::StatusOr<ConfigEntry> entry = Entry(key, value);
    if (!entry.ok()) return Invalid(uri, entry.status().message());
    entries.push_back(*std::move(entry));
  }
  return entries;
}

absl::StatusOr<std::vector<ConfigEntry>> ReadConfigFile(absl::string_view uri,
                                                        absl::string_view command) {
  io::FileSystem& fs = *io::FileSystem::Default();
  PENSTOCK_ASSIGN_OR_RETURN(const io::FileInfo file, fs.Stat(uri));
  if (file.size > kMaxBytes) {
    return Invalid(
        uri, absl::StrCat("has ", file.size, " bytes; a file of options has at most ", kMaxBytes));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const std::string text, io::ReadFile(fs, uri));
  return ParseConfig(text, uri, command);
}

}  // namespace penstock::cli
