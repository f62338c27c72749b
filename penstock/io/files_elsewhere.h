// FilesElsewhere: what a FileSystem implements as well whose local paths are those of another machine. Code that opens a
// local path without its FileSystem (in place, mapped, by the system's calls) asks IsElsewhere first.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/io/file_system.h"

namespace penstock::io {

class FilesElsewhere {
 public:
  virtual ~FilesElsewhere() = default;
  // CheckWritableFile and CheckWritableFolder (write_check.h), done by the other machine.
  virtual absl::Status CheckWritableFileThere(absl::string_view uri) = 0;
  virtual absl::Status CheckWritableFolderThere(absl::string_view folder_uri) = 0;
  // train::LockForTraining (train/training_lock.h), by the other machine: until the result is destroyed, or its session ends.
  virtual absl::StatusOr<std::shared_ptr<void>> LockForTrainingThere(
      absl::string_view folder_uri) = 0;
};

inline bool IsElsewhere(const FileSystem& fs) {
  return dynamic_cast<const FilesElsewhere*>(&fs) != nullptr;
}

}  // namespace penstock::io
