// AWS Signature Version 4, which authenticates requests to Amazon's services and compatible ones
// (https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html). For requests
// without a body.
//
// Why not libcurl's CURLOPT_AWS_SIGV4: Debian 12's libcurl (7.88.1, tested on loopback) signs query
// parameters in the given order, so that an unsorted query gets a signature that S3 rejects, and
// does not send x-amz-content-sha256, which S3 requires. Sorting the query, hashing the body and
// setting that header would remain with the caller, and other versions of libcurl handle queries
// differently. It would save only the HMAC chain, some 30 lines, which are tested against AWS's
// published examples.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace penstock::io {

struct AwsKey {
  std::string id = {};             // AWS_ACCESS_KEY_ID
  std::string secret = {};         // AWS_SECRET_ACCESS_KEY
  std::string session_token = {};  // AWS_SESSION_TOKEN; empty for a long-term key
};

struct AwsRequest {
  std::string method = "GET";
  std::string host;        // with its port, if that is not the scheme's default
  std::string path = "/";  // percent-encoded, as sent
  std::string query = "";  // "a=1&b=", names sorted, percent-encoded
  // Headers other than Host: names in lower case, values as sent.
  std::map<std::string, std::string> headers = {};
  std::string service = "s3";
  std::string region;
};

// The header lines to send: those of the request, and those that sign it.
std::vector<std::string> SignAwsRequest(const AwsRequest& request, const AwsKey& key,
                                        double unix_seconds);

}  // namespace penstock::io
