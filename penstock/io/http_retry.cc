#include "penstock/io/http_retry.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace penstock::io {

using End = HttpAnswer::End;

bool IsWorthRetrying(const HttpAnswer& answer) {
  switch (answer.end) {
    case End::kWhole:
      return answer.status == 408 || answer.status == 429 || answer.status / 100 == 5;
    case End::kBroken:
    case End::kStalled:
    case End::kForeign:
      return true;
    case End::kImpossible:
    case End::kRefused:
    case End::kCancelled:
      return false;
  }
  return false;
}

std::string DescribeEnd(const HttpAnswer& answer) {
  switch (answer.end) {
    case End::kWhole:
      return absl::StrCat("HTTP status ", answer.status);
    case End::kBroken:
    case End::kImpossible:
      return absl::StrCat("the connection failed: ", answer.error);
    case End::kStalled:
      return "the connection stalled";
    case End::kForeign:
      return answer.error;
    case End::kRefused:
      return "the answer made no sense";
    case End::kCancelled:
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

std::optional<double> HttpRetry::NextDelay(const HttpAnswer& answer) {
  constexpr double kRounding = 1e-6;
  const double drawn = RetryDelayCeiling(failures_++) * (0.5 + 0.5 * random_.Uniform());
  const double left = since_ + limit_seconds_ - clock_->Seconds();
  if (left <= kRounding) return std::nullopt;
  const double asked =
      std::min(answer.retry_after_seconds, kLongestRetryAfterLimits * limit_seconds_);
  const double delay = std::max(std::min(drawn, left), asked);
  ++attempts_;
  if (wait_ != nullptr) wait_->SetAttempt(attempts_, DescribeEnd(answer), std::max(left, delay));
  return delay;
}

}  // namespace penstock::io
