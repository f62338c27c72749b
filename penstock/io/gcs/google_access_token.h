// OAuth 2.0 access tokens for requests to Google's services, from Google's default credentials
// chain.
//
//   a service account's key file         a token signed here, without asking anyone (AIP-4111)
//   gcloud's file (authorized_user)      a token for the refresh token in it
//   the metadata server                  a token of the machine's service account
//
// Other types of credentials files (federation, impersonation) are Unimplemented.
//
// Errors concern credentials and are never NotFound: a file that is missing, malformed or revoked
// is Unauthenticated, a file without read permission is PermissionDenied; a token server that does
// not respond is Unavailable, after the retries of http_retry.h.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"

#include "penstock/io/http/http_authorizer.h"
#include "penstock/io/http/http_client.h"

namespace penstock::io {

// Thread-safe.
class GoogleAccessToken : public HttpAuthorizer {
 public:
  // Uses the credentials that google_credentials.h finds now.
  static absl::StatusOr<std::unique_ptr<GoogleAccessToken>> FromDefaultChain(
      std::shared_ptr<HttpClient> http);

  // "Bearer ya29...". One thread renews the token in the last five minutes (or half) of its
  // lifetime while the others keep using it. If that fails, the token is used until it expires, and
  // renewal is tried again 30 seconds later. Without a valid token one thread fetches one, and the
  // threads that wait for it share its success or failure.
  absl::StatusOr<std::string> Authorization() override;
  void OnRejected(const std::string& authorization) override;

 protected:
  struct Token {
    std::string text;
    double lifetime_seconds = 0;
  };

  explicit GoogleAccessToken(std::shared_ptr<HttpClient> http) : http_(std::move(http)) {}
  // Requests a new token; gives up after `timeout_seconds` seconds.
  virtual absl::StatusOr<Token> RequestToken(double timeout_seconds) = 0;
  // {"access_token": "...", "expires_in": 3599}
  absl::StatusOr<Token> Fetch(HttpRequest request, absl::string_view from_whom,
                              double timeout_seconds);

  const std::shared_ptr<HttpClient> http_;

 private:
  // A token request in flight, and its result.
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
