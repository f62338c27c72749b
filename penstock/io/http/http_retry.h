// Retry policy with exponential backoff and jitter: decides which failed requests are retried, and
// when. All operations of gs:// and s3:// share it: reads, writes, listings and credentials.
//
// Retried (transient errors): 408, 429, 5xx, connections that cannot be established, fail or stall,
// truncated bodies, and responses that are not from the service (object_reader.h). Exponential
// backoff: the delay ceiling doubles from 0.25 to 16 seconds, and each delay is drawn from its
// upper half (jitter, so that many readers do not retry at the same time); a longer Retry-After of
// the service takes precedence.
//
// Deadline: an operation is given up after `limit_seconds` (60 by default) without progress; the
// last attempt starts no earlier than that. An attempt that made progress resets the deadline and
// the backoff. A Retry-After beyond the deadline is obeyed and followed by one more attempt; it is
// capped at kLongestRetryAfterLimits times the limit (5 minutes), so that an operation without
// progress ends within limit_seconds, or one such delay more, and one attempt, which is bounded by
// http_client.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "penstock/base/clock.h"
#include "penstock/base/random.h"
#include "penstock/io/http/http_client.h"

namespace penstock::io {

inline constexpr double kFirstRetrySeconds = 0.25;
inline constexpr double kLongestRetrySeconds = 16;
inline constexpr double kRetryLimitSeconds = 60;
inline constexpr double kLongestRetryAfterLimits = 5;

// Upper bound of the delay after `failures` failed attempts (from 0) in a row: 0.25 s, 0.5 s, ...
double RetryDelayCeiling(int failures);

// Whether the failure is transient, so that the same request may succeed later.
bool IsRetryable(const HttpResponse& response);

// The outcome for messages: "HTTP status 503", "the connection failed: ...".
std::string DescribeOutcome(const HttpResponse& response);

// Retry state of one operation. Not thread-safe.
class HttpRetry {
 public:
  HttpRetry(base::Clock* clock, double limit_seconds, uint64_t seed,
            std::shared_ptr<NetworkWait> wait = nullptr)
      : clock_(clock),
        limit_seconds_(limit_seconds),
        random_(seed),
        since_(clock->Seconds()),
        wait_(std::move(wait)) {}
  // Registers a network wait that is reported as `doing` ("open 'gs://b/x'").
  HttpRetry(const HttpClient& http, double limit_seconds, uint64_t seed, std::string doing);

  // To be called when an attempt received data that need not be requested again; resets backoff and
  // deadline.
  void MadeProgress();

  // After a failure: delay before the next attempt, in seconds; no value if the operation is to be
  // given up.
  std::optional<double> NextDelay(const HttpResponse& response);

  // To be set in each request of the operation (HttpRequest::wait).
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
