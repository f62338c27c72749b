// Ranges of objects of Google Cloud Storage, read over HttpClient by the JSON API
// (https://cloud.google.com/storage/docs/json_api/v1/objects/get).
//
// Every range names the generation it wants, so that bytes of two versions never mix. A range is
// tried again as http_retry.h says, from the byte where it broke.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "penstock/io/gcs_endpoint.h"
#include "penstock/io/http_client.h"
#include "penstock/io/uri.h"

namespace penstock::io {

// One version of an object.
struct GcsObject {
  Uri uri;
  int64_t generation = 0;  // 0: whichever is there when it is first read
  int64_t size = 0;
};

struct GcsRange {
  int64_t offset = 0;
  absl::Span<char> out;  // lives until `done` is called
  // Set it, call HttpClient::Wake, and the read ends as Cancelled.
  std::shared_ptr<const std::atomic<bool>> cancelled = nullptr;
  // When the object's generation is 0: called once with what was found there, before any byte.
  std::function<void(const GcsObject&)> on_found = nullptr;
};

struct GcsRangeEnd {
  absl::Status status;
  int64_t bytes = 0;  // fewer than the range asked for only at the end of the object
  // Of the one attempt; negative when there were more.
  double first_byte_seconds = -1;
  double transfer_seconds = -1;
};

// Any thread may use it.
class GcsReader {
 public:
  // The value of the header field Authorization; "" for none. May wait for the network.
  using Authorize = std::function<absl::StatusOr<std::string>()>;

  GcsReader(std::shared_ptr<HttpClient> http, GcsEndpoint endpoint, Authorize authorize,
            uint64_t seed);

  // What is there now; NotFound when nothing is. Waits.
  absl::StatusOr<GcsObject> Find(const Uri& uri);

  // Fills range.out. `done` is called once, on a thread of the client, and must not wait. Errors:
  // those of file_system.h; OutOfRange when the range begins at the end or behind it.
  void Read(const GcsObject& object, GcsRange range, std::function<void(GcsRangeEnd)> done);

  HttpClient& http() { return *http_; }

 private:
  std::string ObjectUrl(const Uri& uri) const;

  const std::shared_ptr<HttpClient> http_;
  const GcsEndpoint endpoint_;
  const Authorize authorize_;
  const uint64_t seed_;
  std::atomic<uint64_t> requests_ = 0;
};

}  // namespace penstock::io
