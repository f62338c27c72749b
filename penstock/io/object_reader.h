// Ranges of objects of a storage service, read over HttpClient. What is particular to a service is
// in a subclass (gcs_reader.h, s3_reader.h): how a request looks, and how an answer tells the
// version.
//
// Every range names the version it wants, so that bytes of two versions never mix. A range is tried
// again as http_retry.h says, from the byte where it broke.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "penstock/io/http_client.h"
#include "penstock/io/uri.h"

namespace penstock::io {

// One version of an object.
struct StoredObject {
  Uri uri;
  std::string version = {};  // empty: whichever is there when it is first read
  int64_t size = 0;
};

// One answer to the question what there is.
struct ObjectPage {
  struct Object {
    std::string path;
    std::string version;
    int64_t size = 0;
    double modified_unix_seconds = 0;
  };
  std::vector<Object> objects;
  std::vector<std::string> folders;  // "a/b/", of one level only
  std::string next;                  // asks for the next page; empty on the last
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
};

// How the answers of a service read.
struct ObjectService {
  std::string (*version_of)(const HttpAnswer& answer);  // empty when it tells none
  const char* version_name;                             // for messages
  std::string (*message_of)(const std::string& body);   // of a refusal; empty when there is none
};

// Any thread may use it.
class ObjectReader {
 public:
  virtual ~ObjectReader() = default;

  // What is there now; NotFound when nothing is. Waits.
  absl::StatusOr<StoredObject> Find(const Uri& uri);

  // Whether ListPage works; else somebody else has to list.
  virtual bool lists() const { return false; }
  // Objects whose path begins with `prefix.path`: all of them, or those without another '/' behind
  // it and the folders at which the others begin. `page` is empty for the first. Waits.
  absl::StatusOr<ObjectPage> ListPage(const Uri& prefix, bool all_levels, const std::string& page);

  // Fills range.out. `done` is called once, on a thread of the client, and must not wait. Errors:
  // those of file_system.h; OutOfRange when the range begins at the end or behind it.
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
  // The request that Find makes, called for each attempt, and what its good answer says.
  virtual absl::StatusOr<HttpRequest> FindRequest(const Uri& uri) = 0;
  virtual absl::StatusOr<StoredObject> Found(const Uri& uri, const HttpAnswer& answer) = 0;
  // The same of ListPage.
  virtual absl::StatusOr<HttpRequest> ListRequest(const Uri&, bool, const std::string&) {
    return absl::UnimplementedError("it does not list");
  }
  virtual absl::StatusOr<ObjectPage> Listed(const Uri&, const HttpAnswer&) {
    return absl::UnimplementedError("it does not list");
  }

  // What goes wrong when something that is no storage service answers: a proxy, a login page.
  static absl::Status NotAStorageServiceError(const Uri& uri, absl::string_view why);

  const std::shared_ptr<HttpClient> http_;

 private:
  // The good answer to a small question, asked again as http_retry.h says.
  absl::StatusOr<HttpAnswer> Ask(const std::function<absl::StatusOr<HttpRequest>()>& request,
                                 absl::string_view doing, const Uri& uri);

  const ObjectService& service_;
  const double retry_limit_seconds_;
  const uint64_t seed_;
  std::atomic<uint64_t> requests_ = 0;
};

}  // namespace penstock::io
