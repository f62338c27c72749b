#include "penstock/io/posix_error.h"

#include <cerrno>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/base/random.h"
#include "penstock/io/testing/status_assertions.h"

namespace penstock::io {
namespace posix_error_test {

using Code = absl::StatusCode;

Code CodeOf(int error) { return PosixError(error, "read", "/x").code(); }

TEST(PosixError, MapsEveryErrnoOfLinux) {
  // EHWPOISON is the last errno. 41 and 58 are unassigned.
  for (int error = 1; error <= EHWPOISON; ++error) {
    if (error == 41 || error == 58) continue;
    EXPECT_NE(CodeOf(error), Code::kUnknown) << error << " " << std::strerror(error);
    EXPECT_NE(CodeOf(error), Code::kOk) << error;
  }
  EXPECT_EQ(CodeOf(100'000), Code::kUnknown);
}

// Decisions about checkpoints depend on this: a file that cannot be read is neither missing nor
// corrupt.
TEST(PosixError, IsNeverDataLossAndNotFoundOnlyForAMissingFile) {
  for (int error = 1; error <= EHWPOISON; ++error) {
    EXPECT_NE(CodeOf(error), Code::kDataLoss) << error;
    EXPECT_EQ(CodeOf(error) == Code::kNotFound, error == ENOENT) << error;
  }
}

TEST(PosixError, DistinguishesFailingDisksAndMountsFromPermissionsAndFullDisks) {
  for (int error :
       {EIO, ENODATA, EREMOTEIO, EUCLEAN, EBADMSG, ESTALE, ETIMEDOUT, EAGAIN, EINTR, EBUSY, ENODEV,
        ENXIO, EHOSTDOWN, EHOSTUNREACH, ENETDOWN, ENETUNREACH, ENOTCONN, ECONNRESET, ESHUTDOWN}) {
    EXPECT_EQ(CodeOf(error), Code::kUnavailable) << error;
  }
  for (int error : {ENOSPC, EDQUOT, EFBIG, EMFILE, ENFILE, ENOMEM}) {
    EXPECT_EQ(CodeOf(error), Code::kResourceExhausted) << error;
  }
  for (int error : {EACCES, EPERM, EROFS}) EXPECT_EQ(CodeOf(error), Code::kPermissionDenied);
  for (int error : {ENOTDIR, EISDIR}) EXPECT_EQ(CodeOf(error), Code::kFailedPrecondition);
  for (int error : {ENAMETOOLONG, ELOOP, EINVAL}) EXPECT_EQ(CodeOf(error), Code::kInvalidArgument);
}

TEST(PosixError, NamesTheOperationTheFileAndTheReason) {
  EXPECT_THAT(PosixError(ENOSPC, "write to", "/data/x"),
              IsStatus(Code::kResourceExhausted,
                       "cannot write to '/data/x': No space left on device; free some space"));
}

TEST(PathError, NamesDanglingLink) {
  const std::string root =
      absl::StrCat(testing::TempDir(), "/path_error_", absl::Hex(base::EntropySeed()));
  std::filesystem::create_directories(root + "/there");
  std::filesystem::create_symlink("/nowhere/disk", root + "/disk");
  std::filesystem::create_symlink("there", root + "/link");
  // A file on an unmounted disk must not be reported as missing.
  for (const char* behind : {"/disk", "/disk/x", "/disk/a/b", "/link/../disk/x"}) {
    const std::string path = root + behind;
    EXPECT_THAT(PathError(ENOENT, "open", "the URI", path),
                IsStatus(Code::kFailedPrecondition, "/disk' is dangling"))
        << behind;
    EXPECT_EQ(PathError(EIO, "open", "the URI", path).code(), Code::kUnavailable);
  }
  for (const char* missing : {"/no", "/no/disk", "/there/no", "/link/no", "/link/no/a"}) {
    EXPECT_THAT(PathError(ENOENT, "open", "the URI", root + missing),
                IsStatus(Code::kNotFound, "cannot open 'the URI'"))
        << missing;
  }
  EXPECT_EQ(PathError(ENOENT, "open", "x", "no/such").code(), Code::kNotFound);
  std::filesystem::remove_all(root);
}

}  // namespace posix_error_test
}  // namespace penstock::io
