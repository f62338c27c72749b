#include "penstock/io/s3/aws_credentials.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/base/random.h"
#include "penstock/io/testing/status_assertions.h"

namespace penstock::io {
namespace aws_credentials_test {

constexpr char kKeys[] = R"(# a comment
[default]
aws_access_key_id = ID
aws_secret_access_key=SECRET/+=

[ other ]
aws_access_key_id=ID2
aws_secret_access_key=SECRET2
aws_session_token = TOKEN2
)";

constexpr char kConfig[] = R"([default]
region = eu-west-1
[profile other]
region=eu-north-1
[profile role]
role_arn = arn:aws:iam::1:role/x
)";

// An isolated environment without this machine's credentials.
class Credentials : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE",
          "AWS_DEFAULT_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_WEB_IDENTITY_TOKEN_FILE",
          "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"}) {
      ::unsetenv(name);
    }
    ::setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    ::setenv("HOME", home_.c_str(), 1);
    std::filesystem::create_directories(home_ + "/.aws");
  }
  void TearDown() override { std::filesystem::remove_all(home_); }

  void WriteFiles() {
    std::ofstream(home_ + "/.aws/credentials") << kKeys;
    std::ofstream(home_ + "/.aws/config") << kConfig;
  }

  static AwsCredentials Find(absl::string_view uri = "s3://b/x") {
    return FindAwsCredentials(ParseUri(uri).value()).value();
  }

  const std::string home_ =
      absl::StrCat(testing::TempDir(), "/aws_", absl::Hex(base::EntropySeed()));
};

TEST_F(Credentials, AreEmptyByDefault) {
  const AwsCredentials found = Find();
  EXPECT_FALSE(found.key.has_value());
  EXPECT_FALSE(found.needs_aws_client);
  EXPECT_EQ(found.region, "");
}

TEST_F(Credentials, ComeFromTheUriFirst) {
  WriteFiles();
  const AwsCredentials found = Find("s3://id:a%2Fb%2B@b/x");
  EXPECT_EQ(found.key->id, "id");
  EXPECT_EQ(found.key->secret, "a/b+");
  EXPECT_EQ(found.key->session_token, "");
  EXPECT_THAT(FindAwsCredentials(ParseUri("s3://id@b/x").value()),
              IsStatus(absl::StatusCode::kInvalidArgument, "KEY:SECRET"));
}

TEST_F(Credentials, ComeFromTheEnvironmentBeforeFiles) {
  WriteFiles();
  ::setenv("AWS_ACCESS_KEY_ID", "env", 1);
  EXPECT_EQ(Find().key->id, "ID");  // an incomplete key is ignored
  ::setenv("AWS_SECRET_ACCESS_KEY", "s", 1);
  ::setenv("AWS_SESSION_TOKEN", "t", 1);
  ::setenv("AWS_REGION", "r", 1);
  const AwsCredentials found = Find();
  EXPECT_EQ(found.key->id, "env");
  EXPECT_EQ(found.key->secret, "s");
  EXPECT_EQ(found.key->session_token, "t");
  EXPECT_EQ(found.region, "r");
}

TEST_F(Credentials, ComeFromTheProfile) {
  WriteFiles();
  EXPECT_EQ(Find().key->secret, "SECRET/+=");
  EXPECT_EQ(Find().region, "eu-west-1");
  ::setenv("AWS_PROFILE", "other", 1);
  EXPECT_EQ(Find().key->id, "ID2");
  EXPECT_EQ(Find().key->session_token, "TOKEN2");
  EXPECT_EQ(Find().region, "eu-north-1");
}

TEST_F(Credentials, AreDelegatedIfAnotherServiceProvidesThem) {
  WriteFiles();
  ::setenv("AWS_PROFILE", "role", 1);
  EXPECT_TRUE(Find().needs_aws_client);
  ::setenv("AWS_PROFILE", "none", 1);
  EXPECT_FALSE(Find().needs_aws_client);
  ::setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/x", 1);
  EXPECT_TRUE(Find().needs_aws_client);
  ::unsetenv("AWS_WEB_IDENTITY_TOKEN_FILE");
  ::unsetenv("AWS_EC2_METADATA_DISABLED");
  EXPECT_TRUE(Find().needs_aws_client);
}

TEST(IniValue, AcceptsMalformedIniFiles) {
  for (const char* text : {"", "[", "]", "=", "[]\n=", "[default", "a=b", "[default]\n\n=x\na"}) {
    EXPECT_EQ(IniValue(text, "default", "a"), "") << text;
  }
  EXPECT_EQ(IniValue("[default]\r\na = b=c\r\n", "default", "a"), "b=c");
}

}  // namespace aws_credentials_test
}  // namespace penstock::io
