// FakeTime: a fake clock for clients of a test's HTTP server. It advances automatically, second by
// second, when every attempt waits only for time to pass, so tests with long timeouts run instantly
// and waits are reported as in real time.
//
//   FakeTime time_{[this] { return gcs_.hung(); }};
//   const std::shared_ptr<FileSystem> fs_ = MakeGcsFileSystem(writer, {.http = time_.Http()});
//   ...
//   EXPECT_LE(time_.Seconds(), 61);
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

#include "penstock/base/clock.h"
#include "penstock/io/http/http_client.h"
#include "penstock/io/http/network_wait.h"

namespace penstock::io {

class FakeTime {
 public:
  // `hung` returns the number of requests that the server has left hanging so far. Default: none.
  explicit FakeTime(std::function<int64_t()> hung = nullptr) : hung_(std::move(hung)) {}

  base::FakeClock& clock() { return clock_; }
  double Seconds() { return clock_.Seconds(); }

  // Options of an HttpClient with one thread.
  HttpClientOptions Http() {
    return {.threads = 1,
            .clock = &clock_,
            .waits = &waits_,
            .before_wait = [this](const HttpClientOptions::Wait& wait) { Pass(wait); }};
  }

  // The wait reports since the last call.
  std::vector<std::string> TakeReports() {
    std::lock_guard lock(mutex_);
    return std::exchange(reports_, {});
  }

 private:
  void Pass(const HttpClientOptions::Wait& wait) {
    const int64_t hopeless = hung_ == nullptr ? 0 : hung_() - wait.stalled;
    if (wait.active != hopeless || !std::isfinite(wait.seconds)) return;
    for (double left = wait.seconds; left > 0; --left) {
      clock_.Advance(std::min(left, 1.0));
      waits_.Poll();
    }
  }

  const std::function<int64_t()> hung_;
  base::FakeClock clock_;
  std::mutex mutex_;
  std::vector<std::string> reports_;
  NetworkWaits waits_{&clock_, [this](absl::string_view line) {
                        std::lock_guard lock(mutex_);
                        reports_.emplace_back(line);
                      }};
};

}  // namespace penstock::io
