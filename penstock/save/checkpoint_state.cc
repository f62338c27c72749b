#include "penstock/save/checkpoint_state.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

#include "penstock/base/status.h"
#include "penstock/io/uri.h"

namespace penstock::save {
namespace {

bool IsAbsolutePath(absl::string_view path) {
  return absl::StartsWith(path, "/") || absl::StrContains(path, "://");
}

// "name: value" with a text or a number as its value.
absl::Status ParseStateLine(absl::string_view line, absl::string_view folder,
                            CheckpointState& state) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(line, absl::MaxSplits(':', 1));
  const absl::string_view key = absl::StripAsciiWhitespace(parts.first);
  absl::string_view value = absl::StripAsciiWhitespace(parts.second);
  if (key == "model_checkpoint_path" || key == "all_model_checkpoint_paths") {
    std::string path;
    const bool quoted = value.size() >= 2 && (value.front() == '"' || value.front() == '\'') &&
                        value.back() == value.front();
    if (!quoted || !absl::CUnescape(value.substr(1, value.size() - 2), &path)) {
      return absl::DataLossError(absl::StrCat("'", line, "' lacks a quoted path"));
    }
    if (!IsAbsolutePath(path)) path = io::JoinPath(folder, path);
    if (key == "model_checkpoint_path") state.model_checkpoint_path = path;
    if (key != "model_checkpoint_path") state.all_model_checkpoint_paths.push_back(path);
    return absl::OkStatus();
  }
  if (key == "all_model_checkpoint_timestamps" || key == "last_preserved_timestamp") {
    double number = 0;
    if (!absl::SimpleAtod(value, &number)) {
      return absl::DataLossError(absl::StrCat("'", line, "' lacks a number"));
    }
    if (key == "last_preserved_timestamp") state.last_preserved_timestamp = number;
    if (key != "last_preserved_timestamp") state.all_model_checkpoint_timestamps.push_back(number);
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat("unknown line '", line, "'"));
}

// The path as the file has it: relative to the file's folder if it is in there.
std::string RelativeTo(absl::string_view path, absl::string_view folder) {
  const std::string base = io::Basename(path);
  return io::JoinPath(folder, base) == path || path == base ? base : std::string(path);
}

}  // namespace

absl::StatusOr<CheckpointState> ParseCheckpointState(absl::string_view text,
                                                     absl::string_view folder) {
  CheckpointState state;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const absl::string_view bare = absl::StripAsciiWhitespace(line);
    if (bare.empty() || bare[0] == '#') continue;
    PENSTOCK_RETURN_IF_ERROR(ParseStateLine(bare, folder, state));
  }
  return state;
}

std::string PrintCheckpointState(const CheckpointState& state, absl::string_view folder) {
  std::string text;
  const auto add = [&](absl::string_view key, const std::string& path) {
    absl::StrAppend(&text, key, ": \"", absl::CEscape(RelativeTo(path, folder)), "\"\n");
  };
  add("model_checkpoint_path", state.model_checkpoint_path);
  for (const std::string& path : state.all_model_checkpoint_paths) {
    add("all_model_checkpoint_paths", path);
  }
  for (const double seconds : state.all_model_checkpoint_timestamps) {
    absl::StrAppendFormat(&text, "all_model_checkpoint_timestamps: %.17g\n", seconds);
  }
  if (state.last_preserved_timestamp != 0) {
    absl::StrAppendFormat(&text, "last_preserved_timestamp: %.17g\n",
                          state.last_preserved_timestamp);
  }
  return text;
}

}  // namespace penstock::save
