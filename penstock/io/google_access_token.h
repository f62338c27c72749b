// Who asks, for requests to Google's services: OAuth access tokens from Google's default chain.
//
//   a service account's key file         a token signed here, without asking anyone (AIP-4111)
//   gcloud's file (authorized_user)      a token for the refresh token in it
//   the metadata server                  a token of the machine's service account
//
// Other kinds of files (federation, impersonation) are Unimplemented.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"

#include "penstock/io/http_client.h"

namespace penstock::io {

// Any thread may use it.
class GoogleAccessToken {
 public:
  // What google_credentials.h finds now.
  static absl::StatusOr<std::unique_ptr<GoogleAccessToken>> FromDefaultChain(
      std::shared_ptr<HttpClient> http);

  virtual ~GoogleAccessToken() = default;

  // "Bearer ya29...": the value of the header field Authorization. A token is used until five
  // minutes before its end; one thread then gets the next while others wait for it.
  absl::StatusOr<std::string> Authorization();

 protected:
  struct Token {
    std::string text;
    double lifetime_seconds = 0;
  };

  explicit GoogleAccessToken(std::shared_ptr<HttpClient> http) : http_(std::move(http)) {}
  virtual absl::StatusOr<Token> Get() = 0;
  // {"access_token": "...", "expires_in": 3599}
  absl::StatusOr<Token> Fetch(HttpRequest request, absl::string_view from_whom);

  const std::shared_ptr<HttpClient> http_;

 private:
  std::mutex mutex_;
  std::string token_;
  double renew_at_ = 0;
};

}  // namespace penstock::io
