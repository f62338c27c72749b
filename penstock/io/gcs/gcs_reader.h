// ObjectReader of Google Cloud Storage, over the JSON API
// (https://cloud.google.com/storage/docs/json_api/v1/objects/get and .../list). The version of an
// object is its generation, sent as a precondition with every range.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

#include "penstock/io/gcs/gcs_endpoint.h"
#include "penstock/io/http/http_authorizer.h"
#include "penstock/io/object/object_reader.h"

namespace penstock::io {

class GcsReader : public ObjectReader {
 public:
  // Without an authorizer requests are anonymous.
  GcsReader(std::shared_ptr<HttpClient> http, GcsEndpoint endpoint,
            std::shared_ptr<HttpAuthorizer> authorizer, uint64_t seed);

  bool Reauthorize(const std::string& rejected_authorization) override;

 private:
  absl::StatusOr<RangeRequest> MakeRangeRequest() override;
  absl::StatusOr<HttpRequest> StatRequest(const Uri& uri) override;
  std::optional<StoredObject> ParseStat(const Uri& uri, const HttpResponse& response) override;
  absl::StatusOr<HttpRequest> ListRequest(const Uri& prefix, bool all_levels,
                                          const std::string& page) override;
  std::optional<ObjectPage> ParseListing(const Uri& prefix, const HttpResponse& response) override;
  absl::StatusOr<std::string> Authorization();

  const std::string url_;                             // of the server
  const std::shared_ptr<HttpAuthorizer> authorizer_;  // null: anonymous
};

}  // namespace penstock::io
