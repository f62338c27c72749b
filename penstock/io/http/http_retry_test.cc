#include "penstock/io/http/http_retry.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace penstock::io {
namespace http_retry_test {

using Outcome = HttpResponse::Outcome;

HttpResponse Responded(int status) { return {.outcome = Outcome::kComplete, .status = status}; }

TEST(HttpRetry, RetriesTransientErrors) {
  for (const int status : {408, 429, 500, 502, 503, 504}) {
    EXPECT_TRUE(IsRetryable(Responded(status))) << status;
  }
  for (const int status : {200, 206, 301, 400, 401, 403, 404, 412, 416}) {
    EXPECT_FALSE(IsRetryable(Responded(status))) << status;
  }
  EXPECT_TRUE(IsRetryable({.outcome = Outcome::kFailed}));
  EXPECT_TRUE(IsRetryable({.outcome = Outcome::kStalled}));
  for (const Outcome outcome :
       {Outcome::kPermanentFailure, Outcome::kRejectedByCallback, Outcome::kCancelled}) {
    EXPECT_FALSE(IsRetryable({.outcome = outcome, .status = 503}));
  }
}

TEST(HttpRetry, BacksOffExponentiallyUpToLimit) {
  base::FakeClock clock;
  HttpRetry retry(&clock, 1e9, 1);
  double ceiling = kFirstRetrySeconds;
  for (int i = 0; i < 12; ++i) {
    const auto delay = retry.NextDelay(Responded(503));
    ASSERT_TRUE(delay);
    EXPECT_GE(*delay, ceiling / 2) << i;
    EXPECT_LE(*delay, ceiling) << i;
    ceiling = std::min(2 * ceiling, kLongestRetrySeconds);
  }
  retry.MadeProgress();
  EXPECT_LE(retry.NextDelay(Responded(503)).value(), kFirstRetrySeconds);
}

TEST(HttpRetry, JitterSpreadsRetries) {
  base::FakeClock clock;
  std::vector<double> delays;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    delays.push_back(HttpRetry(&clock, 60, seed).NextDelay(Responded(503)).value());
  }
  std::sort(delays.begin(), delays.end());
  EXPECT_EQ(std::unique(delays.begin(), delays.end()), delays.end());
  EXPECT_LT(delays.front(), 0.55 * kFirstRetrySeconds);
  EXPECT_GT(delays.back(), 0.95 * kFirstRetrySeconds);
}

TEST(HttpRetry, ObeysRetryAfter) {
  base::FakeClock clock;
  HttpResponse busy = Responded(429);
  busy.retry_after_seconds = 20;
  EXPECT_EQ(HttpRetry(&clock, 60, 1).NextDelay(busy), 20);
}

TEST(HttpRetry, MakesOneMoreAttemptAfterRetryAfterBeyondLimit) {
  base::FakeClock clock;
  HttpResponse busy = Responded(429);
  busy.retry_after_seconds = 120;
  HttpRetry retry(&clock, 60, 1);
  EXPECT_EQ(retry.NextDelay(busy), 120);
  clock.Advance(120);
  EXPECT_EQ(retry.NextDelay(busy), std::nullopt);
  // A Retry-After of a year is capped.
  busy.retry_after_seconds = 3e7;
  EXPECT_EQ(HttpRetry(&clock, 60, 1).NextDelay(busy), 300);
}

TEST(HttpRetry, GivesUpWithoutProgress) {
  base::FakeClock clock;
  HttpRetry retry(&clock, 60, 1);
  double waited = 0;
  while (const auto delay = retry.NextDelay(Responded(503))) {
    clock.Advance(*delay);
    waited += *delay;
    ASSERT_LE(waited, 60.001);
  }
  EXPECT_NEAR(waited, 60, 1e-5);  // the last attempt starts when the limit is reached, not earlier
  // An operation that makes progress from time to time is never given up.
  for (int i = 0; i < 100; ++i) {
    clock.Advance(59);
    retry.MadeProgress();
    EXPECT_TRUE(retry.NextDelay({.outcome = Outcome::kFailed})) << i;
  }
}

}  // namespace http_retry_test
}  // namespace penstock::io
