#include "penstock/io/gcs/gcs_reader.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/io/testing/scripted_gcs.h"
#include "penstock/io/testing/status_assertions.h"

namespace penstock::io {
namespace gcs_reader_test {

// Returns the tokens t1, t2, ... on each call, or t1 until it is rejected; or an error.
class Authorizer : public HttpAuthorizer {
 public:
  absl::StatusOr<std::string> Authorization() override {
    if (!error.ok()) return error;
    if (renews_always) ++number;
    return absl::StrCat("Bearer t", number);
  }
  void OnRejected(const std::string& authorization) override {
    refused.push_back(authorization);
    if (renews) ++number;
  }

  absl::Status error;
  bool renews_always = false;
  bool renews = true;
  int number = 0;
  std::vector<std::string> refused;
};

class GcsReaders : public testing::Test {
 protected:
  // gs:// sends no credentials without TLS; the reader sends whatever it receives.
  GcsReader Make(std::shared_ptr<HttpAuthorizer> authorizer) {
    return GcsReader(http_, FindGcsEndpoint(uri_), std::move(authorizer), /*seed=*/1);
  }

  const std::shared_ptr<HttpClient> http_ = std::make_shared<HttpClient>();
  ScriptedGcs gcs_;
  const Uri uri_ = ParseUri(gcs_.Uri("file")).value();
};

TEST_F(GcsReaders, SendTheirCredentialsWithEveryRequest) {
  gcs_.Put("file", std::string(1000, 'x'));
  const auto authorizer = std::make_shared<Authorizer>();
  authorizer->renews_always = true;
  GcsReader reader = Make(authorizer);
  ASSERT_OK_AND_ASSIGN(const StoredObject object, reader.Stat(uri_));
  EXPECT_EQ(object.size, 1000);
  std::string bytes(10, '\0');
  std::mutex mutex;
  std::condition_variable came;
  std::optional<ObjectRangeResult> end;
  reader.Read(object, {.offset = 5, .out = absl::MakeSpan(&bytes[0], 10)},
              [&](ObjectRangeResult e) {
                std::lock_guard lock(mutex);
                end = std::move(e);
                came.notify_one();
              });
  std::unique_lock lock(mutex);
  came.wait(lock, [&] { return end.has_value(); });
  EXPECT_OK(end->status);
  EXPECT_EQ(bytes, std::string(10, 'x'));
  EXPECT_EQ(gcs_.requests().at(0).authorization, "Bearer t1");
  EXPECT_EQ(gcs_.requests().at(1).authorization, "Bearer t2");
}

TEST_F(GcsReaders, SendNoRequestWithoutCredentials) {
  const auto authorizer = std::make_shared<Authorizer>();
  authorizer->error = absl::PermissionDeniedError("no token");
  GcsReader reader = Make(authorizer);
  EXPECT_THAT(reader.Stat(uri_), IsStatus(absl::StatusCode::kPermissionDenied, "no token"));
  ObjectRangeResult end;
  char c;
  reader.Read({.uri = uri_}, {.offset = 0, .out = absl::MakeSpan(&c, 1)},
              [&](ObjectRangeResult e) { end = std::move(e); });
  EXPECT_THAT(end.status, IsStatus(absl::StatusCode::kPermissionDenied, "no token"));
  EXPECT_TRUE(gcs_.requests().empty());
}

TEST_F(GcsReaders, RetryOnceWithNewTokenWhenRejected) {
  gcs_.Put("file", "text");
  gcs_.SetScript([](const ScriptedGcs::Request& request) {
    return ScriptedGcs::Fault{.status = request.authorization == "Bearer t0" ? 401 : 0};
  });
  const auto authorizer = std::make_shared<Authorizer>();
  ASSERT_OK_AND_ASSIGN(const StoredObject object, Make(authorizer).Stat(uri_));
  EXPECT_EQ(object.size, 4);
  EXPECT_THAT(authorizer->refused, testing::ElementsAre("Bearer t0"));
}

TEST_F(GcsReaders, ReportRejectedCredentials) {
  gcs_.SetScript([](const ScriptedGcs::Request&) { return ScriptedGcs::Fault{.status = 401}; });
  for (const bool renews : {false, true}) {
    const auto authorizer = std::make_shared<Authorizer>();
    authorizer->renews = renews;
    const size_t before = gcs_.requests().size();
    EXPECT_THAT(Make(authorizer).Stat(uri_),
                IsStatus(absl::StatusCode::kUnauthenticated, "gcloud auth"));
    EXPECT_EQ(gcs_.requests().size() - before, renews ? 2u : 1u);
  }
}

}  // namespace gcs_reader_test
}  // namespace penstock::io
