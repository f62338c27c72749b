#include "penstock/io/mapped_file.h"

#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "penstock/base/status.h"
#include "penstock/io/file_descriptor.h"
#include "penstock/io/posix_error.h"
#include "penstock/io/uri.h"

namespace penstock::io {

absl::StatusOr<std::shared_ptr<const MappedFile>> MappedFile::Open(absl::string_view text) {
  PENSTOCK_ASSIGN_OR_RETURN(const Uri uri, ParseUri(text));
  if (!uri.is_local()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not a local file, so it cannot be mapped into memory"));
  }
  const FileDescriptor fd(::open(uri.path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info;
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0) return PosixError(errno, "open", text);
  if (S_ISDIR(info.st_mode)) return IsAFolderError(text);
  if (!S_ISREG(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat("'", text, "' is no regular file, so it cannot be mapped into memory"));
  }
  const size_t size = static_cast<size_t>(info.st_size);
  if (size == 0) return std::shared_ptr<const MappedFile>(new MappedFile(""));
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return PosixError(errno, "map into memory", text);
  return std::shared_ptr<const MappedFile>(
      new MappedFile(absl::string_view(static_cast<const char*>(memory), size)));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

}  // namespace penstock::io
