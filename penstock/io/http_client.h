// HTTP/1.1 requests over libcurl, many at once: a few threads, each with its own set of connections
// that are kept and used again.
//
//   HttpClient http;
//   HttpAnswer answer = http.Fetch({.url = "http://127.0.0.1:4443/storage/v1/b"});    // waits
//   http.Start({.url = url, .headers = {"Range: bytes=0-99"}}, [](HttpAnswer a) {...});  // does
//   not
//
// HTTP/1.1 and not HTTP/2: one connection per request in flight has the throughput of all of them,
// where HTTP/2 puts all into one and its flow control.
//
// It makes one attempt; http_retry.h says when to make another. An attempt that brings fewer than
// `stall_bytes` in `stall_seconds`, connecting included, is ended as stalled. Redirects are not
// followed: a storage service sends none, but a captive portal does.
//
// Guarantees: every attempt ends, whatever the server sends. Response headers of more than kMaxHead
// bytes and bodies of more than kMaxBody (without on_body) end it as broken; of an error's body
// (status other than 2xx) kMaxErrorBody bytes are kept and the rest is not read. Any failure of
// libcurl is reported as the end of an attempt and never aborts the process. A request that waits
// for more than 5 seconds is reported on stderr (network_wait.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "penstock/base/clock.h"
#include "penstock/io/network_wait.h"

namespace penstock::io {

// What one attempt brought.
struct HttpAnswer {
  enum class End {
    kWhole,       // an answer, whatever its status
    kBroken,      // no connection, or it broke before the answer was whole; `error` says how
    kImpossible,  // no connection, and none to be hoped for: a bad certificate or URL
    kStalled,     // too few bytes for too long
    kRefused,     // on_body returned false
    kForeign,     // set by callers: an answer, but not the service's; `error` says why
    kCancelled,   // by the caller, or because the client is being destroyed
  };
  End end = End::kBroken;
  int status = 0;                    // 206; 0 if none arrived
  std::string error = {};            // of the connection
  std::string body = {};             // of errors, and without on_body; see kMaxBody
  int64_t length = -1;               // Content-Length; -1 if absent
  int64_t generation = 0;            // x-goog-generation; 0 if absent
  std::string etag = {};             // with its quotes
  std::string bucket_region = {};    // x-amz-bucket-region
  std::string request_id = {};       // x-guploader-uploadid or x-amz-request-id: set by the service
  double modified_unix_seconds = 0;  // Last-Modified; 0 if absent
  int64_t range_begin = -1;          // Content-Range: bytes begin-last/total; -1 if absent
  int64_t range_total = -1;
  double retry_after_seconds = 0;  // Retry-After, a number or a date; 0 if absent
  double first_byte_seconds = 0;   // from the request's last byte to the answer's first
  double transfer_seconds = 0;     // from the answer's first byte to its last
};

struct HttpRequest {
  std::string url;
  std::vector<std::string> headers = {};
  std::string post = {};     // GET when empty
  bool head = false;         // HEAD: an answer without its body
  double delay_seconds = 0;  // starts no sooner
  // Called on a thread of the client for each piece of the body, with an answer whose status and
  // header fields are there; must be quick. False ends the attempt. Null: the body is collected.
  std::function<bool(const HttpAnswer&, absl::string_view)> on_body = nullptr;
  // Set it, then call Wake, and the attempt ends.
  std::shared_ptr<const std::atomic<bool>> cancelled = nullptr;
  // The operation that this attempt belongs to. Null: the attempt reports itself.
  std::shared_ptr<NetworkWait> wait = nullptr;
};

struct HttpClientOptions {
  int threads = 2;
  int max_connections = 64;  // a thread; more requests wait for their turn
  double stall_seconds = 20;
  int64_t stall_bytes = 64 << 10;

  base::Clock* clock = base::Clock::Real();
  NetworkWaits* waits = nullptr;  // null: NetworkWaits::Default()
  // What a thread is about to wait for. A test with a FakeClock moves it on here.
  struct Wait {
    double seconds;   // until the next delay is over or the next stall is due; may be infinite
    int64_t active;   // attempts that this thread has on connections
    int64_t stalled;  // attempts that it has ended as stalled so far
  };
  std::function<void(const Wait&)> before_wait = nullptr;
};

// Any thread may use it.
class HttpClient {
 public:
  static constexpr int64_t kMaxHead = 1 << 20;
  static constexpr int64_t kMaxBody = 16 << 20;  // a listing page has at most some 7 MiB
  static constexpr int64_t kMaxErrorBody = 64 << 10;

  explicit HttpClient(HttpClientOptions options = {});
  // Ends all attempts as cancelled. Must not run on a thread of the client.
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // `done` is called once, on a thread of the client; it may call Start, and must not wait.
  void Start(HttpRequest request, std::function<void(HttpAnswer)> done);
  // Waits. Not from `done` or `on_body`.
  HttpAnswer Fetch(HttpRequest request);
  // Looks again at what was cancelled.
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
