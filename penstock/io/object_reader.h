// Describes, lists and reads objects of a storage service over HttpClient. Subclasses
// (gcs_reader.h, s3_reader.h) implement what is specific to a service: the form of a request, and
// where an answer has the version.
//
// Every range names the version it wants, so that bytes of two versions never mix. Every operation
// is retried per http_retry.h, a range from the byte where it broke; a range whose bytes have all
// arrived is complete, however its connection ended.
//
// Only the service's own answers are believed:
//   - A success status (2xx) whose headers and body do not answer the request (a login page, a
//     proxy's page, another range, a listing of other names) is Unavailable, and retried.
//   - An error status without an error of the service in its body or header fields is Unavailable,
//     and retried.
//   - NotFound needs two answers: the service itself said 404, and its listing of names, requested
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

#include "penstock/io/http_client.h"
#include "penstock/io/http_retry.h"
#include "penstock/io/object_listing.h"
#include "penstock/io/uri.h"

namespace penstock::io {

// One version of an object.
struct StoredObject {
  Uri uri;
  std::string version = {};  // empty: whichever is there when it is first read
  int64_t size = 0;
  double modified_unix_seconds = 0;  // 0 if unknown
};

struct ObjectRange {
  int64_t offset = 0;
  absl::Span<char> out;  // lives until `done` is called
  // Set it, call HttpClient::Wake, and the read ends as Cancelled.
  std::shared_ptr<const std::atomic<bool>> cancelled = nullptr;
  // When the object's version is empty: called once with what was found there, before any byte.
  std::function<void(const StoredObject&)> on_found = nullptr;
};

struct ObjectRangeEnd {
  absl::Status status;
  int64_t bytes = 0;  // fewer than the range asked for only at the end of the object
  // Of the one attempt; negative when there were more.
  double first_byte_seconds = -1;
  double transfer_seconds = -1;
  // If the service rejected the credentials: the Authorization that was sent, for Reauthorize.
  std::string refused_authorization = {};
};

// How the answers of a service read.
struct ObjectService {
  std::string (*version_of)(const HttpAnswer& answer);  // empty when it tells none
  const char* version_name;                             // for messages
  std::string (*message_of)(const std::string& body);   // of a refusal; empty when there is none
  // Whether an answer with an error status comes from the service.
  bool (*is_own_error)(const HttpAnswer& answer);
  // Whether it says that the credentials are expired or unknown, so that new ones may work.
  bool (*refuses_credentials)(const HttpAnswer& answer);
  // Whether it is a transient error, besides those that IsWorthRetrying knows.
  bool (*passes)(const HttpAnswer& answer);
};

// Any thread may use it.
class ObjectReader {
 public:
  virtual ~ObjectReader() = default;

  // The object as it is now; NotFound only after a second answer. Blocks.
  absl::StatusOr<StoredObject> Find(const Uri& uri);

  // Objects whose path begins with `prefix.path`: all of them, or those without another '/' behind
  // it and the folders at which the others begin. `page` is empty for the first page. Blocks.
  absl::StatusOr<ObjectPage> ListPage(const Uri& prefix, bool all_levels, const std::string& page);

  // Whether there are credentials other than the rejected ones (ObjectRangeEnd), so that the
  // operation is worth another attempt. Blocks.
  virtual bool Reauthorize(const std::string& refused_authorization) = 0;

  // Fills range.out. `done` is called once, on a thread of the client, and must not wait. Errors:
  // those of file_system.h; OutOfRange if the range begins at or after the end of the object.
  // NotFound comes only if the object's version is empty, and may be the 404 of a proxy: Find
  // verifies it.
  void Read(const StoredObject& object, ObjectRange range,
            std::function<void(ObjectRangeEnd)> done);

  HttpClient& http() { return *http_; }

 protected:
  ObjectReader(std::shared_ptr<HttpClient> http, const ObjectService& service,
               double retry_limit_seconds, uint64_t seed)
      : http_(std::move(http)),
        service_(service),
        retry_limit_seconds_(retry_limit_seconds),
        seed_(seed) {}

  // Makes the request for bytes [begin, end) of an object, of its version where that is known. It
  // is called for each attempt, on any thread, and must not wait.
  using RangeRequest =
      std::function<HttpRequest(const StoredObject& object, int64_t begin, int64_t end)>;
  // May wait for the network, for whoever has to be asked for credentials.
  virtual absl::StatusOr<RangeRequest> MakeRangeRequest() = 0;
  // The request of Find, built for each attempt, and the parser of its success answer; no value if
  // it is not an answer of the service.
  virtual absl::StatusOr<HttpRequest> FindRequest(const Uri& uri) = 0;
  virtual std::optional<StoredObject> Found(const Uri& uri, const HttpAnswer& answer) = 0;
  // The same of ListPage.
  virtual absl::StatusOr<HttpRequest> ListRequest(const Uri& prefix, bool all_levels,
                                                  const std::string& page) = 0;
  virtual std::optional<ObjectPage> Listed(const Uri& prefix, const HttpAnswer& answer) = 0;

  const std::shared_ptr<HttpClient> http_;

 private:
  // Sends a small request after `delay` seconds, retries it per `retry`, and returns what `read`
  // makes of its success answer. `is_own`: whether the service itself rejected it.
  template <typename T>
  absl::StatusOr<T> Ask(HttpRetry& retry, double delay, absl::string_view doing, const Uri& uri,
                        const std::function<absl::StatusOr<HttpRequest>()>& request,
                        const std::function<std::optional<T>(const HttpAnswer&)>& read,
                        bool* is_own);
  HttpRetry NewRetry(absl::string_view doing, const Uri& uri);
  absl::StatusOr<ObjectPage> AskForPage(const Uri& prefix, bool all_levels,
                                        const std::string& page);
  absl::StatusOr<bool> IsMissing(const Uri& uri, bool is_own);

  const ObjectService& service_;
  const double retry_limit_seconds_;
  const uint64_t seed_;
  std::atomic<uint64_t> requests_ = 0;
};

}  // namespace penstock::io
