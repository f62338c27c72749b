// FilesElsewhere: what a FileSystem implements as well whose local paths are those of another machine. Code that opens a
// local path without its FileSystem (in place, mapped, by the system's calls) asks IsElsewhere first.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/io/file_system.h"

namespace penstock::io {

class FilesElsewhere {
 public:
  virtual ~FilesElsewhere() = default;
  // CheckWritableFile and CheckWritableFolder (write_check.h), done by the other machine.
  virtual absl::Status CheckWritableFileThere(absl::string_view uri) = 0;
  virtual absl::Status CheckWritableFolderThere(absl::string_view folder_uri) = 0;
};

inline bool IsElsewhere(const FileSystem& fs) {
  return dynamic_cast<const FilesElsewhere*>(&fs) != nullptr;
}

}  // namespace penstock::io
