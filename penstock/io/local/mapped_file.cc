#include "penstock/io/local/mapped_file.h"

#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"
#include <sys/mman.h>

#include "penstock/base/status.h"
#include "penstock/io/local/open_local_file.h"
#include "penstock/io/posix_error.h"
#include "penstock/io/uri.h"

namespace penstock::io {

absl::StatusOr<std::shared_ptr<const MappedFile>> MappedFile::Open(absl::string_view text) {
  PENSTOCK_ASSIGN_OR_RETURN(const Uri uri, ParseUri(text));
  if (!uri.is_local()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not a local file, so it cannot be mapped into memory"));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const OpenedFile file, OpenRegularFile(uri.path, text));
  const size_t size = static_cast<size_t>(file.info.st_size);
  if (size == 0) return std::shared_ptr<const MappedFile>(new MappedFile(""));
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd.get(), 0);
  if (memory == MAP_FAILED) return PosixError(errno, "map into memory", text);
  return std::shared_ptr<const MappedFile>(
      new MappedFile(absl::string_view(static_cast<const char*>(memory), size)));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

}  // namespace penstock::io
