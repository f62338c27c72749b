#include "penstock/io/arrow/arrow_file_system.h"

#include <atomic>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/base/status.h"
#include "penstock/io/glob.h"
#include "penstock/io/testing/canned_server.h"
#include "penstock/io/testing/emulator.h"
#include "penstock/io/testing/file_system_conformance.h"
#include "penstock/io/testing/status_assertions.h"
#include "penstock/io/uri.h"

namespace penstock::io {
namespace arrow_file_system_test {

// One instance for the whole program, as in FileSystem::Default.
const std::shared_ptr<FileSystem>& SharedFileSystem() {
  static const auto* const fs = new std::shared_ptr<FileSystem>(MakeArrowFileSystem());
  return *fs;
}

absl::StatusOr<FileSystemUnderTest> InANewBucket(const absl::StatusOr<Emulator*>& emulator) {
  PENSTOCK_RETURN_IF_ERROR(emulator.status());
  PENSTOCK_ASSIGN_OR_RETURN(std::string bucket, (*emulator)->MakeBucket(*SharedFileSystem()));
  // Both services list at most 1000 objects per page.
  return FileSystemUnderTest{SharedFileSystem(), JoinPath(bucket, "root"), /*many_files=*/1100};
}

INSTANTIATE_TEST_SUITE_P(ArrowGcs, FileSystemConformance,
                         ConformanceOf([] { return InANewBucket(Emulator::Gcs()); }));
INSTANTIATE_TEST_SUITE_P(ArrowS3, FileSystemConformance, ConformanceOf([] {
                           auto made = InANewBucket(Emulator::S3());
                           // The emulator strips trailing zeros from timestamps, and the AWS client
                           // cannot parse those.
                           if (made.ok()) made->has_modification_times = false;
                           return made;
                         }));

class ArrowFileSystem : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(gcs_, Emulator::Gcs());
    ASSERT_OK_AND_ASSIGN(bucket_, gcs_->MakeBucket(*fs_));
  }

  const std::shared_ptr<FileSystem> fs_ = SharedFileSystem();
  Emulator* gcs_ = nullptr;
  std::string bucket_;
};

TEST_F(ArrowFileSystem, WorksAtTheRootOfABucket) {
  ASSERT_OK_AND_ASSIGN(auto listed, fs_->List(bucket_));
  EXPECT_TRUE(listed.empty());
  ASSERT_OK(WriteFile(*fs_, JoinPath(bucket_, "a/b.txt"), "x"));
  ASSERT_OK(WriteFile(*fs_, JoinPath(bucket_, "c.txt"), "x"));
  ASSERT_OK_AND_ASSIGN(listed, fs_->List(bucket_));
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[0].uri, JoinPath(bucket_, "a"));
  EXPECT_EQ(listed[1].uri, JoinPath(bucket_, "c.txt"));
  ASSERT_OK_AND_ASSIGN(const auto found, Glob(*fs_, JoinPath(bucket_, "*/*.txt")));
  EXPECT_EQ(found, std::vector<std::string>{JoinPath(bucket_, "a/b.txt")});
  ASSERT_OK_AND_ASSIGN(const FileInfo info, fs_->Stat(bucket_));
  EXPECT_TRUE(info.is_directory);
  EXPECT_EQ(info.uri, bucket_);
  EXPECT_THAT(fs_->RemoveRecursively(bucket_),
              IsStatus(absl::StatusCode::kInvalidArgument, "refusing"));
  EXPECT_THAT(fs_->Create(bucket_), IsStatus(absl::StatusCode::kFailedPrecondition, "is a folder"));
}

TEST_F(ArrowFileSystem, ReportsMissingBucket) {
  const std::string uri = gcs_->BucketUri("no-such-bucket");
  EXPECT_THAT(fs_->List(uri), IsStatus(absl::StatusCode::kNotFound, "no-such-bucket"));
  EXPECT_THAT(fs_->Stat(uri), IsStatus(absl::StatusCode::kNotFound, "no-such-bucket"));
  EXPECT_THAT(fs_->OpenInput(JoinPath(uri, "x")),
              IsStatus(absl::StatusCode::kNotFound, "gs://no-such-bucket/x"));
  EXPECT_THAT(WriteFile(*fs_, JoinPath(uri, "x"), "x"),
              IsStatus(absl::StatusCode::kNotFound, "gs://no-such-bucket/x"));
}

TEST_F(ArrowFileSystem, ReadsOpenedVersion) {
  const std::string uri = JoinPath(bucket_, "file");
  ASSERT_OK(WriteFile(*fs_, uri, "old old"));
  ASSERT_OK_AND_ASSIGN(const auto file, fs_->OpenRandomAccess(uri));
  ASSERT_OK(WriteFile(*fs_, uri, "new"));
  // The emulator keeps no old versions, like a bucket without versioning: reading must be an error
  // and never mix two versions.
  std::string read(7, '\0');
  EXPECT_FALSE(file->Read(0, absl::MakeSpan(&read[0], 7)).ok());
}

TEST_F(ArrowFileSystem, RejectsUnknownOptions) {
  EXPECT_THAT(fs_->Stat("gs://b/x?endpont_override=127.0.0.1"),
              IsStatus(absl::StatusCode::kInvalidArgument, "endpoint_override"));
  EXPECT_THAT(fs_->Stat("gs://b/x?region=eu"),
              IsStatus(absl::StatusCode::kInvalidArgument, "region"));
  EXPECT_THAT(fs_->Stat("/local/file"), IsStatus(absl::StatusCode::kInvalidArgument, "gs://"));
}

TEST_F(ArrowFileSystem, ReportsUnreachableServer) {
  // A privileged port, so no other process of this user can listen on it.
  const std::string uri =
      "gs://anonymous@b/x?scheme=http&endpoint_override=127.0.0.1:1&retry_limit_seconds=0.2";
  EXPECT_THAT(fs_->Stat(uri), IsStatus(absl::StatusCode::kUnavailable, "did not respond"));
}

TEST_F(ArrowFileSystem, ReportsPermissionDenied) {
  const CannedServer gcs(CannedHttp(
      "403 Forbidden", R"({"error": {"code": 403, "message": "no access to the object"}})",
      "Content-Type: application/json\r\n"));
  const std::string uri = absl::StrCat("gs://anonymous@b/x?scheme=http&retry_limit_seconds=1",
                                       "&endpoint_override=127.0.0.1:", gcs.port());
  for (const absl::Status& status : {fs_->Stat(uri).status(), fs_->OpenInput(uri).status(),
                                     fs_->List(uri).status(), WriteFile(*fs_, uri, "x")}) {
    EXPECT_THAT(status, IsStatus(absl::StatusCode::kPermissionDenied, "'gs://b/x'"));
    EXPECT_THAT(status, IsStatus(absl::StatusCode::kPermissionDenied, "gcloud auth"));
    EXPECT_THAT(status, IsStatus(absl::StatusCode::kPermissionDenied, "no access to the object"));
    // Not the words of Google's client about its own calls.
    for (const char* const words : {"google::cloud", "error_info", "retry.function"}) {
      EXPECT_FALSE(absl::StrContains(status.message(), words)) << status;
    }
  }
  ASSERT_OK(Emulator::S3());  // sets the environment variables that the AWS client needs
  const CannedServer s3(CannedHttp("403 Forbidden",
                                   "<Error><Code>AccessDenied</Code><Message>no</Message></Error>",
                                   "Content-Type: application/xml\r\n"));
  EXPECT_THAT(fs_->List(absl::StrCat("s3://key:secret@b/x?scheme=http&region=us-east-1",
                                     "&endpoint_override=127.0.0.1:", s3.port())),
              IsStatus(absl::StatusCode::kPermissionDenied, "AWS_PROFILE"));
}

TEST_F(ArrowFileSystem, TellsAnOverloadedServiceFromASilentOne) {
  const CannedServer gcs(CannedHttp("503 Service Unavailable", ""));
  const std::string uri = absl::StrCat("gs://anonymous@b/x?scheme=http&retry_limit_seconds=0.2",
                                       "&endpoint_override=127.0.0.1:", gcs.port());
  EXPECT_THAT(
      WriteFile(*fs_, uri, "x"),
      IsStatus(absl::StatusCode::kUnavailable,
               "cannot create 'gs://b/x': the service is overloaded or out of order; try again "
               "later (Received HTTP status code: 503)"));
}

TEST_F(ArrowFileSystem, VerifiesUploadAfterProxyPage) {
  const std::string object = CannedHttp(
      "200 OK", R"({"kind": "storage#object", "name": "x", "bucket": "b", "size": "4"})");
  std::atomic<int> port = 0, looks = 0;
  const CannedServer gcs([&](const std::string& question) {
    if (absl::StartsWith(question, "POST")) {
      return CannedHttp("200 OK", "{}",
                        absl::StrCat("Location: http://127.0.0.1:", port.load(), "/upload\r\n"));
    }
    if (!absl::StartsWith(question, "GET") || looks++ > 0) return object;
    return CannedHttp("200 OK", "");
  });
  port = gcs.port();
  EXPECT_OK(WriteFile(
      *fs_, absl::StrCat("gs://anonymous@b/x?scheme=http&endpoint_override=127.0.0.1:", gcs.port()),
      "text"));
  EXPECT_EQ(looks, 2);
}

TEST(ArrowFileSystemDeathTest, ExitsCleanlyAfterS3) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto use_s3 = [] {
    const auto s3 = Emulator::S3();
    const bool found = s3.ok() && MakeArrowFileSystem()->List((*s3)->BucketUri("none")).ok();
    std::exit(s3.ok() && !found ? 0 : 1);
  };
  EXPECT_EXIT(use_s3(), testing::ExitedWithCode(0), testing::Eq(""));
}

TEST_F(ArrowFileSystem, KeepsSecretsOutOfMessages) {
  ASSERT_OK_AND_ASSIGN(Emulator * s3, Emulator::S3());
  const absl::Status status = fs_->Stat(JoinPath(s3->BucketUri("none"), "x")).status();
  EXPECT_EQ(status.message().find("secret"), absl::string_view::npos) << status;
}

}  // namespace arrow_file_system_test
}  // namespace penstock::io
