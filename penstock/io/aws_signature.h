// Signature Version 4, by which Amazon's services, and those that speak their protocol, know who
// asks (https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html). For
// requests without a body.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace penstock::io {

struct AwsKey {
  std::string id = {};             // AWS_ACCESS_KEY_ID
  std::string secret = {};         // AWS_SECRET_ACCESS_KEY
  std::string session_token = {};  // AWS_SESSION_TOKEN; empty for a key that does not expire
};

struct AwsRequest {
  std::string method = "GET";
  std::string host;        // with its port, when that is not the scheme's own
  std::string path = "/";  // percent-encoded, as it is sent
  std::string query = "";  // "a=1&b=", names sorted, percent-encoded
  // Besides Host: names in lower case, values as they are sent.
  std::map<std::string, std::string> headers = {};
  std::string service = "s3";
  std::string region;
};

// The header lines to send with the request: the request's own, and those that sign it.
std::vector<std::string> SignAwsRequest(const AwsRequest& request, const AwsKey& key,
                                        double unix_seconds);

}  // namespace penstock::io
