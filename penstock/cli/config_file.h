// Files with options of a command, JSON or YAML, for --config. The keys are the options' names
// without dashes; an option on the command line takes precedence over the file.
//
//   {"model": "resnet50", "epochs": 20, "augment": ["flip", "crop"], "new-head": true}
//
// or, for files of several commands, {"train": {"model": "resnet50"}}; keys beside that object are
// ignored, so that a file can have a comment.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace penstock::cli {

struct ConfigEntry {
  std::string key;
  std::vector<std::string> values;  // as on the command line
  bool is_list = false;
};

// The options for `command` ("train") in a file of at most 1 MiB: YAML if its name ends with .yaml
// or .yml, JSON otherwise. Errors name the file, and the line of a syntax error.
absl::StatusOr<std::vector<ConfigEntry>> ReadConfigFile(absl::string_view uri,
                                                        absl::string_view command);

// The same, of a text that was read from `uri`.
absl::StatusOr<std::vector<ConfigEntry>> ParseConfig(absl::string_view text, absl::string_view uri,
                                                     absl::string_view command);

}  // namespace penstock::cli
