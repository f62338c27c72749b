#include "penstock/train/training_lock.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/io/files_elsewhere.h"
#include "penstock/io/local/folder_lock.h"
#include "penstock/io/uri.h"

namespace penstock::train {
namespace {

// A check of whether the folder can be written (io/write_check.h) may remove it again.
constexpr int kTries = 3;
constexpr double kPatienceSeconds = 1;  // a killed training frees its memory before its locks

}  // namespace

absl::StatusOr<std::shared_ptr<void>> LockForTraining(io::FileSystem& fs,
                                                      const std::string& folder) {
  if (auto* const there = dynamic_cast<io::FilesElsewhere*>(&fs)) {
    return there->LockForTrainingThere(folder);
  }
  const absl::StatusOr<io::Uri> uri = io::ParseUri(folder);
  if (!uri.ok() || !uri->is_local()) return nullptr;
  const std::string held =
      absl::StrCat("another training saves its checkpoints in ", io::DisplayName(folder),
                   "; wait until it has ended, end it, or give this one another folder");
  for (int i = 0; i < kTries; ++i) {
    // Also whether the folder may be written: `fs` may not allow it.
    if (!fs.CreateFolder(folder).ok()) return nullptr;
    PENSTOCK_ASSIGN_OR_RETURN(io::FolderLock lock,
                              io::FolderLock::Acquire(uri->path, held, kPatienceSeconds));
    if (lock.holds()) return std::make_shared<io::FolderLock>(std::move(lock));
  }
  return nullptr;
}

}  // namespace penstock::train
