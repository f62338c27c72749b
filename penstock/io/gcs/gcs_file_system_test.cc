#include "penstock/io/gcs/gcs_file_system.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/base/clock.h"
#include "penstock/base/random.h"
#include "penstock/base/thread_pool.h"
#include "penstock/io/arrow/arrow_file_system.h"
#include "penstock/io/testing/emulator.h"
#include "penstock/io/testing/fake_time.h"
#include "penstock/io/testing/file_system_conformance.h"
#include "penstock/io/testing/latency_proxy.h"
#include "penstock/io/testing/random_bytes.h"
#include "penstock/io/testing/scripted_gcs.h"
#include "penstock/io/testing/status_assertions.h"
#include "penstock/io/uri.h"

namespace penstock::io {
namespace gcs_file_system_test {

using Fault = ScriptedGcs::Fault;
using Request = ScriptedGcs::Request;

constexpr int64_t kMiB = 1 << 20;

const std::shared_ptr<FileSystem>& SharedFileSystem() {
  static const auto* const fs =
      new std::shared_ptr<FileSystem>(MakeGcsFileSystem(MakeArrowFileSystem()));
  return *fs;
}

INSTANTIATE_TEST_SUITE_P(Gcs, FileSystemConformance,
                         ConformanceOf([]() -> absl::StatusOr<FileSystemUnderTest> {
                           PENSTOCK_ASSIGN_OR_RETURN(Emulator * gcs, Emulator::Gcs());
                           PENSTOCK_ASSIGN_OR_RETURN(std::string bucket,
                                                     gcs->MakeBucket(*SharedFileSystem()));
                           return FileSystemUnderTest{SharedFileSystem(), JoinPath(bucket, "root"),
                                                      /*many_files=*/1100};
                         }));

TEST(GcsEmulator, IsSelectedByEnvironment) {
  ASSERT_OK_AND_ASSIGN(const Emulator* gcs, Emulator::Gcs());
  const std::string host = absl::StrCat("127.0.0.1:", gcs->port());
  const std::map<const char*, std::string> names = {{"STORAGE_EMULATOR_HOST", "http://" + host},
                                                    {"CLOUD_STORAGE_EMULATOR_ENDPOINT", host}};
  for (const auto& [name, value] : names) {
    SCOPED_TRACE(name);
    ::setenv(name, value.c_str(), 1);
    const auto fs = MakeGcsFileSystem(MakeArrowFileSystem());
    const std::string bucket = absl::StrCat("gs://env-", value.size());
    EXPECT_OK(fs->CreateFolder(bucket + "?project_id=p"));
    EXPECT_OK(WriteFile(*fs, bucket + "/x", "text"));
    const auto read = ReadFile(*fs, bucket + "/x");
    const auto listed = fs->List(bucket);
    ::unsetenv(name);
    ASSERT_OK(read);
    EXPECT_EQ(*read, "text");
    ASSERT_OK(listed);
    EXPECT_EQ(listed->size(), 1u);
  }
}

// Fixture: a server that follows the test's script, and a clock that advances during retry delays
// and while connections hang.
class GcsReads : public testing::Test {
 protected:
  std::shared_ptr<FileSystem> Make(GcsFileSystemOptions options = {}) {
    options.http = time_.Http();
    options.seed = 1;
    return MakeGcsFileSystem(MakeArrowFileSystem(), options);
  }

  // Writes an object, reads it under the script, and expects its exact bytes.
  void ExpectReadsAll(int64_t size, ScriptedGcs::Script script) {
    const std::string bytes = RandomBytes(size);
    gcs_.Put("file", bytes);
    gcs_.SetScript(std::move(script));
    ASSERT_OK_AND_ASSIGN(const std::string read, ReadFile(*fs_, gcs_.Uri("file")));
    EXPECT_TRUE(read == bytes);
  }

  // Number of requests by the first byte of their range.
  std::map<int64_t, int> CountByBegin() {
    std::map<int64_t, int> count;
    for (const Request& request : gcs_.requests()) ++count[request.begin];
    return count;
  }

  FakeTime time_{[this] { return gcs_.hung(); }};
  ScriptedGcs gcs_;
  const std::shared_ptr<FileSystem> fs_ = Make();
};

TEST_F(GcsReads, OpensAndReadsSmallFileInOneRequest) {
  gcs_.Put("folder/a b?c", "text");
  ASSERT_OK_AND_ASSIGN(const std::string read, ReadFile(*fs_, gcs_.Uri("folder/a b?c")));
  EXPECT_EQ(read, "text");
  EXPECT_EQ(gcs_.requests().size(), 1u);
}

TEST_F(GcsReads, ReadsFilesOfAnySize) {
  for (const int64_t size : {int64_t{0}, int64_t{1}, kMiB - 1, kMiB, kMiB + 1, 9 * kMiB + 17}) {
    SCOPED_TRACE(size);
    ExpectReadsAll(size, nullptr);
  }
}

TEST_F(GcsReads, KeepsSeveralRangesInFlightForAStream) {
  gcs_.HoldUntil(4);
  ExpectReadsAll(12 * kMiB, nullptr);
  EXPECT_GE(gcs_.max_in_flight(), 4);
}

TEST_F(GcsReads, SendsGenerationPreconditionAfterFirstRange) {
  ExpectReadsAll(9 * kMiB, nullptr);
  std::set<int64_t> generations;
  for (const Request& request : gcs_.requests()) {
    EXPECT_EQ(request.generation == 0, request.number == 0);
    if (request.generation != 0) generations.insert(request.generation);
  }
  EXPECT_EQ(generations.size(), 1u);
}

TEST_F(GcsReads, RequestsEachByteOnceWithoutFaults) {
  ExpectReadsAll(9 * kMiB + 5, nullptr);
  int64_t asked = 0;
  for (const Request& request : gcs_.requests()) asked += request.end - request.begin;
  EXPECT_EQ(asked, 9 * kMiB + 5);
}

TEST_F(GcsReads, StaysWithinReadAheadBudget) {
  const auto fs = Make({.read_ahead_bytes = 1});
  const std::string bytes = RandomBytes(6 * kMiB);
  gcs_.Put("file", bytes);
  ASSERT_OK_AND_ASSIGN(const std::string read, ReadFile(*fs, gcs_.Uri("file")));
  EXPECT_TRUE(read == bytes);
  EXPECT_EQ(gcs_.max_in_flight(), 1);
}

TEST_F(GcsReads, ReadsRangesConcurrently) {
  const std::string bytes = RandomBytes(kMiB);
  gcs_.Put("file", bytes);
  gcs_.HoldUntil(16);
  ASSERT_OK_AND_ASSIGN(const auto file, fs_->OpenRandomAccess(gcs_.Uri("file")));
  base::ThreadPool pool(16);
  std::atomic<int> wrong = 0;
  base::ParallelFor(pool, 0, 256, [&](int64_t i) {
    std::string part(4096, '\0');
    const auto n = file->Read(i * 4096, absl::MakeSpan(&part[0], part.size()));
    if (!n.ok() || *n != 4096 || bytes.compare(i * 4096, 4096, part) != 0) ++wrong;
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_GE(gcs_.max_in_flight(), 16);
  EXPECT_LE(gcs_.connections(), 18);
}

TEST_F(GcsReads, SplitsLargeRangeIntoConcurrentRequests) {
  const std::string bytes = RandomBytes(30 * kMiB);
  gcs_.Put("file", bytes);
  gcs_.HoldUntil(4);
  ASSERT_OK_AND_ASSIGN(const auto file, fs_->OpenRandomAccess(gcs_.Uri("file")));
  std::string read(bytes.size(), '\0');
  ASSERT_OK_AND_ASSIGN(const int64_t n, file->Read(1, absl::MakeSpan(&read[0], read.size())));
  EXPECT_EQ(n, 30 * kMiB - 1);
  EXPECT_TRUE(bytes.compare(1, n, read, 0, n) == 0);
  EXPECT_GE(gcs_.max_in_flight(), 4);
}

TEST_F(GcsReads, ReusesConnections) {
  gcs_.Put("file", RandomBytes(1000));
  for (int i = 0; i < 20; ++i) ASSERT_OK(ReadFile(*fs_, gcs_.Uri("file")));
  EXPECT_EQ(gcs_.connections(), 1);
}

TEST_F(GcsReads, ReportsReplacedFile) {
  const std::string uri = gcs_.Uri("file");
  for (const bool removed : {false, true}) {
    SCOPED_TRACE(removed);
    gcs_.Put("file", RandomBytes(5 * kMiB));
    ASSERT_OK_AND_ASSIGN(const auto stream, fs_->OpenInput(uri));
    ASSERT_OK_AND_ASSIGN(const auto file, fs_->OpenRandomAccess(uri));
    removed ? gcs_.Remove("file") : gcs_.Put("file", std::string(5 * kMiB, 'x'));
    std::string read(5 * kMiB, '\0');
    for (int i = 0; i < 2; ++i) {  // the error is sticky
      EXPECT_THAT(stream->Read(absl::MakeSpan(&read[0], read.size())),
                  IsStatus(absl::StatusCode::kAborted, "'gs://bucket/file'"));
    }
    EXPECT_THAT(file->Read(0, absl::MakeSpan(&read[0], read.size())),
                IsStatus(absl::StatusCode::kAborted, "replaced or removed"));
  }
}

TEST_F(GcsReads, DetectsResponseOfAnotherGeneration) {
  // For example from a cache that ignores the precondition; accepting it would mix two versions.
  gcs_.Put("file", RandomBytes(3 * kMiB));
  ASSERT_OK_AND_ASSIGN(const auto file, fs_->OpenRandomAccess(gcs_.Uri("file")));
  gcs_.Put("file", RandomBytes(3 * kMiB));
  gcs_.IgnoreGenerations();
  char c;
  EXPECT_THAT(file->Read(0, absl::MakeSpan(&c, 1)),
              IsStatus(absl::StatusCode::kAborted, "'gs://bucket/file'"));
}

TEST_F(GcsReads, ResumesAtByteWhereConnectionFailed) {
  ExpectReadsAll(kMiB / 2, [](const Request& request) {
    return Fault{.cut_after = request.begin < 300000 ? 100000 : -1};
  });
  std::vector<int64_t> begins;
  for (const Request& request : gcs_.requests()) begins.push_back(request.begin);
  EXPECT_THAT(begins, testing::ElementsAre(0, 100000, 200000, 300000));
  EXPECT_EQ(gcs_.requests()[1].generation, 1001);  // the generation of the first response
}

TEST_F(GcsReads, ResumesAfterShortResponse) {
  ExpectReadsAll(kMiB / 2, [](const Request& request) {
    return Fault{.cut_after = request.begin < 300000 ? 100000 : -1, .understates_length = true};
  });
  EXPECT_EQ(gcs_.requests().size(), 4u);
}

TEST_F(GcsReads, RetriesAfterEmptyResponse) {
  ExpectReadsAll(3 * kMiB, [](const Request& request) {
    return Fault{.cut_after = request.number % 2 == 0 ? 0 : -1};
  });
}

TEST_F(GcsReads, SurvivesRepeated503) {
  std::mutex mutex;
  std::map<int64_t, int> tries;
  ExpectReadsAll(5 * kMiB, [&](const Request& request) {
    std::lock_guard lock(mutex);
    const int codes[] = {503, 429, 500, 408, 502};
    const int n = tries[request.begin]++;
    return Fault{.status = n < 5 ? codes[n] : 0};
  });
  for (const auto& [begin, count] : CountByBegin()) EXPECT_EQ(count, 6) << begin;
  EXPECT_GT(time_.Seconds(), 2);  // the retries were delayed
}

TEST_F(GcsReads, ObeysRetryAfter) {
  ExpectReadsAll(100, [](const Request& request) {
    return Fault{.status = request.number == 0 ? 429 : 0, .header = "Retry-After: 30\r\n"};
  });
  EXPECT_GE(time_.Seconds(), 30);
}

TEST_F(GcsReads, GivesUpAfterRetryLimit) {
  gcs_.Put("file", RandomBytes(3 * kMiB));
  ASSERT_OK_AND_ASSIGN(const auto stream, fs_->OpenInput(gcs_.Uri("file")));
  gcs_.SetScript([](const Request&) { return Fault{.status = 503}; });
  std::string read(3 * kMiB, '\0');
  EXPECT_THAT(stream->Read(absl::MakeSpan(&read[0], read.size())),
              IsStatus(absl::StatusCode::kUnavailable, "'gs://bucket/file'"));
  // The time of the last attempt. Each range measures from its own first attempt, which may follow
  // delays of other ranges.
  EXPECT_GT(time_.Seconds(), 59.999);
  EXPECT_LT(time_.Seconds(), 60 + 16);
  EXPECT_THAT(fs_->OpenInput(gcs_.Uri("file", "&retry_limit_seconds=1")),
              IsStatus(absl::StatusCode::kUnavailable, "503"));
  EXPECT_THAT(fs_->OpenRandomAccess(gcs_.Uri("file", "&retry_limit_seconds=1")),
              IsStatus(absl::StatusCode::kUnavailable, "503"));
}

TEST_F(GcsReads, AbortsStalledConnection) {
  ExpectReadsAll(3 * kMiB, [](const Request& request) {
    return Fault{.cut_after = request.begin == kMiB ? 100000 : -1, .then = Fault::kHang};
  });
  EXPECT_EQ(gcs_.hung(), 1);
  EXPECT_GE(time_.Seconds(), 20);
  EXPECT_EQ(CountByBegin()[kMiB + 100000], 1);
}

TEST_F(GcsReads, AbortsTricklingConnection) {
  ExpectReadsAll(3 * kMiB, [](const Request& request) {
    return Fault{.cut_after = request.begin == kMiB ? 100000 : -1, .then = Fault::kTrickle};
  });
  EXPECT_EQ(gcs_.hung(), 1);
  EXPECT_GE(time_.Seconds(), 20);
}

TEST_F(GcsReads, GivesUpWhenAllConnectionsStall) {
  gcs_.Put("file", RandomBytes(3 * kMiB));
  gcs_.SetScript([](const Request&) { return Fault{.cut_after = 0, .then = Fault::kHang}; });
  EXPECT_THAT(fs_->OpenInput(gcs_.Uri("file")),
              IsStatus(absl::StatusCode::kUnavailable, "stalled"));
  EXPECT_GE(gcs_.hung(), 2);
}

// Random faults of all kinds: no byte is lost or duplicated, and no truncation is taken for the
// end.
TEST_F(GcsReads, SurvivesAllFaultsAtOnce) {
  std::vector<std::string> files;
  for (int i = 0; i < 6; ++i) {
    files.push_back(RandomBytes(2 * kMiB + 111111 * i));
    gcs_.Put(absl::StrCat(i), files.back());
  }
  gcs_.SetScript(ScriptedGcs::RandomFault);
  base::ThreadPool pool(6);
  std::atomic<int> wrong = 0;
  base::ParallelFor(pool, 0, files.size(), [&](int64_t i) {
    const std::string uri = gcs_.Uri(absl::StrCat(i), "&retry_limit_seconds=100000");
    const auto read = ReadFile(*fs_, uri);
    if (!read.ok() || *read != files[i]) ++wrong;
    const auto file = fs_->OpenRandomAccess(uri);
    std::string part(kMiB, '\0');
    if (!file.ok() || !(*file)->Read(12345, absl::MakeSpan(&part[0], kMiB)).ok() ||
        files[i].compare(12345, kMiB, part) != 0) {
      ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_F(GcsReads, ReleasesPartiallyReadStreams) {
  gcs_.Put("file", RandomBytes(20 * kMiB));
  gcs_.SetScript([](const Request& request) {
    return Fault{.cut_after = request.begin % (3 * kMiB) != 0 ? 1000 : -1, .then = Fault::kHang};
  });
  // The clock does not advance here: hanging requests end because their stream is released, not
  // because they time out.
  const auto fs = MakeGcsFileSystem(MakeArrowFileSystem(), {.http = {.clock = &time_.clock()}});
  for (int i = 0; i < 50; ++i) {
    const auto stream = fs->OpenInput(gcs_.Uri("file"));
    if (i % 3 == 0) {
      ASSERT_OK(stream);
      std::string part(1000, '\0');
      ASSERT_OK((*stream)->Read(absl::MakeSpan(&part[0], part.size())));
    }
  }
}

TEST_F(GcsReads, ReportsPermissionDeniedWithoutRetry) {
  for (const auto& [status, code, text] :
       {std::tuple(401, absl::StatusCode::kUnauthenticated, "the credentials were rejected"),
        std::tuple(403, absl::StatusCode::kPermissionDenied, "permission denied")}) {
    SCOPED_TRACE(status);
    gcs_.SetScript([status = status](const Request&) { return Fault{.status = status}; });
    const size_t before = gcs_.requests().size();
    for (const absl::Status& error : {fs_->OpenInput(gcs_.Uri("file")).status(),
                                      fs_->OpenRandomAccess(gcs_.Uri("file")).status()}) {
      EXPECT_THAT(error, IsStatus(code, absl::StrCat("cannot open 'gs://bucket/file': ", text)));
      EXPECT_THAT(error, IsStatus(code, "gcloud auth"));
      EXPECT_THAT(error, IsStatus(code, "as the script says"));
    }
    EXPECT_EQ(gcs_.requests().size(), before + 2);
  }
}

TEST_F(GcsReads, RejectsProxyPage) {
  gcs_.SetScript([](const Request&) { return Fault{.page = "<html>Log in to the hotel</html>"}; });
  EXPECT_THAT(fs_->OpenInput(gcs_.Uri("file")),
              IsStatus(absl::StatusCode::kUnavailable, "between here and the service"));
  EXPECT_THAT(fs_->OpenRandomAccess(gcs_.Uri("file")),
              IsStatus(absl::StatusCode::kUnavailable, "between here and the service"));
}

TEST_F(GcsReads, RejectsUnknownOptions) {
  EXPECT_THAT(fs_->OpenInput("gs://b/x?endpont_override=127.0.0.1"),
              IsStatus(absl::StatusCode::kInvalidArgument, "endpoint_override"));
  EXPECT_THAT(fs_->OpenInput("s3://b/x"), IsStatus(absl::StatusCode::kInvalidArgument, "gs://"));
}

TEST_F(GcsReads, ReportsUnreachableServer) {
  // A privileged port, so no other process of this user can listen on it.
  EXPECT_THAT(fs_->OpenInput("gs://anonymous@b/x?scheme=http&endpoint_override=127.0.0.1:1"),
              IsStatus(absl::StatusCode::kUnavailable, "did not respond"));
}

TEST(GcsEmulator, ListsVersions) {
  ASSERT_OK_AND_ASSIGN(Emulator * gcs, Emulator::Gcs());
  ASSERT_OK_AND_ASSIGN(const std::string bucket, gcs->MakeBucket(*SharedFileSystem()));
  const std::string uri = JoinPath(bucket, "d/file");
  std::vector<std::string> versions;
  for (const char* text : {"old", "new"}) {
    ASSERT_OK(WriteFile(*SharedFileSystem(), uri, text));
    ASSERT_OK_AND_ASSIGN(const auto listed, SharedFileSystem()->List(JoinPath(bucket, "d")));
    ASSERT_EQ(listed.size(), 1);
    ASSERT_OK_AND_ASSIGN(const auto all, SharedFileSystem()->ListRecursive(bucket));
    ASSERT_EQ(all.size(), 1);
    ASSERT_OK_AND_ASSIGN(const auto stream, SharedFileSystem()->OpenInput(uri));
    ASSERT_OK_AND_ASSIGN(const auto file, SharedFileSystem()->OpenRandomAccess(uri));
    EXPECT_EQ(listed[0].version, stream->version());
    EXPECT_EQ(listed[0].version, file->version());
    EXPECT_EQ(listed[0].version, all[0].version);
    EXPECT_GT(listed[0].modified_unix_seconds, 1e9);
    versions.push_back(listed[0].version);
    EXPECT_OK(OpenInputOfVersion(*SharedFileSystem(), uri, listed[0].version));
  }
  ASSERT_NE(versions[0], versions[1]);
  EXPECT_THAT(OpenRandomAccessOfVersion(*SharedFileSystem(), uri, versions[0]),
              IsStatus(absl::StatusCode::kAborted, "was replaced since it was listed"));
}

// Fixture: a real server behind a proxy that adds latency and faults.
class RemoteGcs : public testing::Test {
 protected:
  static constexpr int kFiles = 6;

  void Start(double round_trip_seconds) {
    ASSERT_OK_AND_ASSIGN(Emulator * gcs, Emulator::Gcs());
    ASSERT_OK_AND_ASSIGN(const std::string bucket, gcs->MakeBucket(*SharedFileSystem()));
    proxy_.emplace(LatencyProxyOptions{.upstream_port = gcs->port(),
                                       .round_trip_seconds = round_trip_seconds});
    for (int i = 0; i < kFiles; ++i) {
      files_.push_back(RandomBytes(2 * kMiB + 333333 * i));
      const std::string uri = JoinPath(bucket, absl::StrCat(i));
      ASSERT_OK(WriteFile(*SharedFileSystem(), uri, files_.back()));
      uris_.push_back(absl::StrReplaceAll(
          uri, {{absl::StrCat(":", gcs->port()), absl::StrCat(":", proxy_->port())},
                {"retry_limit_seconds=10", "retry_limit_seconds=100000"}}));
    }
  }

  // Reads all files concurrently; retry delays take no real time.
  void ExpectReadsAll() {
    const auto fs = MakeGcsFileSystem(MakeArrowFileSystem(), {.http = time_.Http()});
    base::ThreadPool pool(kFiles);
    std::atomic<int> wrong = 0;
    base::ParallelFor(pool, 0, kFiles, [&](int64_t i) {
      const auto read = ReadFile(*fs, uris_[i]);
      if (!read.ok() || *read != files_[i]) ++wrong;
    });
    EXPECT_EQ(wrong, 0);
  }

  FakeTime time_;
  std::optional<LatencyProxy> proxy_;
  std::vector<std::string> files_;
  std::vector<std::string> uris_;
};

TEST_F(RemoteGcs, ReadsSameBytes) {
  Start(/*round_trip_seconds=*/0.02);
  const double begin = base::Clock::Real()->Seconds();
  ExpectReadsAll();
  // One round trip for the connection, and one for the request.
  EXPECT_GE(base::Clock::Real()->Seconds() - begin, 0.04);
  EXPECT_LE(proxy_->connections(), 6 * 4);
}

TEST_F(RemoteGcs, SurvivesConnectionFailuresAndOutages) {
  Start(/*round_trip_seconds=*/0.002);
  std::atomic<int> unavailable = 0, cut = 0;
  proxy_->SetFaults([&](int connection) {
    base::Random random(base::MixSeeds(3, connection));
    switch (random.Below(3)) {
      case 0:
        ++unavailable;
        return LatencyProxy::Fault{.unavailable = true};
      case 1:
        ++cut;  // within headers, within a body, or between two responses
        return LatencyProxy::Fault{.cut_after = static_cast<int64_t>(random.Below(3 * kMiB / 2))};
      default:
        return LatencyProxy::Fault{};
    }
  });
  ExpectReadsAll();
  EXPECT_GT(unavailable, 0);
  EXPECT_GT(cut, 0);
}

}  // namespace gcs_file_system_test
}  // namespace penstock::io
