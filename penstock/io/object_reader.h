// Objects of a storage service, looked at, listed and read over HttpClient. What is particular to a
// service is in a subclass (gcs_reader.h, s3_reader.h): how a request looks, and how an answer
// tells the version.
//
// Every range names the version it wants, so that bytes of two versions never mix. Every operation
// is tried again as http_retry.h says, a range from the byte where it broke; a range of which all
// bytes came is whole, however its connection ended.
//
// An answer is only believed when it is the service's own:
//   - A good status (2xx) whose head and body are not the answer to the question (a login page, a
//     proxy's page, another range, a listing of other names) is Unavailable, and tried again.
//   - An error status whose answer is not an error of the service (neither its body nor its header
//     fields are) is Unavailable, and tried again.
//   - NotFound is said only after a second look: the service itself said 404, and its listing of
//     names, asked then, does not have the name. (Where the listing is forbidden, the service's own
//     404 is believed.) A missing bucket is asked for twice.
//   - Credentials that are refused (401; S3's codes for expired or unknown keys) are renewed and
//     the operation tried once more; then it is Unauthenticated. 403 is PermissionDenied.
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
  double modified_unix_seconds = 0;  // 0 where it is not known
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
  // When the service refused the credentials: what was sent as Authorization, for Reauthorize.
  std::string refused_authorization = {};
};

// How the answers of a service read.
struct ObjectService {
  std::string (*version_of)(const HttpAnswer& answer);  // empty when it tells none
  const char* version_name;                             // for messages
  std::string (*message_of)(const std::string& body);   // of a refusal; empty when there is none
  // Whether an answer with an error status comes from the service.
  bool (*is_own_error)(const HttpAnswer& answer);
  // Whether it says that the credentials are too old or unknown: others may do.
  bool (*refuses_credentials)(const HttpAnswer& answer);
  // Whether it is an error that passes, besides what IsWorthRetrying knows.
  bool (*passes)(const HttpAnswer& answer);
};

// Any thread may use it.
class ObjectReader {
 public:
  virtual ~ObjectReader() = default;

  // What is there now; NotFound when nothing is, after a second look. Waits.
  absl::StatusOr<StoredObject> Find(const Uri& uri);

  // Objects whose path begins with `prefix.path`: all of them, or those without another '/' behind
  // it and the folders at which the others begin. `page` is empty for the first. Waits.
  absl::StatusOr<ObjectPage> ListPage(const Uri& prefix, bool all_levels, const std::string& page);

  // Whether there are credentials other than those that were refused (ObjectRangeEnd), so that the
  // operation is worth another attempt. Waits.
  virtual bool Reauthorize(const std::string& refused_authorization) = 0;

  // Fills range.out. `done` is called once, on a thread of the client, and must not wait. Errors:
  // those of file_system.h; OutOfRange when the range begins at the end or behind it. NotFound,
  // which comes only where the object's version is empty, is a 404 of whatever answered: Find looks
  // again.
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
  // The request that Find makes, called for each attempt, and what its good answer says; nothing
  // when it is no answer of the service.
  virtual absl::StatusOr<HttpRequest> FindRequest(const Uri& uri) = 0;
  virtual std::optional<StoredObject> Found(const Uri& uri, const HttpAnswer& answer) = 0;
  // The same of ListPage.
  virtual absl::StatusOr<HttpRequest> ListRequest(const Uri& prefix, bool all_levels,
                                                  const std::string& page) = 0;
  virtual std::optional<ObjectPage> Listed(const Uri& prefix, const HttpAnswer& answer) = 0;

  const std::shared_ptr<HttpClient> http_;

 private:
  // What `read` makes of the good answer to a small question, asked after `delay` seconds and again
  // as `retry` says. `is_own`: whether it was the service itself that refused it.
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
