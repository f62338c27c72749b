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

// Removes the temporary files directly inside a folder that processes of this machine have left when they were killed,
// if that is certain: the file's name says that it was made since this machine has booted and is locked (flock) as long
// as it is written, and it is not locked. Files of other machines, of earlier boots, of earlier versions, and those on
// file systems without locks stay. Errors are ignored.
void RemoveAbandonedFiles(const std::string& folder);

}  // namespace penstock::io
