#include "penstock/io/s3/s3_file_system.h"

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/base/clock.h"
#include "penstock/base/random.h"
#include "penstock/base/thread_pool.h"
#include "penstock/io/arrow/arrow_file_system.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/io/testing/canned_server.h"
#include "penstock/io/testing/emulator.h"
#include "penstock/io/testing/fake_time.h"
#include "penstock/io/testing/file_system_conformance.h"
#include "penstock/io/testing/latency_proxy.h"
#include "penstock/io/testing/random_bytes.h"
#include "penstock/io/testing/status_assertions.h"
#include "penstock/io/uri.h"

namespace penstock::io {
namespace s3_file_system_test {

using testing::HasSubstr;
using testing::Not;

constexpr int64_t kMiB = 1 << 20;

const std::shared_ptr<FileSystem>& SharedFileSystem() {
  static const auto* const fs =
      new std::shared_ptr<FileSystem>(MakeS3FileSystem(MakeArrowFileSystem()));
  return *fs;
}

INSTANTIATE_TEST_SUITE_P(S3, FileSystemConformance,
                         ConformanceOf([]() -> absl::StatusOr<FileSystemUnderTest> {
                           PENSTOCK_ASSIGN_OR_RETURN(Emulator * s3, Emulator::S3());
                           PENSTOCK_ASSIGN_OR_RETURN(std::string bucket,
                                                     s3->MakeBucket(*SharedFileSystem()));
                           // Modification times: see arrow_file_system_test.cc.
                           return FileSystemUnderTest{SharedFileSystem(), JoinPath(bucket, "root"),
                                                      /*many_files=*/1100,
                                                      /*has_modification_times=*/false};
                         }));

// Fixture: checks the requests that are sent to a server with canned responses.
class S3Requests : public testing::Test {
 protected:
  static std::string Respond(absl::string_view body) {
    return CannedHttp("206 Partial Content", std::string(body),
                      absl::StrCat("ETag: \"e1\"\r\nContent-Range: bytes 0-", body.size() - 1, "/",
                                   body.size(), "\r\n"));
  }
  static std::string At(const CannedServer& server, absl::string_view user,
                        absl::string_view name) {
    return absl::StrCat("s3://", user, "bucket/", name,
                        "?scheme=http&endpoint_override=127.0.0.1:", server.port(),
                        "&region=eu-west-1");
  }

  FakeTime time_;
  const std::shared_ptr<FileSystem> fs_ =
      MakeS3FileSystem(MakeMemoryFileSystem(), {.http = time_.Http()});
};

TEST_F(S3Requests, OpenAndReadSmallFileInOneSignedRequest) {
  const CannedServer server(Respond("text"));
  ASSERT_OK_AND_ASSIGN(const std::string read, ReadFile(*fs_, At(server, "id:sec@", "a b/é+")));
  EXPECT_EQ(read, "text");
  ASSERT_EQ(server.requests().size(), 1u);
  const std::string question = server.requests()[0];
  EXPECT_THAT(question, testing::StartsWith("GET /bucket/a%20b/%C3%A9%2B HTTP/1.1\r\n"));
  EXPECT_THAT(question, HasSubstr("\r\nx-amz-date: 20231114T221320Z\r\n"));  // 1.7e9
  EXPECT_THAT(question, HasSubstr("Credential=id/20231114/eu-west-1/s3/aws4_request,"
                                  "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"));
}

TEST_F(S3Requests, AreUnsignedWithoutCredentials) {
  for (const char* name : {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"}) {
    ::unsetenv(name);
  }
  ::setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere", 1);
  ::setenv("AWS_CONFIG_FILE", "/nowhere", 1);
  ::setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
  const CannedServer server(Respond("text"));
  ASSERT_OK(ReadFile(*fs_, At(server, "", "x")));
  EXPECT_THAT(server.requests().at(0), Not(HasSubstr("Authorization")));
  EXPECT_THAT(server.requests().at(0), HasSubstr("\r\nrange: bytes=0-"));
}

TEST_F(S3Requests, UseEndpointOfEnvironment) {
  const CannedServer server(Respond("text"));
  ::setenv("AWS_ENDPOINT_URL", absl::StrCat("http://127.0.0.1:", server.port(), "/").c_str(), 1);
  const auto read = ReadFile(*fs_, "s3://id:sec@bucket/x");
  ::unsetenv("AWS_ENDPOINT_URL");
  ASSERT_OK(read);
  EXPECT_EQ(*read, "text");
}

TEST_F(S3Requests, ReportServiceMessage) {
  const CannedServer server(CannedHttp(
      "403 Forbidden",
      "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code><Message>Access Denied</Message>"));
  EXPECT_THAT(fs_->OpenInput(At(server, "id:sec@", "x")),
              IsStatus(absl::StatusCode::kPermissionDenied,
                       "cannot open 's3://bucket/x': permission denied; set AWS_PROFILE"));
  EXPECT_THAT(fs_->OpenInput(At(server, "id:sec@", "x")),
              IsStatus(absl::StatusCode::kPermissionDenied, "HTTP status 403: Access Denied"));
}

TEST_F(S3Requests, RejectProxyPage) {
  const CannedServer page(CannedHttp("200 OK", "<html>Log in to the hotel</html>"));
  const std::string uri = At(page, "id:sec@", "x");
  EXPECT_THAT(fs_->OpenInput(uri), IsStatus(absl::StatusCode::kUnavailable, "not that range"));
  EXPECT_THAT(fs_->OpenRandomAccess(uri),
              IsStatus(absl::StatusCode::kUnavailable, "between here and the service"));
  const CannedServer without_etag(
      CannedHttp("206 Partial Content", "text", "Content-Range: bytes 0-3/4\r\n"));
  EXPECT_THAT(fs_->OpenInput(At(without_etag, "id:sec@", "x")),
              IsStatus(absl::StatusCode::kUnavailable, "has no ETag"));
}

// A clock that tests advance during retry delays; servers see the real time of day.
class DelaysClock : public base::FakeClock {
 public:
  double UnixSeconds() override { return base::Clock::Real()->UnixSeconds(); }
};

// Fixture: a real server behind a proxy that adds latency and faults.
class RemoteS3 : public testing::Test {
 protected:
  static constexpr int kFiles = 5;

  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(Emulator * s3, Emulator::S3());
    ASSERT_OK_AND_ASSIGN(bucket_, s3->MakeBucket(*SharedFileSystem()));
    proxy_.emplace(LatencyProxyOptions{.upstream_port = s3->port(), .round_trip_seconds = 0.002});
    for (int i = 0; i < kFiles; ++i) {
      files_.push_back(RandomBytes(2 * kMiB + 333333 * i));
      const std::string uri = JoinPath(bucket_, absl::StrCat(i));
      ASSERT_OK(WriteFile(*SharedFileSystem(), uri, files_.back()));
      uris_.push_back(absl::StrReplaceAll(
          uri, {{absl::StrCat(":", s3->port()), absl::StrCat(":", proxy_->port())}}));
    }
  }

  std::shared_ptr<FileSystem> Make() {
    return MakeS3FileSystem(
        MakeMemoryFileSystem(),
        {.http = {.threads = 1,
                  .clock = &clock_,
                  .before_wait =
                      [this](const auto& wait) {
                        if (wait.active == 0 && std::isfinite(wait.seconds) && wait.seconds > 0) {
                          clock_.Advance(wait.seconds);
                        }
                      }},
         .retry_limit_seconds = 100000});
  }

  DelaysClock clock_;
  std::string bucket_;
  std::optional<LatencyProxy> proxy_;
  std::vector<std::string> files_;
  std::vector<std::string> uris_;
};

TEST_F(RemoteS3, SurvivesConnectionFailuresAndOutages) {
  std::atomic<int> unavailable = 0, cut = 0;
  proxy_->SetFaults([&](int connection) {
    base::Random random(base::MixSeeds(5, connection));
    switch (random.Below(3)) {
      case 0:
        ++unavailable;
        return LatencyProxy::Fault{.unavailable = true};
      case 1:
        ++cut;
        return LatencyProxy::Fault{.cut_after = static_cast<int64_t>(random.Below(3 * kMiB / 2))};
      default:
        return LatencyProxy::Fault{};
    }
  });
  const auto fs = Make();
  base::ThreadPool pool(kFiles);
  std::atomic<int> wrong = 0;
  base::ParallelFor(pool, 0, kFiles, [&](int64_t i) {
    const auto read = ReadFile(*fs, uris_[i]);
    if (!read.ok() || *read != files_[i]) ++wrong;
    const auto file = fs->OpenRandomAccess(uris_[i]);
    std::string part(kMiB, '\0');
    if (!file.ok() || !(*file)->Read(12345, absl::MakeSpan(part.data(), kMiB)).ok() ||
        files_[i].compare(12345, kMiB, part) != 0) {
      ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(unavailable, 0);
  EXPECT_GT(cut, 0);
}

TEST_F(RemoteS3, ReportsReplacedFile) {
  const auto fs = Make();
  ASSERT_OK_AND_ASSIGN(const auto stream, fs->OpenInput(uris_[4]));
  ASSERT_OK_AND_ASSIGN(const auto file, fs->OpenRandomAccess(uris_[4]));
  EXPECT_FALSE(file->version().empty());
  EXPECT_EQ(file->version(), stream->version());
  ASSERT_OK(
      WriteFile(*SharedFileSystem(), JoinPath(bucket_, "4"), std::string(files_[4].size(), 'x')));
  std::string read(files_[4].size(), '\0');
  EXPECT_THAT(file->Read(0, absl::MakeSpan(read.data(), read.size())),
              IsStatus(absl::StatusCode::kAborted, "replaced or removed"));
  EXPECT_THAT(stream->Read(absl::MakeSpan(read.data(), read.size())),
              IsStatus(absl::StatusCode::kAborted, "replaced or removed"));
  ASSERT_OK_AND_ASSIGN(const std::string again, ReadFile(*fs, uris_[4]));
  EXPECT_TRUE(again == std::string(files_[4].size(), 'x'));
}

}  // namespace s3_file_system_test
}  // namespace penstock::io
