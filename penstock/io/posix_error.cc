#include "penstock/io/posix_error.h"

#include <cerrno>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace penstock::io {
namespace {

struct Row {
  int error_number;
  absl::StatusCode code;
  const char* advice;
};

constexpr Row kRows[] = {
    {ENOENT, absl::StatusCode::kNotFound, ""},
    {EACCES, absl::StatusCode::kPermissionDenied, ""},
    {EPERM, absl::StatusCode::kPermissionDenied, ""},
    {EROFS, absl::StatusCode::kPermissionDenied, ""},
    {EISDIR, absl::StatusCode::kFailedPrecondition, ""},
    {ENOTDIR, absl::StatusCode::kFailedPrecondition,
     "; a step of its path is a file, not a folder"},
    {ENOSPC, absl::StatusCode::kResourceExhausted, "; free some room on that disk"},
    {EDQUOT, absl::StatusCode::kResourceExhausted, "; the quota of this user is used up"},
    {EFBIG, absl::StatusCode::kResourceExhausted,
     "; the limit of a file's size (ulimit -f) is reached"},
    {EMFILE, absl::StatusCode::kResourceExhausted,
     "; this process has too many files open (ulimit -n)"},
    {ENFILE, absl::StatusCode::kResourceExhausted, "; this machine has too many files open"},
    {ENAMETOOLONG, absl::StatusCode::kInvalidArgument, ""},
    {ELOOP, absl::StatusCode::kInvalidArgument, "; symbolic links point at each other"},
    {EINVAL, absl::StatusCode::kInvalidArgument, ""},
    {EIO, absl::StatusCode::kDataLoss, "; the disk may be failing"},
};

}  // namespace

absl::Status PosixError(int error_number, absl::string_view doing, absl::string_view uri) {
  absl::StatusCode code = absl::StatusCode::kUnknown;
  const char* advice = "";
  for (const Row& row : kRows) {
    if (row.error_number == error_number) {
      code = row.code;
      advice = row.advice;
    }
  }
  return absl::Status(code, absl::StrCat("cannot ", doing, " '", uri, "': ",
                                         std::generic_category().message(error_number), advice));
}

absl::Status IsAFolderError(absl::string_view uri) {
  return absl::FailedPreconditionError(
      absl::StrCat("'", uri, "' is a folder where a file is wanted"));
}

absl::Status IsAFileError(absl::string_view uri) {
  return absl::FailedPreconditionError(
      absl::StrCat("'", uri, "' is a file where a folder is wanted"));
}

}  // namespace penstock::io
