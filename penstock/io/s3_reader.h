// Objects of S3, and of stores that speak its protocol
// (https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html and API_ListObjectsV2.html).
// Their versions are ETags, and a range names the one it wants by If-Match.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

#include "penstock/io/aws_credentials.h"
#include "penstock/io/object_reader.h"

namespace penstock::io {

struct S3Server {
  std::string scheme = "https";
  std::string host;             // with its port
  bool bucket_in_host = false;  // "bucket.s3.us-east-1.amazonaws.com"; else it begins the path
  std::string region = "us-east-1";
};

class S3Reader : public ObjectReader {
 public:
  // Signs each request with the current key of `keys`; without a key the request is anonymous.
  S3Reader(std::shared_ptr<HttpClient> http, S3Server server, std::shared_ptr<AwsKeys> keys,
           double retry_limit_seconds, uint64_t seed);

  bool Reauthorize(const std::string& refused_authorization) override;

 private:
  class Signer;

  absl::StatusOr<RangeRequest> MakeRangeRequest() override;
  absl::StatusOr<HttpRequest> FindRequest(const Uri& uri) override;
  std::optional<StoredObject> Found(const Uri& uri, const HttpAnswer& answer) override;
  absl::StatusOr<HttpRequest> ListRequest(const Uri& prefix, bool all_levels,
                                          const std::string& page) override;
  std::optional<ObjectPage> Listed(const Uri& prefix, const HttpAnswer& answer) override;

  const std::shared_ptr<AwsKeys> keys_;
  const std::shared_ptr<const Signer> signer_;
};

}  // namespace penstock::io
