// ObjectReader of S3 and of compatible stores
// (https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html and API_ListObjectsV2.html).
// The version of an object is its ETag, sent as the precondition If-Match with every range.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

#include "penstock/io/object/object_reader.h"
#include "penstock/io/s3/aws_credentials.h"

namespace penstock::io {

struct S3Server {
  std::string scheme = "https";
  std::string host;             // with its port
  bool bucket_in_host = false;  // "bucket.s3.us-east-1.amazonaws.com"; false: path-style
  std::string region = "us-east-1";
};

class S3Reader : public ObjectReader {
 public:
  // Signs each request with the current key of `keys`; without a key requests are anonymous.
  S3Reader(std::shared_ptr<HttpClient> http, S3Server server, std::shared_ptr<AwsKeys> keys,
           double retry_limit_seconds, uint64_t seed);

  bool Reauthorize(const std::string& rejected_authorization) override;

 private:
  class Signer;

  absl::StatusOr<RangeRequest> MakeRangeRequest() override;
  absl::StatusOr<HttpRequest> StatRequest(const Uri& uri) override;
  std::optional<StoredObject> ParseStat(const Uri& uri, const HttpResponse& response) override;
  absl::StatusOr<HttpRequest> ListRequest(const Uri& prefix, bool all_levels,
                                          const std::string& page) override;
  std::optional<ObjectPage> ParseListing(const Uri& prefix, const HttpResponse& response) override;

  const std::shared_ptr<AwsKeys> keys_;
  const std::shared_ptr<const Signer> signer_;
};

}  // namespace penstock::io
