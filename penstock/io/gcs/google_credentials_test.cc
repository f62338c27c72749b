#include "penstock/io/gcs/google_credentials.h"

#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include <gtest/gtest.h>

#include "penstock/base/clock.h"
#include "penstock/io/local/local_file_system.h"
#include "penstock/io/testing/canned_server.h"
#include "penstock/io/testing/empty_home.h"
#include "penstock/io/testing/status_assertions.h"
#include "penstock/io/uri.h"

namespace penstock::io {
namespace google_credentials_test {

constexpr absl::Duration kLong = absl::Seconds(30);

class GoogleCredentials : public testing::Test {
 protected:
  static void AskMetadataAt(const CannedServer& server) {
    ::setenv("GCE_METADATA_ROOT", absl::StrCat("127.0.0.1:", server.port()).c_str(), 1);
  }

  const EmptyHome home_;
};

TEST_F(GoogleCredentials, AreNotFoundByDefault) { EXPECT_FALSE(GoogleCredentialsExist(kLong)); }

TEST_F(GoogleCredentials, AreFoundByEnvironment) {
  ::setenv("GOOGLE_APPLICATION_CREDENTIALS", "/some/key.json", 1);
  EXPECT_TRUE(GoogleCredentialsExist(kLong));
}

TEST_F(GoogleCredentials, AreFoundInGcloudFolder) {
  ASSERT_OK(WriteFile(
      *MakeLocalFileSystem(),
      JoinPath(home_.folder(), ".config/gcloud/application_default_credentials.json"), "{}"));
  EXPECT_TRUE(GoogleCredentialsExist(kLong));
  ::setenv("CLOUDSDK_CONFIG", home_.folder().c_str(), 1);
  EXPECT_FALSE(GoogleCredentialsExist(kLong));
}

TEST_F(GoogleCredentials, ComeFromTheMetadataServerOfAGoogleMachine) {
  const CannedServer server(CannedHttp("200 OK", "0.1/\n", "Metadata-Flavor: Google\r\n"));
  AskMetadataAt(server);
  EXPECT_TRUE(GoogleCredentialsExist(kLong));
}

TEST_F(GoogleCredentials, AreNotFoundOnAnotherCloud) {
  const CannedServer server(CannedHttp("401 Unauthorized", "no", "Server: EC2ws\r\n"));
  AskMetadataAt(server);
  EXPECT_FALSE(GoogleCredentialsExist(kLong));
}

TEST_F(GoogleCredentials, AreSearchedAgainUntilFound) {
  const CannedServer silent(CannedHttp("404 Not Found", ""));
  AskMetadataAt(silent);
  base::FakeClock clock;
  GoogleCredentialsSearch search(&clock);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(search.Found());
  EXPECT_EQ(silent.requests().size(), 1u) << "not at each request";
  const std::string file =
      JoinPath(home_.folder(), ".config/gcloud/application_default_credentials.json");
  ASSERT_OK(WriteFile(*MakeLocalFileSystem(), file, "{}"));
  clock.Advance(4);
  EXPECT_FALSE(search.Found());
  clock.Advance(1);
  EXPECT_TRUE(search.Found());
  EXPECT_EQ(silent.requests().size(), 1u);
  std::filesystem::remove(file);
  clock.Advance(1000);
  EXPECT_TRUE(search.Found()) << "those that were found stay";
}

TEST_F(GoogleCredentials, OfSlowMetadataServerAreFoundOneMinuteLater) {
  base::FakeClock clock;
  GoogleCredentialsSearch search(&clock);
  EXPECT_FALSE(search.Found());
  const CannedServer server(CannedHttp("200 OK", "0.1/\n", "Metadata-Flavor: Google\r\n"));
  AskMetadataAt(server);
  clock.Advance(59);
  EXPECT_FALSE(search.Found());
  clock.Advance(6);
  EXPECT_TRUE(search.Found());
}

TEST_F(GoogleCredentials, SearchEndsAfterTimeout) {
  const CannedServer silent("");
  AskMetadataAt(silent);
  EXPECT_FALSE(GoogleCredentialsExist(absl::Milliseconds(20)));
}

}  // namespace google_credentials_test
}  // namespace penstock::io
