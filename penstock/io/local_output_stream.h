// The writing half of the local file system: a file that is published whole. See
// local_file_system.h.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/io/file_system.h"

namespace penstock::io {

absl::StatusOr<std::unique_ptr<OutputStream>> CreateLocalFile(std::string uri, std::string path);

// Makes `path` and the folders above it, each on the disk when this returns.
absl::Status CreateLocalFolders(const std::string& uri, const std::string& path);

// Whether a file of this name is one that CreateLocalFile writes into before it is published.
bool IsUnpublished(absl::string_view basename);

}  // namespace penstock::io
