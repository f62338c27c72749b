// Atomic writes of local files, by a temporary file and rename. See local_file_system.h.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/io/file_system.h"

namespace penstock::io {

absl::StatusOr<std::unique_ptr<OutputStream>> CreateLocalFile(std::string uri, std::string path);

// Creates `path` and its parent folders, durably (fsync).
absl::Status CreateLocalFolders(const std::string& uri, const std::string& path);

// Whether this is the name of a temporary file that CreateLocalFile has not yet published.
bool IsUnpublished(absl::string_view basename);

}  // namespace penstock::io
