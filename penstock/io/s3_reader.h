// Objects of S3, and of stores that speak its protocol
// (https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html). Their versions are ETags,
// and a range names the one it wants by If-Match.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

#include "penstock/io/aws_signature.h"
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
  // Without a key requests are anonymous.
  S3Reader(std::shared_ptr<HttpClient> http, S3Server server, std::optional<AwsKey> key,
           double retry_limit_seconds, uint64_t seed);

 private:
  class Signer;

  absl::StatusOr<RangeRequest> MakeRangeRequest() override;
  absl::StatusOr<HttpRequest> FindRequest(const Uri& uri) override;
  absl::StatusOr<StoredObject> Found(const Uri& uri, const HttpAnswer& answer) override;

  const std::shared_ptr<const Signer> signer_;
};

}  // namespace penstock::io
