#include "penstock/io/file_system.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/io/arrow/arrow_file_system.h"
#include "penstock/io/cache/caching_file_system.h"
#include "penstock/io/scheme_router.h"
#include "penstock/io/scheme_table.h"

namespace penstock::io {

absl::StatusOr<bool> FileSystem::Exists(absl::string_view uri) {
  const absl::Status status = Stat(uri).status();
  if (status.ok()) return true;
  if (absl::IsNotFound(status)) return false;
  return status;
}

std::shared_ptr<FileSystem> FileSystem::Default() {
  // Created once and never destroyed: a thread may still read when the program exits.
  static const auto* const fs = new std::shared_ptr<FileSystem>([] {
    const SharedParts shared = {.arrow = MakeArrowFileSystem(), .cache = CacheFromEnvironment()};
    std::map<std::string, std::shared_ptr<FileSystem>> by_scheme;
    for (const SchemeRow& row : SchemeTable()) {
      if (row.make != nullptr) by_scheme[std::string(row.scheme)] = row.make(shared);
    }
    return MakeSchemeRouter(std::move(by_scheme));
  }());
  return *fs;
}

namespace {

template <typename File>
absl::Status CheckVersion(const File& file, absl::string_view version) {
  const std::string now = file.version();
  if (version.empty() || now.empty() || now == version) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat("'", file.uri(), "' was replaced since it was listed (",
                                         "version ", version, ", now ", now,
                                         "); start over to read the new version"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<InputStream>> OpenInputOfVersion(FileSystem& fs,
                                                                absl::string_view uri,
                                                                absl::string_view version) {
  PENSTOCK_ASSIGN_OR_RETURN(auto file, fs.OpenInput(uri));
  PENSTOCK_RETURN_IF_ERROR(CheckVersion(*file, version));
  return file;
}

absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenRandomAccessOfVersion(
    FileSystem& fs, absl::string_view uri, absl::string_view version) {
  PENSTOCK_ASSIGN_OR_RETURN(auto file, fs.OpenRandomAccess(uri));
  PENSTOCK_RETURN_IF_ERROR(CheckVersion(*file, version));
  return file;
}

absl::Status TruncatedFileError(absl::string_view uri, int64_t size, int64_t end) {
  return absl::AbortedError(
      absl::StrCat("'", uri, "' was truncated while it was being read: it had ", size,
                   " bytes when it was opened, but now ends at byte ", end,
                   "; is another program writing it? Retry when it is complete"));
}

absl::StatusOr<std::string> ReadAll(InputStream& in) {
  // The size is not used: files in /proc report 0, and other files may grow.
  constexpr size_t kStep = 1 << 20;
  std::string bytes;
  for (size_t step = 64 << 10;; step = std::max(kStep, bytes.size())) {
    const size_t filled = bytes.size();
    bytes.resize(filled + step);
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t n, in.Read({bytes.data() + filled, step}));
    bytes.resize(filled + n);
    if (n < static_cast<int64_t>(step)) return bytes;
  }
}

absl::StatusOr<std::string> ReadFile(FileSystem& fs, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::unique_ptr<InputStream> in, fs.OpenInput(uri));
  return ReadAll(*in);
}

absl::Status WriteFile(FileSystem& fs, absl::string_view uri, absl::string_view bytes) {
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<OutputStream> out, fs.Create(uri));
  PENSTOCK_RETURN_IF_ERROR(out->Append(bytes));
  return out->Close();
}

}  // namespace penstock::io
