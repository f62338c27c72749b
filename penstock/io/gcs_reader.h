// Objects of Google Cloud Storage, by the JSON API
// (https://cloud.google.com/storage/docs/json_api/v1/objects/get and .../list). Their versions are
// generations.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "penstock/io/gcs_endpoint.h"
#include "penstock/io/object_reader.h"

namespace penstock::io {

class GcsReader : public ObjectReader {
 public:
  // The value of the header field Authorization; "" for none. May wait for the network.
  using Authorize = std::function<absl::StatusOr<std::string>()>;

  GcsReader(std::shared_ptr<HttpClient> http, GcsEndpoint endpoint, Authorize authorize,
            uint64_t seed);

 private:
  absl::StatusOr<RangeRequest> MakeRangeRequest() override;
  absl::StatusOr<HttpRequest> FindRequest(const Uri& uri) override;
  absl::StatusOr<StoredObject> Found(const Uri& uri, const HttpAnswer& answer) override;
  bool lists() const override { return true; }
  absl::StatusOr<HttpRequest> ListRequest(const Uri& prefix, bool all_levels,
                                          const std::string& page) override;
  absl::StatusOr<ObjectPage> Listed(const Uri& prefix, const HttpAnswer& answer) override;

  const std::string url_;  // of the server
  const Authorize authorize_;
};

}  // namespace penstock::io
