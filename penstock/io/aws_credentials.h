// Who asks, for s3://, and in which region: as the client of AWS finds it, looked for in this
// order.
//
//   s3://KEY:SECRET@BUCKET/...               the URI itself, percent-encoded
//   AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
//   ~/.aws/credentials and ~/.aws/config     keys of the profile that AWS_PROFILE names
//   ("default");
//                                            AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE move
//                                            them
//
// Keys that someone else has to be asked for (a role, single sign-on, a container's or a machine's
// metadata) are not: then `elsewhere` says so, and the client of AWS reads. Without keys and with
// AWS_EC2_METADATA_DISABLED=true, requests are anonymous.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/clock.h"
#include "penstock/io/aws_signature.h"
#include "penstock/io/uri.h"

namespace penstock::io {

struct AwsCredentials {
  std::optional<AwsKey> key;  // none: anonymous, unless they are elsewhere
  bool elsewhere = false;
  std::string region;  // the profile's or AWS_REGION's; empty when none is named
};

absl::StatusOr<AwsCredentials> FindAwsCredentials(const Uri& uri);

// The key that signs requests, read again every 5 minutes and when the service rejects it: programs
// that renew temporary keys write them into the files. Any thread may use it.
class AwsKeys {
 public:
  static constexpr double kRereadSeconds = 300;

  // `found` is what FindAwsCredentials has just returned for `uri`.
  AwsKeys(Uri uri, AwsCredentials found, base::Clock* clock);

  // No value: requests are anonymous.
  std::optional<AwsKey> Get();
  // The service rejected a request signed with the key of that id. True if there is a new key.
  bool Reread(absl::string_view refused_id);

 private:
  void Find();

  const Uri uri_;
  base::Clock* const clock_;

  std::mutex mutex_;
  std::optional<AwsKey> key_;  // guarded by mutex_
  double found_at_;
};

// The value of `name` in a section ("default", "profile x") of an INI file; "" when there is none.
std::string IniValue(absl::string_view text, absl::string_view section, absl::string_view name);

}  // namespace penstock::io
