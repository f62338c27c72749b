#include "penstock/io/http_client.h"

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
#include <curl/curl.h>

#include "penstock/base/status.h"
#include "penstock/base/thread_pool.h"

namespace penstock::io {
namespace {

using End = HttpAnswer::End;

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

// "bytes 0-99/1234"; also "bytes */1234", the answer to a range beyond the end.
void ParseContentRange(absl::string_view value, HttpAnswer& answer) {
  if (!absl::ConsumePrefix(&value, "bytes ")) return;
  const size_t slash = value.find('/');
  if (slash == absl::string_view::npos) return;
  int64_t total = 0;
  if (absl::SimpleAtoi(value.substr(slash + 1), &total)) answer.range_total = total;
  int64_t begin = 0;
  if (absl::SimpleAtoi(value.substr(0, value.find('-')), &begin)) answer.range_begin = begin;
}

// One attempt, from its place in the queue to its end.
struct Attempt {
  HttpRequest request;
  std::function<void(HttpAnswer)> done;
  HttpAnswer answer;
  double start_at = 0;
  Easy easy;
  HeaderList headers;
  double stall_window_start = 0;
  int64_t stall_window_bytes = 0;
  bool head_is_whole = false;
  bool refused = false;
  char error[CURL_ERROR_SIZE] = "";

  bool cancelled() const { return request.cancelled != nullptr && *request.cancelled; }

  void TakeHeader(absl::string_view line) {
    stall_window_bytes += line.size();
    if (absl::ConsumePrefix(&line, "HTTP/")) {
      answer = {};  // a second one follows 100 Continue
      head_is_whole = false;
      const size_t space = line.find(' ');
      if (space != absl::string_view::npos) {
        (void)absl::SimpleAtoi(line.substr(space + 1, 3), &answer.status);
      }
      return;
    }
    if (line == "\r\n" || line == "\n") head_is_whole = true;
    const size_t colon = line.find(':');
    if (colon == absl::string_view::npos) return;
    const std::string name = absl::AsciiStrToLower(line.substr(0, colon));
    const absl::string_view value = absl::StripAsciiWhitespace(line.substr(colon + 1));
    if (name == "content-length") {
      if (!absl::SimpleAtoi(value, &answer.length)) answer.length = -1;
    } else if (name == "etag") {
      answer.etag = std::string(value);
    } else if (name == "x-amz-bucket-region") {
      answer.bucket_region = std::string(value);
    } else if (name == "x-goog-generation") {
      (void)absl::SimpleAtoi(value, &answer.generation);
    } else if (name == "content-range") {
      ParseContentRange(value, answer);
    } else if (name == "retry-after") {
      // A date instead of a number is left aside.
      if (!absl::SimpleAtod(value, &answer.retry_after_seconds)) answer.retry_after_seconds = 0;
    }
  }

  bool TakeBody(absl::string_view bytes) {
    stall_window_bytes += bytes.size();
    if (request.on_body != nullptr && answer.status / 100 == 2) {
      refused = !request.on_body(answer, bytes);
      return !refused;
    }
    const size_t room = HttpClient::kMaxBody - answer.body.size();
    answer.body.append(bytes.data(), std::min(room, bytes.size()));
    return true;
  }
};

size_t OnHeader(char* data, size_t size, size_t count, void* attempt) {
  static_cast<Attempt*>(attempt)->TakeHeader({data, size * count});
  return size * count;
}

size_t OnBody(char* data, size_t size, size_t count, void* attempt) {
  return static_cast<Attempt*>(attempt)->TakeBody({data, size * count}) ? size * count : 0;
}

void Prepare(Attempt& attempt, Easy easy) {
  attempt.easy = std::move(easy);
  CURL* const handle = attempt.easy.get();
  for (const std::string& header : attempt.request.headers) {
    attempt.headers.reset(curl_slist_append(attempt.headers.release(), header.c_str()));
  }
  const auto set = [&](CURLoption option, auto value) {
    PENSTOCK_CHECK(curl_easy_setopt(handle, option, value) == CURLE_OK);
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
  set(CURLOPT_BUFFERSIZE, 512L << 10);  // 16 KiB by default: a system call for each
  set(CURLOPT_NOSIGNAL, 1L);            // signals belong to the program
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);  // those of a proxy
}

bool IsImpossible(CURLcode code) {
  constexpr CURLcode kCodes[] = {CURLE_URL_MALFORMAT, CURLE_UNSUPPORTED_PROTOCOL,
                                 CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CACERT_BADFILE};
  return std::find(std::begin(kCodes), std::end(kCodes), code) != std::end(kCodes);
}

void TakeTimes(CURL* handle, HttpAnswer& answer) {
  curl_off_t sent = 0, first = 0, last = 0;  // microseconds since the start
  curl_easy_getinfo(handle, CURLINFO_PRETRANSFER_TIME_T, &sent);
  curl_easy_getinfo(handle, CURLINFO_STARTTRANSFER_TIME_T, &first);
  curl_easy_getinfo(handle, CURLINFO_TOTAL_TIME_T, &last);
  answer.first_byte_seconds = std::max<double>(first - sent, 0) * 1e-6;
  answer.transfer_seconds = std::max<double>(last - first, 0) * 1e-6;
}

}  // namespace

// One thread, and what only it touches.
class HttpClient::Loop {
 public:
  explicit Loop(const HttpClientOptions& options) : options_(options), multi_(curl_multi_init()) {
    PENSTOCK_CHECK(multi_ != nullptr);
    curl_multi_setopt(multi_.get(), CURLMOPT_MAXCONNECTS,
                      static_cast<long>(options_.max_connections));
    curl_multi_setopt(multi_.get(), CURLMOPT_PIPELINING, static_cast<long>(CURLPIPE_NOTHING));
    thread_.emplace(1, "penstock-http");
    thread_->Schedule([this] { Run(); });
  }

  // Attempts added from now on are cancelled at once.
  void Stop() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    Wake();
  }

  void Join() { thread_.reset(); }

  void Add(std::unique_ptr<Attempt> attempt) {
    attempt->start_at = options_.clock->Seconds() + attempt->request.delay_seconds;
    {
      std::lock_guard lock(mutex_);
      if (!stopping_) {
        added_.push_back(std::move(attempt));
      }
    }
    if (attempt != nullptr) {
      attempt->answer.end = End::kCancelled;
      attempt->done(std::move(attempt->answer));
      return;
    }
    Wake();
  }

  void Wake() { curl_multi_wakeup(multi_.get()); }

 private:
  void Run() {
    while (TakeAdded()) {
      StartThoseDue();
      int running = 0;
      PENSTOCK_CHECK(curl_multi_perform(multi_.get(), &running) == CURLM_OK);
      FinishThoseDone();
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
        PENSTOCK_CHECK(easy != nullptr);
      }
      Prepare(*attempt, std::move(easy));
      attempt->stall_window_start = now;
      PENSTOCK_CHECK(curl_multi_add_handle(multi_.get(), attempt->easy.get()) == CURLM_OK);
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
      // To libcurl a head that is cut off is one without an end, and nothing behind it.
      if (code == CURLE_OK && !attempt.head_is_whole) {
        attempt.answer.error = "the connection was closed in the middle of the answer's head";
        Finish(attempt, End::kBroken);
      } else if (code == CURLE_OK) {
        Finish(attempt, End::kWhole);
      } else if (attempt.refused) {
        Finish(attempt, End::kRefused);
      } else {
        attempt.answer.error = attempt.error[0] != '\0' ? attempt.error : curl_easy_strerror(code);
        Finish(attempt, IsImpossible(code) ? End::kImpossible : End::kBroken);
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
      Report(*attempt, End::kCancelled);
    }
    const double now = options_.clock->Seconds();
    for (size_t i = active_.size(); i-- > 0;) {  // Finish moves the last into the gap
      Attempt& attempt = *active_[i];
      if (attempt.cancelled()) {
        Finish(attempt, End::kCancelled);
      } else if (now >= attempt.stall_window_start + options_.stall_seconds) {
        if (attempt.stall_window_bytes < options_.stall_bytes) {
          ++stalled_;
          Finish(attempt, End::kStalled);
        } else {
          attempt.stall_window_start = now;
          attempt.stall_window_bytes = 0;
        }
      }
    }
  }

  void Wait() {
    const double seconds = SecondsToNextDeadline();
    double limit = 60;
    if (options_.before_wait != nullptr) {
      options_.before_wait({.seconds = seconds,
                            .active = static_cast<int64_t>(active_.size()),
                            .stalled = stalled_});
      limit = 0.005;  // so that it is asked again soon
    }
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

  // Takes an attempt off its connection, which is kept when the answer was whole and closed if not.
  void Finish(Attempt& attempt, End end) {
    TakeTimes(attempt.easy.get(), attempt.answer);
    curl_multi_remove_handle(multi_.get(), attempt.easy.get());
    curl_easy_reset(attempt.easy.get());
    spare_.push_back(std::move(attempt.easy));
    const auto it = std::find_if(active_.begin(), active_.end(),
                                 [&](const auto& other) { return other.get() == &attempt; });
    const std::unique_ptr<Attempt> owner = std::move(*it);
    *it = std::move(active_.back());
    active_.pop_back();
    Report(*owner, end);
  }

  static void Report(Attempt& attempt, End end) {
    attempt.answer.end = end;
    attempt.done(std::move(attempt.answer));
  }

  void EndAll() {
    while (!active_.empty()) Finish(*active_.back(), End::kCancelled);
    TakeAdded();
    while (!waiting_.empty()) {
      const std::unique_ptr<Attempt> attempt = std::move(waiting_.back());
      waiting_.pop_back();
      Report(*attempt, End::kCancelled);
    }
  }

  const HttpClientOptions& options_;
  const std::unique_ptr<CURLM, MultiDeleter> multi_;

  std::mutex mutex_;
  std::vector<std::unique_ptr<Attempt>> added_;
  bool stopping_ = false;

  std::deque<std::unique_ptr<Attempt>> waiting_;
  std::vector<std::unique_ptr<Attempt>> active_;
  std::vector<Easy> spare_;
  int64_t stalled_ = 0;

  std::optional<base::ThreadPool> thread_;
};

HttpClient::HttpClient(HttpClientOptions options) : options_(std::move(options)) {
  static const CURLcode initialised = curl_global_init(CURL_GLOBAL_ALL);
  PENSTOCK_CHECK(initialised == CURLE_OK);
  for (int i = 0; i < options_.threads; ++i) loops_.push_back(std::make_unique<Loop>(options_));
}

HttpClient::~HttpClient() {
  // All are stopped before the first goes: what ends on one may start something on another.
  for (const auto& loop : loops_) loop->Stop();
  for (const auto& loop : loops_) loop->Join();
}

void HttpClient::Start(HttpRequest request, std::function<void(HttpAnswer)> done) {
  auto attempt = std::make_unique<Attempt>();
  attempt->request = std::move(request);
  attempt->done = std::move(done);
  loops_[next_++ % loops_.size()]->Add(std::move(attempt));
}

HttpAnswer HttpClient::Fetch(HttpRequest request) {
  std::mutex mutex;
  std::condition_variable came;
  std::optional<HttpAnswer> answer;
  Start(std::move(request), [&](HttpAnswer a) {
    std::lock_guard lock(mutex);  // held while notifying: then `came` is gone
    answer = std::move(a);
    came.notify_one();
  });
  std::unique_lock lock(mutex);
  came.wait(lock, [&] { return answer.has_value(); });
  return *std::move(answer);
}

void HttpClient::Wake() {
  for (const auto& loop : loops_) loop->Wake();
}

}  // namespace penstock::io
