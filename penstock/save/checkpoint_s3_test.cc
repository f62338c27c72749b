// Faults of an S3 service and of credentials, crossed with restoring, listing and saving
// checkpoints: the newest checkpoint or an error, never an older one and never NOT_FOUND; no
// complete checkpoint is removed.
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/io/gcs/gcs_file_system.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/io/s3/s3_file_system.h"
#include "penstock/io/testing/empty_home.h"
#include "penstock/io/testing/fake_time.h"
#include "penstock/io/testing/scripted_s3.h"
#include "penstock/io/testing/status_assertions.h"
#include "penstock/save/checkpoint.h"

namespace penstock::save {
namespace checkpoint_s3_test {

using io::CannedHttp;
using io::CannedResponse;
using Request = io::ScriptedS3::Request;

constexpr char kPage[] = "<html>The service is being maintained</html>";
constexpr char kObjects[] = "memory://bucket/run";

std::string Error(const std::string& status, absl::string_view code) {
  return CannedHttp(status, absl::StrCat("<Error><Code>", code, "</Code></Error>"));
}

struct NamedFault {
  const char* name;
  CannedResponse answer;
  int64_t body_bytes = -1;  // instead: the right answer up to here, then nothing, or the end

  CannedResponse To(const Request& request) const {
    if (body_bytes < 0 || request.is_head) return answer;
    const size_t body = request.correct_response.find("\r\n\r\n") + 4;
    return {request.correct_response.substr(0, body + body_bytes), answer.stays_open};
  }
};

std::vector<NamedFault> Faults() {
  return {{"Expired", {Error("400 Bad Request", "ExpiredToken")}},
          {"BadKey", {Error("403 Forbidden", "InvalidAccessKeyId")}},
          {"BadSignature", {Error("403 Forbidden", "SignatureDoesNotMatch")}},
          {"Forbidden", {Error("403 Forbidden", "AccessDenied")}},
          {"ForbiddenPage", {CannedHttp("403 Forbidden", kPage)}},
          {"Missing", {Error("404 Not Found", "NoSuchKey")}},
          {"MissingPage", {CannedHttp("404 Not Found", kPage)}},
          {"MissingText", {CannedHttp("404 Not Found", "default backend - 404")}},
          {"Replaced", {Error("412 Precondition Failed", "PreconditionFailed")}},
          {"Busy", {Error("503 Slow Down", "SlowDown")}},
          {"Broken", {CannedHttp("500 Internal Server Error", "")}},
          {"Page", {CannedHttp("200 OK", kPage)}},
          {"Garbage", {std::string("\x16\x03\x01\0\xff\xfe garbage\r\n\r\n", 18)}},
          {"Silence", {"", true}},
          {"StallInTheHead", {"HTTP/1.1 206 Partial Con", true}},
          {"StallInTheBody", {"", true}, 3},
          {"CutInTheBody", {"HTTP/1.1 200 OK\r\n"}, 3},
          {"EndlessHead", {absl::StrCat("HTTP/1.1 200 OK\r\nX: ", std::string(2 << 20, 'x'))}},
          {"LargeError", {CannedHttp("503 Busy", std::string(1 << 20, 'x'))}}};
}

Checkpoint MakeCheckpoint(int64_t step) {
  const auto value = static_cast<float>(step);
  return {.step = step, .arrays = {{"w", base::Array::Of<float>({2}, {value, 1})}}};
}

class CheckpointS3 : public testing::TestWithParam<NamedFault> {
 protected:
  static constexpr size_t kKeep = 2;

  CheckpointS3() { Reset(); }

  // Steps 100 and 200 are whole.
  void Reset() {
    s3_.SetScript({});
    (void)s3_.objects()->RemoveRecursively(kObjects);
    CheckpointManager manager(*s3_.objects(), kObjects, {.keep = kKeep});
    for (int64_t step : {100, 200}) EXPECT_TRUE(manager.Save(MakeCheckpoint(step)).ok());
  }

  // As the objects are, without the service.
  std::set<int64_t> CompleteSteps() {
    CheckpointManager manager(*s3_.objects(), kObjects, {.keep = kKeep});
    std::set<int64_t> steps;
    const absl::StatusOr<CheckpointList> list = manager.List();
    EXPECT_OK(list);
    for (const CheckpointInfo& info : list.ok() ? list->complete : std::vector<CheckpointInfo>()) {
      const absl::StatusOr<Checkpoint> read = manager.Read(info.step);
      EXPECT_OK(read);
      if (read.ok()) steps.insert(info.step);
    }
    return steps;
  }

  void ExpectTheNewestOrAnError(const absl::StatusOr<Restored>& restored) {
    if (restored.ok()) {
      EXPECT_EQ(restored->checkpoint.step, 200);
      EXPECT_TRUE(restored->skipped.empty());
      EXPECT_EQ(restored->checkpoint.arrays.Find("w")->values<float>()[0], 200);
      return;
    }
    EXPECT_FALSE(absl::IsNotFound(restored.status())) << restored.status();
    EXPECT_FALSE(absl::IsDataLoss(restored.status())) << restored.status();
    EXPECT_THAT(std::string(restored.status().message()), testing::HasSubstr("s3://bucket/run"));
    EXPECT_THAT(std::string(restored.status().message()), testing::Not(testing::HasSubstr("hush")));
  }

  // `use` with the fault at its first request, then at its second, and so on.
  void ForEachRequest(const std::function<void(CheckpointManager&)>& use, int at_least) {
    int number = 0;
    for (bool met = true; met && !HasFailure(); ++number) {
      SCOPED_TRACE(absl::StrCat("request ", number));
      const int first = s3_.requests();
      s3_.SetScript([&, first, number](const Request& r) {
        return r.number - first == number ? std::optional<CannedResponse>(GetParam().To(r))
                                          : std::nullopt;
      });
      CheckpointManager manager(*fs_, s3_.Uri("run"), {.keep = kKeep});
      use(manager);
      met = s3_.requests() - first > number;
    }
    EXPECT_GT(number, at_least);
  }

  io::ScriptedS3 s3_;
  io::FakeTime time_{[this] { return s3_.held(); }};
  const std::shared_ptr<io::FileSystem> fs_ =
      io::MakeS3FileSystem(s3_.Writer(), {.http = time_.Http(), .seed = 1});
};

INSTANTIATE_TEST_SUITE_P(Faults, CheckpointS3, testing::ValuesIn(Faults()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(CheckpointS3, TransientRequestFaultDoesNotFallBack) {
  ForEachRequest(
      [&](CheckpointManager& manager) {
        ExpectTheNewestOrAnError(manager.ReadLatest());
        const absl::StatusOr<Checkpoint> one = manager.Read(200);
        EXPECT_TRUE(one.ok() || !absl::IsNotFound(one.status())) << one.status();
        const absl::StatusOr<CheckpointList> list = manager.List();
        if (list.ok()) {
          EXPECT_EQ(list->complete.size(), 2u);
        }
      },
      10);
  EXPECT_EQ(CompleteSteps(), (std::set<int64_t>{100, 200}));
}

TEST_P(CheckpointS3, FaultWhileSavingRemovesNoNeededCheckpoint) {
  ForEachRequest(
      [&](CheckpointManager& manager) {
        (void)manager.ReadLatest();
        const absl::StatusOr<Saved> saved = manager.Save(MakeCheckpoint(300));
        std::set<int64_t> whole = CompleteSteps();
        EXPECT_TRUE(whole.contains(200));
        EXPECT_TRUE(whole.contains(100) || whole.contains(300));
        if (saved.ok()) {
          EXPECT_TRUE(whole.contains(300));
        }
        Reset();
      },
      10);
}

TEST_P(CheckpointS3, PersistentFaultIsAnErrorWithinTimeLimit) {
  for (const char* what : {"checkpoint.json", "state-", "step-00000200", ""}) {
    SCOPED_TRACE(what);
    s3_.SetScript([&](const Request& r) -> std::optional<CannedResponse> {
      // Listings are answered well: an empty one is what a service says of an empty folder.
      if (r.is_list || !absl::StrContains(r.object, what)) return std::nullopt;
      return GetParam().To(r);
    });
    const double began = time_.Seconds();
    CheckpointManager manager(*fs_, s3_.Uri("run"), {.keep = kKeep});
    const absl::StatusOr<Restored> restored = manager.ReadLatest();
    // An answer that is cut gets a little further each time.
    if (GetParam().body_bytes < 0) {
      EXPECT_FALSE(restored.ok());
    }
    ExpectTheNewestOrAnError(restored);
    (void)manager.Save(MakeCheckpoint(300));
    EXPECT_TRUE(CompleteSteps().contains(200));
    // Some ten requests, each up to its limit.
    EXPECT_LE(time_.Seconds() - began, 10 * 81.0);
    Reset();
  }
}

class CheckpointCredentials : public testing::Test {
 protected:
  const io::EmptyHome home_;
  io::FakeTime time_;
};

TEST_F(CheckpointCredentials, GoogleCredentialErrorsAreNoEmptyFolder) {
  const io::CannedServer revoked(CannedHttp("400 Bad Request", R"({"error": "invalid_grant"})"));
  const io::CannedServer busy(CannedHttp("503 Busy", "{}"));
  const io::CannedServer gone(CannedHttp("404 Not Found", kPage));
  const std::string files[] = {
      "/no/such/key.json",
      home_.folder(),
      home_.Put("empty", ""),
      home_.Put("page", kPage),
      home_.Put("no_key", R"({"type": "service_account", "client_email": "a@b"})"),
      home_.Put("revoked", io::EmptyHome::GoogleUser(revoked.port())),
      home_.Put("busy", io::EmptyHome::GoogleUser(busy.port())),
      home_.Put("gone", io::EmptyHome::GoogleUser(gone.port())),
      home_.Put("refused", io::EmptyHome::GoogleUser(1)),
  };
  for (const std::string& file : files) {
    SCOPED_TRACE(file);
    ::setenv("GOOGLE_APPLICATION_CREDENTIALS", file.c_str(), 1);
    const auto memory = io::MakeMemoryFileSystem();
    const auto fs = io::MakeGcsFileSystem(memory, {.http = time_.Http()});
    CheckpointManager manager(*fs, "gs://bucket/run");
    for (const absl::Status& status :
         {manager.ReadLatest().status(), manager.Read(200).status(), manager.List().status(),
          manager.Save(MakeCheckpoint(300)).status(), manager.RemoveNewerThan(0)}) {
      EXPECT_TRUE(absl::IsUnauthenticated(status) || absl::IsUnavailable(status)) << status;
    }
  }
}

// Keys in a file: missing, malformed, expired, and renewed by another process.
TEST_F(CheckpointCredentials, S3CredentialErrorsAreNoEmptyFolder) {
  io::ScriptedS3 s3;
  CheckpointManager direct(*s3.objects(), kObjects);
  ASSERT_OK(direct.Save(MakeCheckpoint(200)));
  const auto keys = [](absl::string_view id) {
    return absl::StrCat("[default]\naws_access_key_id = ", id, "\naws_secret_access_key = s\n");
  };
  const std::string file = home_.Put("credentials", "");
  ::setenv("AWS_SHARED_CREDENTIALS_FILE", file.c_str(), 1);
  for (const std::string& text : {std::string(), std::string("[default"), keys("old")}) {
    home_.Put("credentials", text);
    for (const char* code : {"AccessDenied", "ExpiredToken"}) {
      SCOPED_TRACE(absl::StrCat(text, code));
      s3.SetScript([&](const Request&) { return CannedResponse{Error("403 Forbidden", code)}; });
      const auto fs = io::MakeS3FileSystem(s3.Writer(), {.http = time_.Http()});
      CheckpointManager manager(*fs, s3.Uri("run", ""));
      for (const absl::Status& status :
           {manager.ReadLatest().status(), manager.Read(200).status(), manager.List().status(),
            manager.Save(MakeCheckpoint(300)).status(), manager.RemoveNewerThan(0)}) {
        EXPECT_TRUE(absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status)) << status;
      }
      EXPECT_EQ(direct.ReadLatest()->checkpoint.step, 200);
    }
  }
}

TEST_F(CheckpointCredentials, OfS3ThatWereRenewedAreUsedInTheMiddleOfAResume) {
  io::ScriptedS3 s3;
  CheckpointManager direct(*s3.objects(), kObjects);
  ASSERT_OK(direct.Save(MakeCheckpoint(200)));
  const auto keys = [](absl::string_view id) {
    return absl::StrCat("[default]\naws_access_key_id = ", id, "\naws_secret_access_key = s\n");
  };
  ::setenv("AWS_SHARED_CREDENTIALS_FILE", home_.Put("credentials", keys("old")).c_str(), 1);
  const auto fs = io::MakeS3FileSystem(s3.Writer(), {.http = time_.Http()});
  // The key expires at the third request; the file has a new one then.
  s3.SetScript([&](const Request& r) -> std::optional<CannedResponse> {
    if (r.number != 2) return std::nullopt;
    home_.Put("credentials", keys("new"));
    return CannedResponse{Error("400 Bad Request", "ExpiredToken")};
  });
  CheckpointManager manager(*fs, s3.Uri("run", ""));
  const absl::StatusOr<Restored> restored = manager.ReadLatest();
  ASSERT_OK(restored);
  EXPECT_EQ(restored->checkpoint.step, 200);
  EXPECT_GT(s3.requests(), 3);
}

}  // namespace checkpoint_s3_test
}  // namespace penstock::save
