#include "penstock/cli/training/run_record.h"

#include <filesystem>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/cli/version.h"
#include "penstock/io/uri.h"

namespace penstock::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxRecords = 1000;

// Options that do not change the training.
const std::set<absl::string_view>& NotRecorded() {
  static const auto& names = *new std::set<absl::string_view>{"--config", "--json"};
  return names;
}

Json Value(const OptionInfo& option, const std::string& text) {
  const bool number =
      option.kind == OptionInfo::Kind::kInteger || option.kind == OptionInfo::Kind::kNumber;
  // The keys of a store do not belong into a file beside the checkpoints.
  const bool secret = absl::StrContains(text, "://") && absl::StrContains(text, '@');
  Json value = number ? Json::parse(text, nullptr, /*allow_exceptions=*/false)
                      : Json(secret ? io::DisplayName(text) : text);
  return value.is_discarded() ? Json(text) : value;
}

}  // namespace

std::string RunRecord(const std::vector<OptionValues>& options) {
  Json values = Json::object();
  for (const OptionValues& option : options) {
    if (NotRecorded().contains(option.info.name)) continue;
    Json value = true;
    if (option.info.kind != OptionInfo::Kind::kFlag) {
      Json list = Json::array();
      for (const std::string& text : option.values) list.push_back(Value(option.info, text));
      value = list.size() == 1 ? list[0] : list;
    }
    values[option.info.name.substr(2)] = std::move(value);
  }
  std::error_code error;  // then the folder is empty
  const std::vector<std::string> version = absl::StrSplit(Version(), '\n');
  const Json record = {{"penstock", version[0]},
                       {"folder", std::filesystem::current_path(error).string()},
                       {"train", std::move(values)}};
  return record.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<std::string> SaveRunRecord(io::FileSystem& fs, absl::string_view folder,
                                          absl::string_view record) {
  for (int start = 1; start <= kMaxRecords; ++start) {
    const std::string uri = io::JoinPath(
        folder, start == 1 ? "options.json" : absl::StrCat("options-", start, ".json"));
    PENSTOCK_ASSIGN_OR_RETURN(const bool exists, fs.Exists(uri));
    if (!exists) {
      PENSTOCK_RETURN_IF_ERROR(io::WriteFile(fs, uri, record));
      return uri;
    }
    PENSTOCK_ASSIGN_OR_RETURN(const std::string earlier, io::ReadFile(fs, uri));
    if (earlier == record) return uri;
  }
  return absl::ResourceExhaustedError(
      absl::StrCat(io::DisplayName(folder), " has ", kMaxRecords,
                   " files of options; remove those that are not needed"));
}

}  // namespace penstock::cli
