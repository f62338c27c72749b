// AWS credentials and region for s3://, searched for in the order of the AWS client:
//
//   s3://KEY:SECRET@BUCKET/...               the URI itself, percent-encoded
//   AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
//   ~/.aws/credentials and ~/.aws/config     keys of the profile that AWS_PROFILE names (or
//                                            "default"). AWS_SHARED_CREDENTIALS_FILE and
//                                            AWS_CONFIG_FILE are other paths of
//                                            these files.
//
// Credentials that must be requested from another service (an assumed role, single sign-on,
// container or instance metadata) are not supported here: then `needs_aws_client` is set, and the
// AWS client reads. Without keys and with AWS_EC2_METADATA_DISABLED=true, requests are anonymous.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/clock.h"
#include "penstock/io/s3/aws_signature.h"
#include "penstock/io/uri.h"

namespace penstock::io {

struct AwsCredentials {
  std::optional<AwsKey> key;  // no value: anonymous, unless `needs_aws_client`
  bool needs_aws_client = false;
  std::string region;  // of AWS_REGION or the profile; empty if not set
};

absl::StatusOr<AwsCredentials> FindAwsCredentials(const Uri& uri);

// The key that signs requests. Key files are reloaded every 5 minutes and when the service rejects
// the key, because programs that renew temporary keys rewrite them. Thread-safe.
class AwsKeys {
 public:
  static constexpr double kReloadSeconds = 300;

  // `found` is the result of FindAwsCredentials for `uri`.
  AwsKeys(Uri uri, AwsCredentials found, base::Clock* clock);

  // The current key; no value if requests are anonymous.
  std::optional<AwsKey> Get();
  // To be called after the service rejected a request signed with the key of that id. True if there
  // is a new key.
  bool Reload(absl::string_view rejected_id);

 private:
  void Load();

  const Uri uri_;
  base::Clock* const clock_;

  std::mutex mutex_;
  std::optional<AwsKey> key_;  // guarded by mutex_
  double found_at_;
};

// Value of `name` in a section ("default", "profile x") of an INI file; "" if not found.
std::string IniValue(absl::string_view text, absl::string_view section, absl::string_view name);

}  // namespace penstock::io
