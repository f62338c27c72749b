// Decides which failed requests are retried, and when: the one retry policy of all operations of
// gs:// and s3://, for reads, writes, listings and credentials alike.
//
// Retried: 408, 429, 5xx, connections that cannot be made, break or stall, bodies that end too
// soon, and answers that are not the service's own (object_reader.h). Delays double from 0.25 to 16
// seconds, each drawn from the upper half (so that many readers do not retry at the same time), or
// are what the service asks for (Retry-After), if longer.
//
// Given up after `limit_seconds` (60 by default) without progress: the last attempt starts no
// earlier than that. An attempt that made progress resets the limit and the delays. A Retry-After
// beyond the limit is obeyed and followed by one more attempt; it is capped at
// kLongestRetryAfterLimits times the limit (5 minutes), so that an operation without progress ends
// within limit_seconds, or one such delay more, and one attempt, which is bounded by http_client.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "penstock/base/clock.h"
#include "penstock/base/random.h"
#include "penstock/io/http_client.h"

namespace penstock::io {

inline constexpr double kFirstRetrySeconds = 0.25;
inline constexpr double kLongestRetrySeconds = 16;
inline constexpr double kRetryLimitSeconds = 60;
inline constexpr double kLongestRetryAfterLimits = 5;

// Upper bound of the delay after `failures` failed attempts (from 0) in a row: 0.25 s, 0.5 s, ...
double RetryDelayCeiling(int failures);

// Whether the same request may have another end.
bool IsWorthRetrying(const HttpAnswer& answer);

// "HTTP status 503", "the connection broke: ...": for messages.
std::string DescribeEnd(const HttpAnswer& answer);

// The retries of one operation. One thread at a time.
class HttpRetry {
 public:
  HttpRetry(base::Clock* clock, double limit_seconds, uint64_t seed,
            std::shared_ptr<NetworkWait> wait = nullptr)
      : clock_(clock),
        limit_seconds_(limit_seconds),
        random_(seed),
        since_(clock->Seconds()),
        wait_(std::move(wait)) {}
  // Reports a long wait as `doing` ("open 'gs://b/x'").
  HttpRetry(const HttpClient& http, double limit_seconds, uint64_t seed, std::string doing);

  // The attempt brought something that need not be brought again.
  void MadeProgress();

  // After a failure: how long to wait before the next attempt; nothing when it is to be given up.
  std::optional<double> NextDelay(const HttpAnswer& answer);

  // Each request of the operation names it (HttpRequest::wait).
  const std::shared_ptr<NetworkWait>& wait() const { return wait_; }
  int attempts() const { return attempts_; }

 private:
  base::Clock* clock_;
  double limit_seconds_;
  base::Random random_;
  double since_;
  std::shared_ptr<NetworkWait> wait_;
  int failures_ = 0;  // in a row
  int attempts_ = 1;
};

}  // namespace penstock::io
