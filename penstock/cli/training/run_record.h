// Record of a training's options, saved beside its checkpoints: a file for --config that repeats
// the training.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/cli/options.h"
#include "penstock/io/file_system.h"

namespace penstock::cli {

// Text of the record: {"penstock": version, "folder": current folder, "train": {options}}.
std::string RunRecord(const std::vector<OptionValues>& options);

// Writes `record` into `folder` as "options.json"; if there is a different one, of an earlier start
// of this training, as "options-2.json" and so on. Returns the URI of the file.
absl::StatusOr<std::string> SaveRunRecord(io::FileSystem& fs, absl::string_view folder,
                                          absl::string_view record);

}  // namespace penstock::cli
