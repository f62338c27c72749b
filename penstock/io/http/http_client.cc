#include "penstock/io/http/http_client.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <iterator>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include <curl/curl.h>

#include "penstock/base/thread_pool.h"

namespace penstock::io {
namespace {

using Outcome = HttpResponse::Outcome;

constexpr double kForever = std::numeric_limits<double>::infinity();

struct EasyDeleter {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
using Easy = std::unique_ptr<CURL, EasyDeleter>;

struct MultiDeleter {
  void operator()(CURLM* handle) const { curl_multi_cleanup(handle); }
};

struct HeaderDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using HeaderList = std::unique_ptr<curl_slist, HeaderDeleter>;

// Parses "bytes 0-99/1234"; also "bytes */1234", the response to a range beyond the end.
void ParseContentRange(absl::string_view value, HttpResponse& response) {
  if (!absl::ConsumePrefix(&value, "bytes ")) return;
  const size_t slash = value.find('/');
  if (slash == absl::string_view::npos) return;
  int64_t total = 0;
  if (absl::SimpleAtoi(value.substr(slash + 1), &total)) response.range_total = total;
  int64_t begin = 0;
  if (absl::SimpleAtoi(value.substr(0, value.find('-')), &begin)) response.range_begin = begin;
}

// Parses "Wed, 21 Oct 2026 07:28:00 GMT" to seconds since 1970.
std::optional<double> ParseHttpDate(absl::string_view value) {
  absl::Time date;
  if (!absl::ParseTime("%a, %d %b %Y %H:%M:%S GMT", value, absl::UTCTimeZone(), &date, nullptr)) {
    return std::nullopt;
  }
  return absl::ToDoubleSeconds(date - absl::UnixEpoch());
}

// Parses a Retry-After of seconds ("120") or a date. Anything else, or a date in the past, is 0.
double ParseRetryAfter(absl::string_view value, double now_unix_seconds) {
  double seconds = 0;
  if (!absl::SimpleAtod(value, &seconds)) {
    seconds = ParseHttpDate(value).value_or(0) - now_unix_seconds;
  }
  return std::isfinite(seconds) && seconds > 0 ? seconds : 0;
}

// One attempt, from the queue to its completion.
struct Attempt {
  HttpRequest request;
  std::function<void(HttpResponse)> done;
  HttpResponse response;
  double start_at = 0;
  Easy easy;
  HeaderList headers;
  double stall_window_start = 0;
  int64_t stall_window_bytes = 0;
  base::Clock* clock = nullptr;
  int64_t head_bytes = 0;
  bool head_is_whole = false;
  bool refused = false;
  bool error_is_cut = false;     // the stored part of an error body is complete
  const char* excess = nullptr;  // which limit the response exceeded
  char error[CURL_ERROR_SIZE] = "";

  bool cancelled() const { return request.cancelled != nullptr && *request.cancelled; }

  // False aborts the attempt.
  bool TakeHeader(absl::string_view line) {
    stall_window_bytes += line.size();
    head_bytes += line.size();
    if (head_bytes > HttpClient::kMaxHead) {
      excess = "the response headers exceed 1 MiB";
      return false;
    }
    ReadHeader(line);
    return true;
  }

  void ReadHeader(absl::string_view line) {
    if (absl::ConsumePrefix(&line, "HTTP/")) {
      response = {};  // the final response follows 100 Continue
      head_is_whole = false;
      const size_t space = line.find(' ');
      if (space != absl::string_view::npos) {
        (void)absl::SimpleAtoi(line.substr(space + 1, 3), &response.status);
      }
      return;
    }
    if (line == "\r\n" || line == "\n") head_is_whole = true;
    const size_t colon = line.find(':');
    if (colon == absl::string_view::npos) return;
    const std::string name = absl::AsciiStrToLower(line.substr(0, colon));
    const absl::string_view value = absl::StripAsciiWhitespace(line.substr(colon + 1));
    if (name == "content-length") {
      if (!absl::SimpleAtoi(value, &response.length)) response.length = -1;
    } else if (name == "etag") {
      response.etag = std::string(value);
    } else if (name == "x-amz-bucket-region") {
      response.bucket_region = std::string(value);
    } else if (name == "x-goog-generation") {
      (void)absl::SimpleAtoi(value, &response.generation);
    } else if (name == "content-range") {
      ParseContentRange(value, response);
    } else if (name == "x-guploader-uploadid" || name == "x-amz-request-id") {
      response.request_id = std::string(value);
    } else if (name == "last-modified") {
      response.modified_unix_seconds = ParseHttpDate(value).value_or(0);
    } else if (name == "retry-after") {
      response.retry_after_seconds = ParseRetryAfter(value, clock->UnixSeconds());
    }
  }

  bool TakeBody(absl::string_view bytes) {
    stall_window_bytes += bytes.size();
    request.wait->Received(bytes.size());
    const bool good = response.status / 100 == 2;
    if (request.on_body != nullptr && good) {
      refused = !request.on_body(response, bytes);
      return !refused;
    }
    const size_t limit = good ? HttpClient::kMaxBody : HttpClient::kMaxErrorBody;
    const size_t room = limit - response.body.size();
    response.body.append(bytes.data(), std::min(room, bytes.size()));
    if (bytes.size() <= room) return true;
    if (good) excess = "the response body exceeds 16 MiB";
    error_is_cut = !good;
    return false;
  }
};

size_t OnHeader(char* data, size_t size, size_t count, void* attempt) {
  return static_cast<Attempt*>(attempt)->TakeHeader({data, size * count}) ? size * count : 0;
}

size_t OnBody(char* data, size_t size, size_t count, void* attempt) {
  return static_cast<Attempt*>(attempt)->TakeBody({data, size * count}) ? size * count : 0;
}

// Sets the options of a request. Returns the first error of libcurl, which may be out of memory or
// built without an option.
CURLcode Prepare(Attempt& attempt, Easy easy) {
  attempt.easy = std::move(easy);
  CURL* const handle = attempt.easy.get();
  if (handle == nullptr) return CURLE_OUT_OF_MEMORY;
  for (const std::string& header : attempt.request.headers) {
    curl_slist* const longer = curl_slist_append(attempt.headers.get(), header.c_str());
    if (longer == nullptr) return CURLE_OUT_OF_MEMORY;
    (void)attempt.headers.release();  // part of `longer`
    attempt.headers.reset(longer);
  }
  CURLcode first = CURLE_OK;
  const auto set = [&](CURLoption option, auto value) {
    const CURLcode code = curl_easy_setopt(handle, option, value);
    if (first == CURLE_OK) first = code;
  };
  set(CURLOPT_URL, attempt.request.url.c_str());
  set(CURLOPT_HTTPHEADER, attempt.headers.get());
  if (!attempt.request.post.empty()) {
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(attempt.request.post.size()));
    set(CURLOPT_POSTFIELDS, attempt.request.post.c_str());
  }
  if (attempt.request.head) set(CURLOPT_NOBODY, 1L);
  set(CURLOPT_HEADERFUNCTION, &OnHeader);
  set(CURLOPT_HEADERDATA, static_cast<void*>(&attempt));
  set(CURLOPT_WRITEFUNCTION, &OnBody);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&attempt));
  set(CURLOPT_PRIVATE, static_cast<void*>(&attempt));
  set(CURLOPT_ERRORBUFFER, attempt.error);
  set(CURLOPT_USERAGENT, "penstock");
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_NOSIGNAL, 1L);  // signals belong to the application
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);  // those of a proxy
#if LIBCURL_VERSION_NUM >= 0x075700
  // Aborting an attempt does not wait for a DNS server that does not respond.
  (void)curl_easy_setopt(handle, CURLOPT_QUICK_EXIT, 1L);
#endif
  // The default is 16 KiB per system call. It only affects speed, so the result is ignored.
  (void)curl_easy_setopt(handle, CURLOPT_BUFFERSIZE, 512L << 10);
  return first;
}

bool IsPermanentFailure(CURLcode code, CURL* handle) {
  // A response in another protocol is not from the service; the next attempt may reach it.
  long port = 0;  // stays 0 without a connection
  curl_easy_getinfo(handle, CURLINFO_PRIMARY_PORT, &port);
  if (code == CURLE_UNSUPPORTED_PROTOCOL && port > 0) return false;
  constexpr CURLcode kCodes[] = {CURLE_URL_MALFORMAT, CURLE_UNSUPPORTED_PROTOCOL,
                                 CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CACERT_BADFILE};
  return std::find(std::begin(kCodes), std::end(kCodes), code) != std::end(kCodes);
}

void TakeTimes(CURL* handle, HttpResponse& response) {
  curl_off_t sent = 0, first = 0, last = 0;  // microseconds since the start
  curl_easy_getinfo(handle, CURLINFO_PRETRANSFER_TIME_T, &sent);
  curl_easy_getinfo(handle, CURLINFO_STARTTRANSFER_TIME_T, &first);
  curl_easy_getinfo(handle, CURLINFO_TOTAL_TIME_T, &last);
  response.first_byte_seconds = std::max<double>(first - sent, 0) * 1e-6;
  response.transfer_seconds = std::max<double>(last - first, 0) * 1e-6;
}

}  // namespace

// One client thread and its state.
class HttpClient::Loop {
 public:
  explicit Loop(const HttpClientOptions& options) : options_(options), multi_(curl_multi_init()) {
    if (multi_ == nullptr) return;  // every attempt reports this failure
    curl_multi_setopt(multi_.get(), CURLMOPT_MAXCONNECTS,
                      static_cast<long>(options_.max_connections));
    curl_multi_setopt(multi_.get(), CURLMOPT_PIPELINING, static_cast<long>(CURLPIPE_NOTHING));
    thread_.emplace(1, "penstock-http");
    thread_->Schedule([this] { Run(); });
  }

  // Attempts added from now on are cancelled immediately.
  void Stop() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    Wake();
  }

  void Join() { thread_.reset(); }

  void Add(std::unique_ptr<Attempt> attempt) {
    attempt->clock = options_.clock;
    attempt->start_at = options_.clock->Seconds() + attempt->request.delay_seconds;
    if (multi_ == nullptr) {
      attempt->response.error = "cannot initialize libcurl (out of memory?)";
      return Report(*attempt, Outcome::kFailed);
    }
    {
      std::unique_lock lock(mutex_);
      if (stopping_) {
        lock.unlock();
        return Report(*attempt, Outcome::kCancelled);
      }
      added_.push_back(std::move(attempt));
    }
    Wake();
  }

  void Wake() {
    // Fails if no file descriptor was available for the wakeup pipe; then the thread polls.
    if (multi_ != nullptr && curl_multi_wakeup(multi_.get()) != CURLM_OK) cannot_wake_ = true;
  }

 private:
  void Run() {
    while (TakeAdded()) {
      StartThoseDue();
      int running = 0;
      const CURLMcode code = curl_multi_perform(multi_.get(), &running);
      FinishThoseDone();
      if (code != CURLM_OK) FailAllActive(curl_multi_strerror(code));
      EndThoseStalledOrCancelled();
      Wait();
    }
    EndAll();
  }

  bool TakeAdded() {
    std::lock_guard lock(mutex_);
    for (auto& attempt : added_) waiting_.push_back(std::move(attempt));
    added_.clear();
    return !stopping_;
  }

  void StartThoseDue() {
    const double now = options_.clock->Seconds();
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      if (static_cast<int>(active_.size()) >= options_.max_connections) return;
      if ((*it)->start_at > now) {
        ++it;
        continue;
      }
      std::unique_ptr<Attempt> attempt = std::move(*it);
      it = waiting_.erase(it);
      Easy easy;
      if (!spare_.empty()) {
        easy = std::move(spare_.back());
        spare_.pop_back();
      } else {
        easy.reset(curl_easy_init());
      }
      attempt->stall_window_start = now;
      if (const CURLcode code = Prepare(*attempt, std::move(easy)); code != CURLE_OK) {
        attempt->response.error = curl_easy_strerror(code);
        Report(*attempt, Outcome::kFailed);
        continue;
      }
      if (const CURLMcode code = curl_multi_add_handle(multi_.get(), attempt->easy.get());
          code != CURLM_OK) {
        attempt->response.error = curl_multi_strerror(code);
        Report(*attempt, Outcome::kFailed);
        continue;
      }
      active_.push_back(std::move(attempt));
    }
  }

  void FinishThoseDone() {
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_.get(), &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const CURLcode code = message->data.result;
      char* pointer = nullptr;
      curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &pointer);
      Attempt& attempt = *reinterpret_cast<Attempt*>(pointer);
      // libcurl accepts headers that end early as complete headers without a body.
      if (code == CURLE_OK && !attempt.head_is_whole) {
        attempt.response.error = "the connection was closed within the response headers";
        Finish(attempt, Outcome::kFailed);
      } else if (code == CURLE_OK) {
        Finish(attempt, Outcome::kComplete, /*is_clean=*/true);
      } else if (attempt.error_is_cut) {
        Finish(attempt, Outcome::kComplete);
      } else if (attempt.refused) {
        Finish(attempt, Outcome::kRejectedByCallback);
      } else if (attempt.excess != nullptr) {
        attempt.response.error = attempt.excess;
        Finish(attempt, Outcome::kFailed);
      } else {
        attempt.response.error =
            attempt.error[0] != '\0' ? attempt.error : curl_easy_strerror(code);
        Finish(attempt, IsPermanentFailure(code, message->easy_handle) ? Outcome::kPermanentFailure
                                                                       : Outcome::kFailed);
      }
    }
  }

  void EndThoseStalledOrCancelled() {
    for (size_t i = 0; i < waiting_.size();) {
      if (!waiting_[i]->cancelled()) {
        ++i;
        continue;
      }
      std::unique_ptr<Attempt> attempt = std::move(waiting_[i]);
      waiting_.erase(waiting_.begin() + i);
      Report(*attempt, Outcome::kCancelled);
    }
    const double now = options_.clock->Seconds();
    for (size_t i = active_.size(); i-- > 0;) {  // Finish moves the last one into the gap
      Attempt& attempt = *active_[i];
      if (attempt.cancelled()) {
        Finish(attempt, Outcome::kCancelled);
      } else if (now >= attempt.stall_window_start + options_.stall_seconds) {
        if (attempt.stall_window_bytes < options_.stall_bytes) {
          ++stalled_;
          Finish(attempt, Outcome::kStalled);
        } else {
          attempt.stall_window_start = now;
          attempt.stall_window_bytes = 0;
        }
      }
    }
  }

  void Wait() {
    double seconds = SecondsToNextDeadline();
    double limit = 60;
    if (options_.before_wait != nullptr) {
      options_.before_wait({.seconds = seconds,
                            .active = static_cast<int64_t>(active_.size()),
                            .stalled = stalled_});
      seconds = SecondsToNextDeadline();  // the hook may have advanced the clock
      limit = 0.005;                      // so that the hook is called again soon
    }
    if (cannot_wake_) limit = std::min(limit, 0.02);
    const int milliseconds = static_cast<int>(std::ceil(std::clamp(seconds, 0.0, limit) * 1000));
    curl_multi_poll(multi_.get(), nullptr, 0, milliseconds, nullptr);
  }

  double SecondsToNextDeadline() {
    double next = kForever;
    const bool full = static_cast<int>(active_.size()) >= options_.max_connections;
    for (const auto& attempt : waiting_) {
      if (!full) next = std::min(next, attempt->start_at);
    }
    for (const auto& attempt : active_) {
      next = std::min(next, attempt->stall_window_start + options_.stall_seconds);
    }
    return next - options_.clock->Seconds();
  }

  // Detaches an attempt from its connection, which is kept if the response was complete and closed
  // otherwise. Likewise the handle: libcurl 7.88 rejects options on one whose transfer failed
  // early.
  void Finish(Attempt& attempt, Outcome outcome, bool is_clean = false) {
    TakeTimes(attempt.easy.get(), attempt.response);
    curl_multi_remove_handle(multi_.get(), attempt.easy.get());
    if (is_clean) {
      curl_easy_reset(attempt.easy.get());
      spare_.push_back(std::move(attempt.easy));
    } else {
      attempt.easy.reset();
    }
    const auto it = std::find_if(active_.begin(), active_.end(),
                                 [&](const auto& other) { return other.get() == &attempt; });
    const std::unique_ptr<Attempt> owner = std::move(*it);
    *it = std::move(active_.back());
    active_.pop_back();
    Report(*owner, outcome);
  }

  static void Report(Attempt& attempt, Outcome outcome) {
    attempt.response.outcome = outcome;
    attempt.request.wait.reset();
    attempt.done(std::move(attempt.response));
  }

  void FailAllActive(absl::string_view error) {
    while (!active_.empty()) {
      active_.back()->response.error = std::string(error);
      Finish(*active_.back(), Outcome::kFailed);
    }
  }

  void EndAll() {
    while (!active_.empty()) Finish(*active_.back(), Outcome::kCancelled);
    TakeAdded();
    while (!waiting_.empty()) {
      const std::unique_ptr<Attempt> attempt = std::move(waiting_.back());
      waiting_.pop_back();
      Report(*attempt, Outcome::kCancelled);
    }
  }

  const HttpClientOptions& options_;
  const std::unique_ptr<CURLM, MultiDeleter> multi_;

  std::mutex mutex_;
  std::vector<std::unique_ptr<Attempt>> added_;
  bool stopping_ = false;
  std::atomic<bool> cannot_wake_ = false;

  std::deque<std::unique_ptr<Attempt>> waiting_;
  std::vector<std::unique_ptr<Attempt>> active_;
  std::vector<Easy> spare_;
  int64_t stalled_ = 0;

  std::optional<base::ThreadPool> thread_;
};

namespace {

HttpClientOptions WithDefaults(HttpClientOptions options) {
  if (options.waits == nullptr) options.waits = NetworkWaits::Default();
  return options;
}

// Host and port of a URL: "http://127.0.0.1:4443/storage/v1/b?x=y" gives "127.0.0.1:4443". The rest
// may contain secrets.
std::string HostOf(absl::string_view url) {
  const size_t scheme = url.find("://");
  if (scheme != absl::string_view::npos) url.remove_prefix(scheme + 3);
  url = url.substr(0, url.find_first_of("/?#"));
  const size_t at = url.rfind('@');
  return std::string(at == absl::string_view::npos ? url : url.substr(at + 1));
}

}  // namespace

HttpClient::HttpClient(HttpClientOptions options) : options_(WithDefaults(std::move(options))) {
  // If this fails, every attempt reports it.
  static const CURLcode initialized = curl_global_init(CURL_GLOBAL_ALL);
  (void)initialized;
  for (int i = 0; i < options_.threads; ++i) loops_.push_back(std::make_unique<Loop>(options_));
}

HttpClient::~HttpClient() {
  // All loops are stopped before the first is destroyed, because a completion on one may start a
  // request on another.
  for (const auto& loop : loops_) loop->Stop();
  for (const auto& loop : loops_) loop->Join();
}

void HttpClient::Start(HttpRequest request, std::function<void(HttpResponse)> done) {
  auto attempt = std::make_unique<Attempt>();
  attempt->request = std::move(request);
  if (attempt->request.wait == nullptr) {
    attempt->request.wait = std::make_shared<NetworkWait>(
        options_.waits, absl::StrCat("reach ", HostOf(attempt->request.url)));
  }
  attempt->done = std::move(done);
  loops_[next_++ % loops_.size()]->Add(std::move(attempt));
}

HttpResponse HttpClient::Fetch(HttpRequest request) {
  std::mutex mutex;
  std::condition_variable came;
  std::optional<HttpResponse> response;
  Start(std::move(request), [&](HttpResponse a) {
    std::lock_guard lock(mutex);  // held while notifying, because `came` is destroyed afterwards
    response = std::move(a);
    came.notify_one();
  });
  std::unique_lock lock(mutex);
  came.wait(lock, [&] { return response.has_value(); });
  return *std::move(response);
}

void HttpClient::Wake() {
  for (const auto& loop : loops_) loop->Wake();
}

}  // namespace penstock::io
