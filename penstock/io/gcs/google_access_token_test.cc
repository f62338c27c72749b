#include "penstock/io/gcs/google_access_token.h"

#include <cstdlib>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include "penstock/base/thread_pool.h"
#include "penstock/io/testing/canned_server.h"
#include "penstock/io/testing/empty_home.h"
#include "penstock/io/testing/fake_time.h"
#include "penstock/io/testing/status_assertions.h"

namespace penstock::io {
namespace google_access_token_test {

using Json = nlohmann::json;

class GoogleAccessTokens : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<GoogleAccessToken>> Make(const Json& file) {
    ::setenv("GOOGLE_APPLICATION_CREDENTIALS", home_.Put("key.json", file.dump()).c_str(), 1);
    return GoogleAccessToken::FromDefaultChain(http_);
  }
  static Json User(const CannedServer& server) {
    return {{"type", "authorized_user"},
            {"client_id", "id"},
            {"client_secret", "se&cret"},
            {"refresh_token", "1//re=fresh"},
            {"token_uri", absl::StrCat("http://127.0.0.1:", server.port(), "/token")}};
  }

  const EmptyHome home_;
  FakeTime time_;
  const std::shared_ptr<HttpClient> http_ = std::make_shared<HttpClient>(time_.Http());
};

TEST_F(GoogleAccessTokens, OfServiceAccountAreSignedWithItsKey) {
  const std::unique_ptr<EVP_PKEY, decltype(&::EVP_PKEY_free)> key(::EVP_RSA_gen(2048),
                                                                  &::EVP_PKEY_free);
  const std::unique_ptr<BIO, decltype(&::BIO_free_all)> pem(::BIO_new(::BIO_s_mem()),
                                                            &::BIO_free_all);
  ASSERT_EQ(::PEM_write_bio_PrivateKey(pem.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr),
            1);
  char* text = nullptr;
  const long size = ::BIO_get_mem_data(pem.get(), &text);
  ASSERT_OK_AND_ASSIGN(const auto tokens, Make({{"type", "service_account"},
                                                {"client_email", "me@p.iam"},
                                                {"private_key_id", "k1"},
                                                {"private_key", std::string(text, size)}}));
  ASSERT_OK_AND_ASSIGN(const std::string authorization, tokens->Authorization());
  ASSERT_TRUE(absl::StartsWith(authorization, "Bearer "));
  const std::vector<std::string> parts = absl::StrSplit(authorization.substr(7), '.');
  ASSERT_EQ(parts.size(), 3u);

  std::string header, claims, signature;
  ASSERT_TRUE(absl::WebSafeBase64Unescape(parts[0], &header));
  ASSERT_TRUE(absl::WebSafeBase64Unescape(parts[1], &claims));
  ASSERT_TRUE(absl::WebSafeBase64Unescape(parts[2], &signature));
  EXPECT_EQ(Json::parse(header), (Json{{"alg", "RS256"}, {"typ", "JWT"}, {"kid", "k1"}}));
  const Json claim = Json::parse(claims);
  EXPECT_EQ(claim["iss"], "me@p.iam");
  EXPECT_EQ(claim["sub"], "me@p.iam");
  EXPECT_EQ(claim["exp"].get<int64_t>() - claim["iat"].get<int64_t>(), 3600);
  EXPECT_THAT(claim["scope"].get<std::string>(), testing::HasSubstr("devstorage.read_only"));

  const std::string signed_text = parts[0] + "." + parts[1];
  const std::unique_ptr<EVP_MD_CTX, decltype(&::EVP_MD_CTX_free)> check(::EVP_MD_CTX_new(),
                                                                        &::EVP_MD_CTX_free);
  ASSERT_EQ(::EVP_DigestVerifyInit(check.get(), nullptr, ::EVP_sha256(), nullptr, key.get()), 1);
  EXPECT_EQ(::EVP_DigestVerify(
                check.get(), reinterpret_cast<unsigned char*>(signature.data()), signature.size(),
                reinterpret_cast<const unsigned char*>(signed_text.data()), signed_text.size()),
            1);
}

TEST_F(GoogleAccessTokens, OfUserAreRequestedWithRefreshToken) {
  const CannedServer server(
      CannedHttp("200 OK", R"({"access_token": "ya29.x", "expires_in": 3599})"));
  ASSERT_OK_AND_ASSIGN(const auto tokens, Make(User(server)));
  ASSERT_OK_AND_ASSIGN(const std::string authorization, tokens->Authorization());
  EXPECT_EQ(authorization, "Bearer ya29.x");
  ASSERT_EQ(server.requests().size(), 1u);
  EXPECT_THAT(server.requests()[0], testing::StartsWith("POST /token "));
  EXPECT_THAT(server.requests()[0],
              testing::EndsWith("\r\n\r\ngrant_type=refresh_token&client_id=id"
                                "&client_secret=se%26cret&refresh_token=1%2F%2Fre%3Dfresh"));
}

TEST_F(GoogleAccessTokens, AreReusedUntilNearExpiry) {
  const CannedServer server(CannedHttp("200 OK", R"({"access_token": "t", "expires_in": 3600})"));
  ASSERT_OK_AND_ASSIGN(const auto tokens, Make(User(server)));
  base::ThreadPool pool(4);
  base::ParallelFor(pool, 0, 64, [&](int64_t) { EXPECT_OK(tokens->Authorization()); });
  EXPECT_EQ(server.requests().size(), 1u);
  time_.clock().Advance(3299);
  EXPECT_OK(tokens->Authorization());
  EXPECT_EQ(server.requests().size(), 1u);
  time_.clock().Advance(2);
  EXPECT_OK(tokens->Authorization());
  EXPECT_EQ(server.requests().size(), 2u);
}

TEST_F(GoogleAccessTokens, ComeFromMetadataServer) {
  const CannedServer server(CannedHttp("200 OK", R"({"access_token": "m", "expires_in": 3600})",
                                       "Metadata-Flavor: Google\r\n"));
  ::setenv("GCE_METADATA_ROOT", absl::StrCat("127.0.0.1:", server.port()).c_str(), 1);
  ASSERT_OK_AND_ASSIGN(const auto tokens, GoogleAccessToken::FromDefaultChain(http_));
  ASSERT_OK_AND_ASSIGN(const std::string authorization, tokens->Authorization());
  EXPECT_EQ(authorization, "Bearer m");
  EXPECT_THAT(server.requests().at(0), testing::HasSubstr("Metadata-Flavor: Google"));
}

TEST_F(GoogleAccessTokens, ReportWhyUnavailable) {
  const CannedServer revoked(CannedHttp(
      "400 Bad Request", R"({"error": "invalid_grant", "error_description": "was revoked"})"));
  ASSERT_OK_AND_ASSIGN(auto tokens, Make(User(revoked)));
  EXPECT_THAT(tokens->Authorization(), IsStatus(absl::StatusCode::kUnauthenticated, "was revoked"));
  EXPECT_THAT(tokens->Authorization(), IsStatus(absl::StatusCode::kUnauthenticated, "gcloud auth"));
  const CannedServer busy(CannedHttp("503 Busy", "{}"));
  ASSERT_OK_AND_ASSIGN(tokens, Make(User(busy)));
  EXPECT_THAT(tokens->Authorization(), IsStatus(absl::StatusCode::kUnavailable, "503"));
  EXPECT_GT(busy.requests().size(), 2u);
}

TEST_F(GoogleAccessTokens, RejectUnsupportedFiles) {
  EXPECT_THAT(Make({{"type", "external_account"}}),
              IsStatus(absl::StatusCode::kUnimplemented, "external_account"));
  EXPECT_THAT(Make({{"type", "service_account"}, {"client_email", "a@b"}}),
              IsStatus(absl::StatusCode::kUnauthenticated, "key.json"));
  EXPECT_THAT(Make({{"typ", "x"}}), IsStatus(absl::StatusCode::kUnauthenticated, "no type"));
  ::setenv("GOOGLE_APPLICATION_CREDENTIALS", "/no/such/key.json", 1);
  EXPECT_THAT(GoogleAccessToken::FromDefaultChain(http_),
              IsStatus(absl::StatusCode::kUnauthenticated, "/no/such/key.json"));
  ::setenv("GOOGLE_APPLICATION_CREDENTIALS", home_.folder().c_str(), 1);  // a folder
  EXPECT_THAT(GoogleAccessToken::FromDefaultChain(http_),
              IsStatus(absl::StatusCode::kUnauthenticated, home_.folder()));
}

// A token server with the given responses, in order.
class TokenServer {
 public:
  explicit TokenServer(std::vector<std::string> responses) : server_(std::move(responses)) {}
  static std::string Token(absl::string_view text, int lifetime) {
    return CannedHttp("200 OK", absl::StrCat(R"({"access_token": ")", text, R"(", "expires_in": )",
                                             lifetime, "}"));
  }
  const CannedServer& server() const { return server_; }

 private:
  const CannedServer server_;
};

TEST_F(GoogleAccessTokens, AreReusedUntilExpiryIfRenewalFails) {
  const TokenServer server({TokenServer::Token("T1", 3600), CannedHttp("503 Busy", "{}")});
  ASSERT_OK_AND_ASSIGN(const auto tokens, Make(User(server.server())));
  ASSERT_OK_AND_ASSIGN(const std::string first, tokens->Authorization());
  EXPECT_EQ(first, "Bearer T1");
  time_.clock().Advance(3400);
  base::ThreadPool pool(4);
  base::ParallelFor(pool, 0, 16, [&](int64_t) {
    const auto authorization = tokens->Authorization();
    ASSERT_OK(authorization);
    EXPECT_EQ(*authorization, "Bearer T1");
  });
  EXPECT_LT(time_.Seconds(), 3400 + 10);
  const size_t asked = server.server().requests().size();
  ASSERT_OK(tokens->Authorization());
  EXPECT_EQ(server.server().requests().size(), asked);  // retried later, not on every call
  time_.clock().Advance(300);
  EXPECT_THAT(tokens->Authorization(), IsStatus(absl::StatusCode::kUnavailable, "503"));
}

TEST_F(GoogleAccessTokens, ShareFailureAmongWaiters) {
  const CannedServer busy(CannedHttp("503 Busy", "{}"));
  ASSERT_OK_AND_ASSIGN(const auto tokens, Make(User(busy)));
  base::ThreadPool pool(8);
  base::ParallelFor(pool, 0, 8, [&](int64_t) {
    EXPECT_THAT(tokens->Authorization(), IsStatus(absl::StatusCode::kUnavailable, "503"));
  });
  // Serial attempts would take 8 times the retry limit.
  EXPECT_LT(time_.Seconds(), 8 * 60);
}

TEST_F(GoogleAccessTokens, AreReplacedWhenRejected) {
  const TokenServer server({TokenServer::Token("T1", 3600), TokenServer::Token("T2", 3600)});
  ASSERT_OK_AND_ASSIGN(const auto tokens, Make(User(server.server())));
  ASSERT_OK_AND_ASSIGN(const std::string first, tokens->Authorization());
  tokens->OnRejected(first);
  ASSERT_OK_AND_ASSIGN(const std::string second, tokens->Authorization());
  EXPECT_EQ(second, "Bearer T2");
  tokens->OnRejected(first);  // by a request that was sent before the renewal
  ASSERT_OK_AND_ASSIGN(const std::string third, tokens->Authorization());
  EXPECT_EQ(third, "Bearer T2");
}

TEST_F(GoogleAccessTokens, AreNotParsedFromProxyPage) {
  const TokenServer server({CannedHttp("200 OK", "<html>log in</html>"),
                            CannedHttp("404 Not Found", "<html>default backend</html>"),
                            TokenServer::Token("T1", 3600)});
  ASSERT_OK_AND_ASSIGN(const auto tokens, Make(User(server.server())));
  ASSERT_OK_AND_ASSIGN(const std::string first, tokens->Authorization());
  EXPECT_EQ(first, "Bearer T1");
}

}  // namespace google_access_token_test
}  // namespace penstock::io
