#include "penstock/io/http/http_retry.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace penstock::io {

using Outcome = HttpResponse::Outcome;

bool IsRetryable(const HttpResponse& response) {
  switch (response.outcome) {
    case Outcome::kComplete:
      return response.status == 408 || response.status == 429 || response.status / 100 == 5;
    case Outcome::kFailed:
    case Outcome::kStalled:
    case Outcome::kNotFromService:
      return true;
    case Outcome::kPermanentFailure:
    case Outcome::kRejectedByCallback:
    case Outcome::kCancelled:
      return false;
  }
  return false;
}

std::string DescribeOutcome(const HttpResponse& response) {
  switch (response.outcome) {
    case Outcome::kComplete:
      return absl::StrCat("HTTP status ", response.status);
    case Outcome::kFailed:
    case Outcome::kPermanentFailure:
      return absl::StrCat("the connection failed: ", response.error);
    case Outcome::kStalled:
      return "the connection stalled";
    case Outcome::kNotFromService:
      return response.error;
    case Outcome::kRejectedByCallback:
      return "the response was invalid";
    case Outcome::kCancelled:
      return "cancelled";
  }
  return "";
}

double RetryDelayCeiling(int failures) {
  return std::min(kLongestRetrySeconds, std::ldexp(kFirstRetrySeconds, std::min(failures, 10)));
}

HttpRetry::HttpRetry(const HttpClient& http, double limit_seconds, uint64_t seed, std::string doing)
    : HttpRetry(http.clock(), limit_seconds, seed,
                std::make_shared<NetworkWait>(http.waits(), std::move(doing), limit_seconds)) {}

void HttpRetry::MadeProgress() {
  failures_ = 0;
  since_ = clock_->Seconds();
  if (wait_ != nullptr) wait_->MadeProgress();
}

std::optional<double> HttpRetry::NextDelay(const HttpResponse& response) {
  constexpr double kRounding = 1e-6;
  const double drawn = RetryDelayCeiling(failures_++) * (0.5 + 0.5 * random_.Uniform());
  const double left = since_ + limit_seconds_ - clock_->Seconds();
  if (left <= kRounding) return std::nullopt;
  const double asked =
      std::min(response.retry_after_seconds, kLongestRetryAfterLimits * limit_seconds_);
  const double delay = std::max(std::min(drawn, left), asked);
  ++attempts_;
  if (wait_ != nullptr)
    wait_->SetAttempt(attempts_, DescribeOutcome(response), std::max(left, delay));
  return delay;
}

}  // namespace penstock::io
