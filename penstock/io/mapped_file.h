// The bytes of a local file, mapped: the kernel reads the pages that are looked at and drops them
// when memory is short, so a file may be larger than memory. Reading waits for the disk where it
// must.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace penstock::io {

class MappedFile {
 public:
  // A local path or file://. The file must not become shorter as long as it is mapped: a program
  // that looks at bytes that are gone is killed (SIGBUS). Files that are published by io are
  // replaced, never written to, so these do not.
  static absl::StatusOr<std::shared_ptr<const MappedFile>> Open(absl::string_view uri);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // Begins at a page, so that what is aligned in the file is aligned in memory.
  absl::string_view bytes() const { return bytes_; }

 private:
  explicit MappedFile(absl::string_view bytes) : bytes_(bytes) {}

  const absl::string_view bytes_;
};

}  // namespace penstock::io
