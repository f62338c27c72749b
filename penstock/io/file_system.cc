#include "penstock/io/file_system.h"

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/io/arrow_file_system.h"
#include "penstock/io/caching_file_system.h"
#include "penstock/io/gcs_file_system.h"
#include "penstock/io/local_file_system.h"
#include "penstock/io/s3_file_system.h"
#include "penstock/io/scheme_router.h"

namespace penstock::io {

absl::StatusOr<bool> FileSystem::Exists(absl::string_view uri) {
  const absl::Status status = Stat(uri).status();
  if (status.ok()) return true;
  if (absl::IsNotFound(status)) return false;
  return status;
}

std::shared_ptr<FileSystem> FileSystem::Default() {
  // Made once and never destroyed: a thread may still read when the program ends.
  static const auto* const fs = new std::shared_ptr<FileSystem>([] {
    const auto local = MakeLocalFileSystem();
    const auto objects = MakeArrowFileSystem();
    const auto cache = CacheOfEnvironment();
    return MakeSchemeRouter({{"", local},
                             {"file", local},
                             {"gs", WithDiskCache(MakeGcsFileSystem(objects), cache)},
                             {"s3", WithDiskCache(MakeS3FileSystem(objects), cache)}});
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
                                         "); begin anew to read what is there now"));
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

absl::Status BecameShorterError(absl::string_view uri, int64_t size, int64_t end) {
  return absl::AbortedError(
      absl::StrCat("'", uri, "' became shorter while it was read: it had ", size,
                   " bytes when it was opened, and now ends at byte ", end,
                   "; is another program writing it? Begin again when it is complete"));
}

absl::StatusOr<std::string> ReadAll(InputStream& in) {
  // No size is asked for: a file in /proc says 0, another may grow.
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
