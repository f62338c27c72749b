#include "penstock/io/gcs/google_access_token.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/io/gcs/google_credentials.h"
#include "penstock/io/http/http_retry.h"
#include "penstock/io/json_text.h"

namespace penstock::io {
namespace {

using Json = nlohmann::json;

constexpr char kScope[] = "https://www.googleapis.com/auth/devstorage.read_only";

struct KeyDeleter {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using Key = std::unique_ptr<EVP_PKEY, KeyDeleter>;

absl::Status BadFile(absl::string_view file, absl::string_view why) {
  return absl::UnauthenticatedError(
      absl::StrCat("the credentials in '", file, "' ", why,
                   "; create new ones, or check GOOGLE_APPLICATION_CREDENTIALS"));
}

Key ReadKey(const std::string& pem) {
  const std::unique_ptr<BIO, decltype(&::BIO_free_all)> text(
      ::BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &::BIO_free_all);
  return Key(::PEM_read_bio_PrivateKey(text.get(), nullptr, nullptr, nullptr));
}

// RS256: RSASSA-PKCS1-v1_5 with SHA-256 (RFC 7518, section 3.3).
std::optional<std::string> SignRs256(EVP_PKEY* key, const std::string& text) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&::EVP_MD_CTX_free)> context(::EVP_MD_CTX_new(),
                                                                          &::EVP_MD_CTX_free);
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  size_t size = 0;
  if (::EVP_DigestSignInit(context.get(), nullptr, ::EVP_sha256(), nullptr, key) != 1 ||
      ::EVP_DigestSign(context.get(), nullptr, &size, bytes, text.size()) != 1) {
    return std::nullopt;
  }
  std::string signature(size, '\0');
  if (::EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                       bytes, text.size()) != 1) {
    return std::nullopt;
  }
  signature.resize(size);
  return signature;
}

// https://google.aip.dev/auth/4111
class ServiceAccount : public GoogleAccessToken {
 public:
  ServiceAccount(std::shared_ptr<HttpClient> http, std::string file, std::string email,
                 std::string key_id, Key key)
      : GoogleAccessToken(std::move(http)),
        file_(std::move(file)),
        email_(std::move(email)),
        key_id_(std::move(key_id)),
        key_(std::move(key)) {}

 private:
  absl::StatusOr<Token> RequestToken(double) override {
    constexpr int64_t kLifetime = 3600;
    const auto now = static_cast<int64_t>(http_->clock()->UnixSeconds());
    const Json header = {{"alg", "RS256"}, {"typ", "JWT"}, {"kid", key_id_}};
    const Json claims = {{"iss", email_},
                         {"sub", email_},
                         {"scope", kScope},
                         {"iat", now},
                         {"exp", now + kLifetime}};
    const std::string text = absl::StrCat(absl::WebSafeBase64Escape(header.dump()), ".",
                                          absl::WebSafeBase64Escape(claims.dump()));
    const std::optional<std::string> signature = SignRs256(key_.get(), text);
    if (!signature) return BadFile(file_, "contain a key that cannot sign");
    return Token{.text = absl::StrCat(text, ".", absl::WebSafeBase64Escape(*signature)),
                 .lifetime_seconds = kLifetime};
  }

  const std::string file_;
  const std::string email_;
  const std::string key_id_;
  const Key key_;
};

// https://developers.google.com/identity/protocols/oauth2/web-server#offline
class AuthorizedUser : public GoogleAccessToken {
 public:
  AuthorizedUser(std::shared_ptr<HttpClient> http, std::string url, std::string form)
      : GoogleAccessToken(std::move(http)), url_(std::move(url)), form_(std::move(form)) {}

 private:
  absl::StatusOr<Token> RequestToken(double timeout_seconds) override {
    return Fetch({.url = url_, .post = form_}, "Google, for gcloud's credentials", timeout_seconds);
  }

  const std::string url_;
  const std::string form_;
};

// https://cloud.google.com/compute/docs/access/authenticate-workloads
class Machine : public GoogleAccessToken {
 public:
  explicit Machine(std::shared_ptr<HttpClient> http) : GoogleAccessToken(std::move(http)) {}

 private:
  absl::StatusOr<Token> RequestToken(double timeout_seconds) override {
    return Fetch(
        {.url = absl::StrCat("http://", GoogleMetadataHost(),
                             "/computeMetadata/v1/instance/service-accounts/default/token"),
         .headers = {"Metadata-Flavor: Google"}},
        "the metadata server of this machine", timeout_seconds);
  }
};

// Encodes a value for application/x-www-form-urlencoded.
std::string FormEncode(absl::string_view value) {
  std::string out;
  for (const char c : value) {
    if (absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.') {
      out += c;
    } else {
      absl::StrAppend(&out, "%",
                      absl::AsciiStrToUpper(absl::BytesToHexString(absl::string_view(&c, 1))));
    }
  }
  return out;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GoogleAccessToken>> GoogleAccessToken::FromDefaultChain(
    std::shared_ptr<HttpClient> http) {
  const std::string file = GoogleCredentialsFile();
  if (file.empty()) return std::make_unique<Machine>(std::move(http));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string text, ReadGoogleCredentialsFile(file));
  const Json json = ParseJson(text);
  const std::string type = JsonString(json, "type");
  if (type == "service_account") {
    const std::string email = JsonString(json, "client_email");
    Key key = ReadKey(JsonString(json, "private_key"));
    if (email.empty() || key == nullptr) return BadFile(file, "lack client_email or private_key");
    return std::make_unique<ServiceAccount>(std::move(http), file, email,
                                            JsonString(json, "private_key_id"), std::move(key));
  }
  if (type == "authorized_user") {
    const std::string form = absl::StrCat(
        "grant_type=refresh_token&client_id=", FormEncode(JsonString(json, "client_id")),
        "&client_secret=", FormEncode(JsonString(json, "client_secret")),
        "&refresh_token=", FormEncode(JsonString(json, "refresh_token")));
    return std::make_unique<AuthorizedUser>(
        std::move(http), JsonString(json, "token_uri", "https://oauth2.googleapis.com/token"),
        form);
  }
  if (type.empty()) return BadFile(file, "have no type");
  return absl::UnimplementedError(
      absl::StrCat("credentials of type '", type, "' are not supported"));
}

absl::StatusOr<std::string> GoogleAccessToken::Authorization() {
  std::unique_lock lock(mutex_);
  const double now = http_->clock()->Seconds();
  const bool is_valid = !token_.empty() && now < expires_at_;
  if (is_valid && (now < renew_at_ || flight_ != nullptr)) return absl::StrCat("Bearer ", token_);
  if (flight_ != nullptr) {
    const std::shared_ptr<const Flight> flight = flight_;
    ended_.wait(lock, [&] { return flight->ended; });
    PENSTOCK_RETURN_IF_ERROR(flight->status);
    return absl::StrCat("Bearer ", flight->token);
  }
  auto fetched = FetchAndShare(lock);
  // A token that could not be renewed in time remains valid until it expires.
  if (!fetched.ok() && !token_.empty() && http_->clock()->Seconds() < expires_at_) {
    return absl::StrCat("Bearer ", token_);
  }
  return fetched;
}

absl::StatusOr<std::string> GoogleAccessToken::FetchAndShare(std::unique_lock<std::mutex>& lock) {
  constexpr double kMargin = 300;
  constexpr double kRenewTimeoutSeconds =
      5;  // the caller still has a token and should not wait long
  constexpr double kRenewAgain = 30;
  const double began = http_->clock()->Seconds();
  const bool renews = !token_.empty() && began < expires_at_;
  const auto flight = std::make_shared<Flight>();
  flight_ = flight;
  lock.unlock();
  absl::StatusOr<Token> token = RequestToken(renews ? kRenewTimeoutSeconds : kRetryLimitSeconds);
  lock.lock();
  if (token.ok()) {
    token_ = token->text;
    expires_at_ = began + token->lifetime_seconds;
    renew_at_ = expires_at_ - std::min(kMargin, token->lifetime_seconds / 2);
  } else {
    renew_at_ = http_->clock()->Seconds() + kRenewAgain;
  }
  flight->ended = true;
  flight->status = token.status();
  flight->token = token_;
  flight_ = nullptr;
  ended_.notify_all();
  PENSTOCK_RETURN_IF_ERROR(flight->status);
  return absl::StrCat("Bearer ", flight->token);
}

void GoogleAccessToken::OnRejected(const std::string& authorization) {
  std::lock_guard lock(mutex_);
  if (authorization == absl::StrCat("Bearer ", token_)) token_.clear();
}

absl::StatusOr<GoogleAccessToken::Token> GoogleAccessToken::Fetch(HttpRequest request,
                                                                  absl::string_view from_whom,
                                                                  double timeout_seconds) {
  HttpRetry retry(*http_, timeout_seconds, base::EntropySeed(),
                  absl::StrCat("get an access token from ", from_whom));
  request.wait = retry.wait();
  HttpResponse response;
  for (;;) {
    response = http_->Fetch(request);
    const Json json = ParseJson(response.body);
    if (response.outcome == HttpResponse::Outcome::kComplete && response.status == 200) {
      Token token{.text = JsonString(json, "access_token")};
      if (json.is_object() && json.contains("expires_in") && json["expires_in"].is_number()) {
        token.lifetime_seconds = json["expires_in"].get<double>();
      }
      if (!token.text.empty()) return token;
    }
    // An error status without a JSON object is a proxy's page, except for the metadata server,
    // whose error bodies are plain text.
    const bool is_refusal = response.outcome == HttpResponse::Outcome::kComplete &&
                            response.status / 100 == 4 &&
                            (json.is_object() || !absl::StrContains(response.body, "<"));
    if (response.outcome == HttpResponse::Outcome::kComplete && !is_refusal &&
        !IsRetryable(response)) {
      response.error =
          absl::StrCat(DescribeOutcome(response),
                       ", but without a token; is a proxy between here and the service?");
      response.outcome = HttpResponse::Outcome::kNotFromService;
    }
    const std::optional<double> delay =
        IsRetryable(response) ? retry.NextDelay(response) : std::nullopt;
    if (!delay) break;
    request.delay_seconds = *delay;
  }
  const Json json = ParseJson(response.body);
  const std::string said = JsonString(json, "error_description", JsonString(json, "error"));
  const std::string message =
      absl::StrCat("no access token from ", from_whom, " (", DescribeOutcome(response),
                   said.empty() ? "" : ": ", said,
                   "); log in with 'gcloud auth application-default login' or set "
                   "GOOGLE_APPLICATION_CREDENTIALS");
  return IsRetryable(response) ? absl::UnavailableError(message)
                               : absl::UnauthenticatedError(message);
}

}  // namespace penstock::io
