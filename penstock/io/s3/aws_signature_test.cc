#include "penstock/io/s3/aws_signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::io {
namespace aws_signature_test {

using testing::Contains;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr double k2013May24 = 1369353600;

// Examples from "Authenticating Requests: Using the Authorization Header" in the S3 API reference.
const AwsKey kS3Key = {.id = "AKIAIOSFODNN7EXAMPLE",
                       .secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                       .session_token = ""};

TEST(AwsSignature, MatchesS3ReferenceForRange) {
  const auto lines = SignAwsRequest({.host = "examplebucket.s3.amazonaws.com",
                                     .path = "/test.txt",
                                     .headers = {{"range", "bytes=0-9"}},
                                     .region = "us-east-1"},
                                    kS3Key, k2013May24);
  EXPECT_THAT(lines, Contains("range: bytes=0-9"));
  EXPECT_THAT(lines, Contains("x-amz-date: 20130524T000000Z"));
  EXPECT_EQ(lines.back(),
            "Authorization: AWS4-HMAC-SHA256 "
            "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
            "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(AwsSignature, MatchesS3ReferenceForQueries) {
  AwsRequest request = {
      .host = "examplebucket.s3.amazonaws.com", .query = "lifecycle=", .region = "us-east-1"};
  EXPECT_THAT(SignAwsRequest(request, kS3Key, k2013May24).back(),
              EndsWith("=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
  request.query = "max-keys=2&prefix=J";
  EXPECT_THAT(SignAwsRequest(request, kS3Key, k2013May24).back(),
              EndsWith("=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
}

// get-vanilla from the Signature Version 4 test suite, which is for a service other than S3.
TEST(AwsSignature, MatchesAwsTestSuite) {
  EXPECT_THAT(
      SignAwsRequest({.host = "example.amazonaws.com", .service = "service", .region = "us-east-1"},
                     {.id = "AKIDEXAMPLE",
                      .secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                      .session_token = ""},
                     1440938160)
          .back(),
      EndsWith("=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"));
}

TEST(AwsSignature, SignsSessionToken) {
  AwsKey key = kS3Key;
  key.session_token = "token";
  const auto lines = SignAwsRequest({.host = "h", .region = "r"}, key, k2013May24);
  EXPECT_THAT(lines, Contains("x-amz-security-token: token"));
  EXPECT_THAT(lines.back(), HasSubstr("x-amz-date;x-amz-security-token,"));
  EXPECT_THAT(SignAwsRequest({.host = "h", .region = "r"}, kS3Key, k2013May24),
              Not(Contains(HasSubstr("token"))));
}

}  // namespace aws_signature_test
}  // namespace penstock::io
