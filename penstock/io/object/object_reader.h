// ObjectReader: stats, lists and reads objects of a storage service over HttpClient. Subclasses
// (gcs_reader.h, s3_reader.h) implement the service-specific parts: the format of requests, and
// where a response contains the version.
//
// Every range request has the object's version as a precondition (the generation, or the ETag in
// If-Match), so that bytes of two versions never mix. Every operation is retried per http_retry.h,
// a range from the byte where it broke off; a range whose bytes have all arrived is complete,
// however its connection ended.
//
// Only responses of the service itself are trusted:
//   - A success status (2xx) whose headers and body do not match the request (a login page, a
//     proxy's page, another range, a listing of other names) is Unavailable, and retried.
//   - An error status without an error of the service in its body or header fields is Unavailable,
//     and retried.
//   - NotFound needs two responses: a 404 of the service itself, and a listing of names, requested
//     after that, does not contain the name. (If the listing is forbidden, the service's own 404 is
//     accepted.) A missing bucket is requested twice.
//   - Rejected credentials (401; S3's codes for expired or unknown keys) are renewed and the
//     operation is retried once; then it is Unauthenticated. 403 is PermissionDenied.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "penstock/io/http/http_client.h"
#include "penstock/io/http/http_retry.h"
#include "penstock/io/object/object_listing.h"
#include "penstock/io/uri.h"

namespace penstock::io {

// Metadata of one version of an object.
struct StoredObject {
  Uri uri;
  std::string version = {};  // empty: the version that the first read finds
  int64_t size = 0;
  double modified_unix_seconds = 0;  // 0 if unknown
};

struct ObjectRange {
  int64_t offset = 0;
  absl::Span<char> out;  // lives until `done` is called
  // Cancels the read: set it to true, then call HttpClient::Wake.
  std::shared_ptr<const std::atomic<bool>> cancelled = nullptr;
  // If the object's version is empty: called once with the metadata found, before any byte arrives.
  std::function<void(const StoredObject&)> on_found = nullptr;
};

struct ObjectRangeResult {
  absl::Status status;
  int64_t bytes = 0;  // less than the size of the range only at the end of the object
  // Timing, if there was only one attempt; otherwise negative.
  double first_byte_seconds = -1;
  double transfer_seconds = -1;
  // If the service rejected the credentials: the Authorization that was sent, for Reauthorize.
  std::string rejected_authorization = {};
};

// How to interpret the responses of a service.
struct ObjectService {
  std::string (*version_of)(const HttpResponse& response);  // empty if the response has none
  const char* version_name;                                 // for messages
  std::string (*error_message)(
      const std::string& body);  // error message in a body; empty if there is none
  // Whether a response with an error status is from the service itself.
  bool (*is_own_error)(const HttpResponse& response);
  // Whether the credentials are expired or unknown, so that new ones may work.
  bool (*rejects_credentials)(const HttpResponse& response);
  // Whether it is a transient error, in addition to those of IsRetryable.
  bool (*is_transient)(const HttpResponse& response);
};

// Thread-safe.
class ObjectReader {
 public:
  virtual ~ObjectReader() = default;

  // Metadata of the object's current version; NotFound only after a second response. Blocks.
  absl::StatusOr<StoredObject> Stat(const Uri& uri);

  // One page of the objects whose path begins with `prefix.path`: at all levels, or at one level
  // (those without another '/' after the prefix, and the folders that contain the others). `page`
  // is the token of the page, empty for the first. Blocks.
  absl::StatusOr<ObjectPage> ListPage(const Uri& prefix, bool all_levels, const std::string& page);

  // Whether there are now credentials other than the rejected ones (ObjectRangeResult), so that a
  // retry may succeed. Blocks.
  virtual bool Reauthorize(const std::string& rejected_authorization) = 0;

  // Reads a range asynchronously into range.out. `done` is called once, on a client thread, and
  // must not block. Errors: those of file_system.h; OutOfRange if the range begins at or after the
  // end of the object. NotFound is returned only if the object's version is empty, and may be the
  // 404 of a proxy: Stat verifies it.
  void Read(const StoredObject& object, ObjectRange range,
            std::function<void(ObjectRangeResult)> done);

  HttpClient& http() { return *http_; }

 protected:
  ObjectReader(std::shared_ptr<HttpClient> http, const ObjectService& service,
               double retry_limit_seconds, uint64_t seed)
      : http_(std::move(http)),
        service_(service),
        retry_limit_seconds_(retry_limit_seconds),
        seed_(seed) {}

  // Creates the request for bytes [begin, end) of an object, with its version as precondition if
  // known. Called for each attempt, on any thread; must not block.
  using RangeRequest =
      std::function<HttpRequest(const StoredObject& object, int64_t begin, int64_t end)>;
  // May block on the network to obtain credentials.
  virtual absl::StatusOr<RangeRequest> MakeRangeRequest() = 0;
  // The request of Stat, created for each attempt, and the parser of its success response; no value
  // if the response is not from the service.
  virtual absl::StatusOr<HttpRequest> StatRequest(const Uri& uri) = 0;
  virtual std::optional<StoredObject> ParseStat(const Uri& uri, const HttpResponse& response) = 0;
  // Same for ListPage.
  virtual absl::StatusOr<HttpRequest> ListRequest(const Uri& prefix, bool all_levels,
                                                  const std::string& page) = 0;
  virtual std::optional<ObjectPage> ParseListing(const Uri& prefix,
                                                 const HttpResponse& response) = 0;

  const std::shared_ptr<HttpClient> http_;

 private:
  // Sends a small request after `delay` seconds, retries it per `retry`, and returns its success
  // response parsed by `read`. Sets `is_own` to whether the service itself rejected it.
  template <typename T>
  absl::StatusOr<T> SendWithRetries(
      HttpRetry& retry, double delay, absl::string_view doing, const Uri& uri,
      const std::function<absl::StatusOr<HttpRequest>()>& request,
      const std::function<std::optional<T>(const HttpResponse&)>& read, bool* is_own);
  HttpRetry NewRetry(absl::string_view doing, const Uri& uri);
  absl::StatusOr<ObjectPage> RequestPage(const Uri& prefix, bool all_levels,
                                         const std::string& page);
  absl::StatusOr<bool> IsMissing(const Uri& uri, bool is_own);

  const ObjectService& service_;
  const double retry_limit_seconds_;
  const uint64_t seed_;
  std::atomic<uint64_t> requests_ = 0;
};

}  // namespace penstock::io
