#include "penstock/io/http_retry.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace penstock::io {

using End = HttpAnswer::End;

bool IsWorthRetrying(const HttpAnswer& answer) {
  switch (answer.end) {
    case End::kWhole:
      return answer.status == 408 || answer.status == 429 || answer.status / 100 == 5;
    case End::kBroken:
    case End::kStalled:
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
    case End::kRefused:
      return "the answer made no sense";
    case End::kCancelled:
      return "cancelled";
  }
  return "";
}

std::optional<double> HttpRetry::NextDelay(const HttpAnswer& answer) {
  const double ceiling =
      std::min(kLongestRetrySeconds, std::ldexp(kFirstRetrySeconds, std::min(failures_, 10)));
  ++failures_;
  const double drawn = ceiling * (0.5 + 0.5 * random_.Uniform());
  const double delay = std::max(drawn, answer.retry_after_seconds);
  if (clock_->Seconds() + delay > since_ + limit_seconds_) return std::nullopt;
  return delay;
}

}  // namespace penstock::io
