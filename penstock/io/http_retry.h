// Which attempts of an HTTP request are worth another, and when.
//
// Tried again: 408, 429, 5xx, connections that cannot be made, break or stall, and bodies that end
// too soon. Delays double from 0.25 to 16 seconds, each drawn from the upper half (so that many
// readers do not come back together), or are what the service asks for (Retry-After), if longer. An
// attempt that made progress starts the delays anew. It is given up when `limit_seconds` have gone
// by without progress.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "penstock/base/clock.h"
#include "penstock/base/random.h"
#include "penstock/io/http_client.h"

namespace penstock::io {

inline constexpr double kFirstRetrySeconds = 0.25;
inline constexpr double kLongestRetrySeconds = 16;

// Whether the same request may have another end.
bool IsWorthRetrying(const HttpAnswer& answer);

// "HTTP status 503", "the connection broke: ...": for messages.
std::string DescribeEnd(const HttpAnswer& answer);

// The retries of one request. One thread at a time.
class HttpRetry {
 public:
  HttpRetry(base::Clock* clock, double limit_seconds, uint64_t seed)
      : clock_(clock), limit_seconds_(limit_seconds), random_(seed), since_(clock->Seconds()) {}

  // The attempt brought something that need not be brought again.
  void MadeProgress() {
    failures_ = 0;
    since_ = clock_->Seconds();
  }

  // After a failure: how long to wait before the next attempt; nothing when it is to be given up.
  std::optional<double> NextDelay(const HttpAnswer& answer);

 private:
  base::Clock* const clock_;
  const double limit_seconds_;
  base::Random random_;
  double since_;
  int failures_ = 0;  // in a row
};

}  // namespace penstock::io
