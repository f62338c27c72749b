#include "penstock/io/gcs_reader.h"

#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/io/testing/scripted_gcs.h"
#include "penstock/io/testing/status_assertions.h"

namespace penstock::io {
namespace gcs_reader_test {

class GcsReaders : public testing::Test {
 protected:
  // gs:// sends no credentials without TLS; the reader sends what it is given.
  GcsReader Make(GcsReader::Authorize authorize) {
    return GcsReader(http_, FindGcsEndpoint(uri_), std::move(authorize), /*seed=*/1);
  }

  const std::shared_ptr<HttpClient> http_ = std::make_shared<HttpClient>();
  ScriptedGcs gcs_;
  const Uri uri_ = ParseUri(gcs_.Uri("file")).value();
};

TEST_F(GcsReaders, SendTheirCredentialsWithEveryRequest) {
  gcs_.Put("file", std::string(1000, 'x'));
  int asked = 0;
  GcsReader reader = Make([&] { return absl::StrCat("Bearer t", ++asked); });
  ASSERT_OK_AND_ASSIGN(const StoredObject object, reader.Find(uri_));
  EXPECT_EQ(object.size, 1000);
  std::string bytes(10, '\0');
  std::mutex mutex;
  std::condition_variable came;
  std::optional<ObjectRangeEnd> end;
  reader.Read(object, {.offset = 5, .out = absl::MakeSpan(&bytes[0], 10)}, [&](ObjectRangeEnd e) {
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

TEST_F(GcsReaders, AskNothingWithoutTheCredentialsTheyWant) {
  GcsReader reader = Make([] { return absl::PermissionDeniedError("no token"); });
  EXPECT_THAT(reader.Find(uri_), IsStatus(absl::StatusCode::kPermissionDenied, "no token"));
  ObjectRangeEnd end;
  char c;
  reader.Read({.uri = uri_}, {.offset = 0, .out = absl::MakeSpan(&c, 1)},
              [&](ObjectRangeEnd e) { end = std::move(e); });
  EXPECT_THAT(end.status, IsStatus(absl::StatusCode::kPermissionDenied, "no token"));
  EXPECT_TRUE(gcs_.requests().empty());
}

}  // namespace gcs_reader_test
}  // namespace penstock::io
