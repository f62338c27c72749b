// A memory-mapped local file (mmap): the kernel reads pages on first access and evicts them under
// memory pressure, so a file may be larger than memory. Accessing a page may block on the disk.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace penstock::io {

class MappedFile {
 public:
  // Maps a local path or file:// URI. The file must not be truncated while it is mapped: accessing
  // bytes beyond its new end kills the program (SIGBUS). Files written by room io are replaced
  // atomically and never truncated.
  static absl::StatusOr<std::shared_ptr<const MappedFile>> Open(absl::string_view uri);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // The contents of the file, page-aligned, so that alignment within the file is alignment in
  // memory.
  absl::string_view bytes() const { return bytes_; }

 private:
  explicit MappedFile(absl::string_view bytes) : bytes_(bytes) {}

  const absl::string_view bytes_;
};

}  // namespace penstock::io
