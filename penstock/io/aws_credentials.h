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

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/io/aws_signature.h"
#include "penstock/io/uri.h"

namespace penstock::io {

struct AwsCredentials {
  std::optional<AwsKey> key;  // none: anonymous, unless they are elsewhere
  bool elsewhere = false;
  std::string region;  // the profile's or AWS_REGION's; empty when none is named
};

absl::StatusOr<AwsCredentials> FindAwsCredentials(const Uri& uri);

// The value of `name` in a section ("default", "profile x") of an INI file; "" when there is none.
std::string IniValue(absl::string_view text, absl::string_view section, absl::string_view name);

}  // namespace penstock::io
