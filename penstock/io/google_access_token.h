// Who asks, for requests to Google's services: OAuth access tokens from Google's default chain.
//
//   a service account's key file         a token signed here, without asking anyone (AIP-4111)
//   gcloud's file (authorized_user)      a token for the refresh token in it
//   the metadata server                  a token of the machine's service account
//
// Other kinds of files (federation, impersonation) are Unimplemented.
//
// Errors are about credentials and never NotFound: a file that is missing, malformed or revoked is
// Unauthenticated, a file without read permission is PermissionDenied; a token server that does not
// answer is Unavailable, after the retries of http_retry.h.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"

#include "penstock/io/http_authorizer.h"
#include "penstock/io/http_client.h"

namespace penstock::io {

// Any thread may use it.
class GoogleAccessToken : public HttpAuthorizer {
 public:
  // What google_credentials.h finds now.
  static absl::StatusOr<std::unique_ptr<GoogleAccessToken>> FromDefaultChain(
      std::shared_ptr<HttpClient> http);

  // "Bearer ya29...". One thread renews the token in the last five minutes (or half) of its
  // lifetime while the others keep using it. If that fails, the token is used until it expires, and
  // renewal is tried again 30 seconds later. Without a valid token one thread fetches one, and the
  // threads that wait for it share its success or failure.
  absl::StatusOr<std::string> Authorization() override;
  void Refused(const std::string& authorization) override;

 protected:
  struct Token {
    std::string text;
    double lifetime_seconds = 0;
  };

  explicit GoogleAccessToken(std::shared_ptr<HttpClient> http) : http_(std::move(http)) {}
  // Gives up after `patience` seconds.
  virtual absl::StatusOr<Token> Get(double patience) = 0;
  // {"access_token": "...", "expires_in": 3599}
  absl::StatusOr<Token> Fetch(HttpRequest request, absl::string_view from_whom, double patience);

  const std::shared_ptr<HttpClient> http_;

 private:
  // A fetch of a token, and its result.
  struct Flight {
    bool ended = false;
    absl::Status status;
    std::string token;
  };

  absl::StatusOr<std::string> FetchAndShare(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable ended_;
  // Guarded by mutex_.
  std::string token_;
  double renew_at_ = 0;
  double expires_at_ = 0;
  std::shared_ptr<Flight> flight_;  // null if none is in flight
};

}  // namespace penstock::io
