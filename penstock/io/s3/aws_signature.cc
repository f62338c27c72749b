#include "penstock/io/s3/aws_signature.h"

#include <cmath>
#include <ctime>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include "penstock/base/status.h"

namespace penstock::io {
namespace {

std::string HexSha256(absl::string_view text) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest), sizeof(digest)});
}

std::string HmacSha256(absl::string_view key, absl::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  PENSTOCK_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                      reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest,
                      &size) != nullptr);
  return std::string(reinterpret_cast<const char*>(digest), size);
}

// ISO 8601 basic format: 20130524T000000Z
std::string TimeStamp(double unix_seconds) {
  const std::time_t seconds = static_cast<std::time_t>(std::floor(unix_seconds));
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  char text[32];
  return std::string(text, std::strftime(text, sizeof(text), "%Y%m%dT%H%M%SZ", &utc));
}

}  // namespace

std::vector<std::string> SignAwsRequest(const AwsRequest& request, const AwsKey& key,
                                        double unix_seconds) {
  const std::string now = TimeStamp(unix_seconds);
  const std::string day = now.substr(0, 8);
  const std::string body_hash = HexSha256("");

  std::map<std::string, std::string> headers = request.headers;
  headers["x-amz-date"] = now;
  // Only S3 requires the body's hash among the headers.
  if (request.service == "s3") headers["x-amz-content-sha256"] = body_hash;
  if (!key.session_token.empty()) headers["x-amz-security-token"] = key.session_token;
  std::vector<std::string> lines;
  for (const auto& [name, value] : headers) lines.push_back(absl::StrCat(name, ": ", value));

  headers["host"] = request.host;  // added by the HTTP client itself
  std::string canonical_headers, names;
  for (const auto& [name, value] : headers) {
    absl::StrAppend(&canonical_headers, name, ":", value, "\n");
    absl::StrAppend(&names, names.empty() ? "" : ";", name);
  }
  const std::string canonical =
      absl::StrCat(request.method, "\n", request.path, "\n", request.query, "\n", canonical_headers,
                   "\n", names, "\n", body_hash);
  const std::string scope =
      absl::StrCat(day, "/", request.region, "/", request.service, "/aws4_request");
  const std::string to_sign =
      absl::StrCat("AWS4-HMAC-SHA256\n", now, "\n", scope, "\n", HexSha256(canonical));
  std::string signing_key = HmacSha256(absl::StrCat("AWS4", key.secret), day);
  for (const absl::string_view part :
       {absl::string_view(request.region), absl::string_view(request.service),
        absl::string_view("aws4_request")}) {
    signing_key = HmacSha256(signing_key, part);
  }
  lines.push_back(absl::StrCat(
      "Authorization: AWS4-HMAC-SHA256 Credential=", key.id, "/", scope, ",SignedHeaders=", names,
      ",Signature=", absl::BytesToHexString(HmacSha256(signing_key, to_sign))));
  return lines;
}

}  // namespace penstock::io
