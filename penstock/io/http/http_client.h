// Asynchronous HTTP/1.1 client over libcurl: a few threads, each with its own pool of persistent
// connections, keep many requests in flight.
//
//   HttpClient http;
//   HttpResponse response = http.Fetch({.url = "http://127.0.0.1:4443/storage/v1/b"});  // blocks
//   http.Start({.url = url, .headers = {"Range: bytes=0-99"}},
//              [](HttpResponse response) { Use(response.body); });                    // async
//
// HTTP/1.1 instead of HTTP/2: with one connection per request in flight, throughput scales with the
// number of connections, whereas HTTP/2 multiplexes all requests over one connection and its flow
// control.
//
// Each request is one attempt; http_retry.h is the retry policy. An attempt that receives fewer
// than `stall_bytes` in `stall_seconds`, including connecting, is aborted as stalled. Redirects are
// not followed: a storage service sends none, but a captive portal does.
//
// Guarantees: every attempt ends, whatever the server sends. Response headers of more than kMaxHead
// bytes and bodies of more than kMaxBody (without on_body) make it fail as kFailed; of an error
// body (status other than 2xx) only the first kMaxErrorBody bytes are read. Any failure of libcurl
// is reported as a failed attempt and never aborts the process. A request that waits for more than
// 5 seconds is reported on stderr (network_wait.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "penstock/base/clock.h"
#include "penstock/io/http/network_wait.h"

namespace penstock::io {

// The response to one attempt, or the reason for its failure.
struct HttpResponse {
  enum class Outcome {
    kComplete,          // a complete response, of any status
    kFailed,            // no connection, or it failed before the response was complete; see `error`
    kPermanentFailure,  // cannot connect, and retrying cannot help: an invalid certificate or URL
    kStalled,           // too few bytes for too long (stall_seconds)
    kRejectedByCallback,  // on_body returned false
    kNotFromService,      // set by callers: something else responded; `error` says why
    kCancelled,           // by the caller, or because the client is being destroyed
  };
  Outcome outcome = Outcome::kFailed;
  int status = 0;                    // HTTP status, such as 206; 0 if there was no response
  std::string error = {};            // description of the failure
  std::string body = {};             // error bodies, and all bodies without on_body; see kMaxBody
  int64_t length = -1;               // Content-Length; -1 if absent
  int64_t generation = 0;            // x-goog-generation; 0 if absent
  std::string etag = {};             // with its quotes
  std::string bucket_region = {};    // x-amz-bucket-region
  std::string request_id = {};       // x-guploader-uploadid or x-amz-request-id, set by the service
  double modified_unix_seconds = 0;  // Last-Modified; 0 if absent
  int64_t range_begin = -1;          // Content-Range: bytes begin-last/total; -1 if absent
  int64_t range_total = -1;
  double retry_after_seconds = 0;  // Retry-After, a number or a date; 0 if absent
  double first_byte_seconds = 0;   // latency: from the request's last byte to the response's first
  double transfer_seconds = 0;     // from the response's first byte to its last
};

struct HttpRequest {
  std::string url;
  std::vector<std::string> headers = {};
  std::string post = {};     // GET when empty
  bool head = false;         // HEAD request: a response without a body
  double delay_seconds = 0;  // minimum delay before the request starts
  // Called on a client thread for each piece of the body, with a response whose status and header
  // fields are set; must be fast. Returning false aborts the attempt (kRejectedByCallback). Null:
  // the body is collected in `body`.
  std::function<bool(const HttpResponse&, absl::string_view)> on_body = nullptr;
  // Cancels the attempt: set it to true, then call Wake.
  std::shared_ptr<const std::atomic<bool>> cancelled = nullptr;
  // The operation that this attempt belongs to, for wait reports. Null: the attempt is reported by
  // itself.
  std::shared_ptr<NetworkWait> wait = nullptr;
};

struct HttpClientOptions {
  int threads = 2;
  int max_connections = 64;  // in-flight limit per thread; further requests are queued
  double stall_seconds = 20;
  int64_t stall_bytes = 64 << 10;

  base::Clock* clock = base::Clock::Real();
  NetworkWaits* waits = nullptr;  // null: NetworkWaits::Default()
  // Test hook, called before a thread waits: a test with a FakeClock advances it here.
  struct Wait {
    double seconds;   // until the next delay or stall timeout ends; may be infinite
    int64_t active;   // attempts of this thread that are in flight
    int64_t stalled;  // attempts that it has aborted as stalled so far
  };
  std::function<void(const Wait&)> before_wait = nullptr;
};

// Thread-safe.
class HttpClient {
 public:
  static constexpr int64_t kMaxHead = 1 << 20;
  static constexpr int64_t kMaxBody = 16 << 20;  // a listing page has at most about 7 MiB
  static constexpr int64_t kMaxErrorBody = 64 << 10;

  explicit HttpClient(HttpClientOptions options = {});
  // Cancels all attempts. Must not run on a client thread.
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Starts a request. `done` is called once, on a client thread; it may call Start, and must not
  // block.
  void Start(HttpRequest request, std::function<void(HttpResponse)> done);
  // Sends a request and blocks until it completes. Must not be called from `done` or `on_body`.
  HttpResponse Fetch(HttpRequest request);
  // Makes the client threads check `cancelled` of their requests.
  void Wake();

  base::Clock* clock() const { return options_.clock; }
  NetworkWaits* waits() const { return options_.waits; }

 private:
  class Loop;

  const HttpClientOptions options_;
  std::vector<std::unique_ptr<Loop>> loops_;
  std::atomic<uint64_t> next_ = 0;
};

}  // namespace penstock::io
