#include "penstock/io/object_reader.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/io/service_error.h"

namespace penstock::io {
namespace {

using End = HttpAnswer::End;

absl::Status ReplacedError(const StoredObject& object, const ObjectService& service) {
  return absl::AbortedError(absl::StrCat("cannot go on reading '", DisplayUri(object.uri),
                                         "': it was replaced or removed since it was opened (",
                                         service.version_name, " ", object.version,
                                         " is gone); open it again"));
}

absl::StatusCode CodeOf(int http_status) {
  switch (http_status) {
    case 400:
      return absl::StatusCode::kInvalidArgument;
    case 401:
      return absl::StatusCode::kUnauthenticated;
    case 403:
      return absl::StatusCode::kPermissionDenied;
    case 404:
      return absl::StatusCode::kNotFound;
    case 416:
      return absl::StatusCode::kOutOfRange;
    default:
      return absl::StatusCode::kUnknown;
  }
}

std::string WhatTheServiceSaid(const HttpAnswer& answer, const ObjectService& service) {
  const std::string message = service.message_of(answer.body);
  return absl::StrCat(DescribeEnd(answer), message.empty() ? "" : ": ", message);
}

absl::Status RefusedError(const HttpAnswer& answer, const ObjectService& service,
                          absl::string_view doing, const Uri& uri) {
  const absl::StatusCode code = answer.end != End::kWhole ? absl::StatusCode::kUnavailable
                                : service.refuses_credentials(answer)
                                    ? absl::StatusCode::kUnauthenticated
                                    : CodeOf(answer.status);
  std::string said = WhatTheServiceSaid(answer, service);
  if (!answer.bucket_region.empty() && (answer.status / 100 == 3 || answer.status == 400)) {
    absl::StrAppend(&said, "; the bucket is in region ", answer.bucket_region,
                    ": set AWS_REGION, or the option region");
  }
  return ServiceError(code, said, doing, uri);
}

bool LooksLikeAPage(absl::string_view body) {
  body = absl::StripLeadingAsciiWhitespace(body);
  return absl::StartsWithIgnoreCase(body, "<!doctype") || absl::StartsWithIgnoreCase(body, "<html");
}

// Whether an error status comes from something between here and the service: a proxy, a load
// balancer without a backend, a login page. The answer to HEAD has no body to judge by.
bool IsForeign(const HttpAnswer& answer, const ObjectService& service, bool is_head) {
  if (answer.end != End::kWhole || answer.status / 100 == 2) return false;
  if (IsWorthRetrying(answer) || service.is_own_error(answer)) return false;
  switch (answer.status) {
    case 401:
    case 403:  // has many wordings, and nothing depends on it
    case 412:
    case 416:
      return LooksLikeAPage(answer.body);
    default:
      // No service redirects HEAD without naming itself.
      return !is_head || answer.status / 100 == 3;
  }
}

// Turns an answer into a failed attempt, for messages and for the retry.
HttpAnswer AsForeign(HttpAnswer answer, absl::string_view why) {
  answer.error =
      absl::StrCat(DescribeEnd(answer), ", ", why, "; is something between here and the service?");
  answer.end = End::kForeign;
  return answer;
}

constexpr char kNotTheServices[] = "but not an error of the service";

// The Authorization of a request; "" for none.
std::string AuthorizationOf(const HttpRequest& request) {
  for (const std::string& header : request.headers) {
    if (absl::StartsWithIgnoreCase(header, "authorization: ")) return header.substr(15);
  }
  return "";
}

// One range, through all its attempts. It keeps itself alive while an attempt is under way.
class RangeRead : public std::enable_shared_from_this<RangeRead> {
 public:
  using MakeRequest =
      std::function<HttpRequest(const StoredObject& object, int64_t begin, int64_t end)>;

  RangeRead(HttpClient* http, const ObjectService& service, MakeRequest make_request,
            StoredObject object, ObjectRange range, HttpRetry retry,
            std::function<void(ObjectRangeEnd)> done)
      : http_(http),
        service_(service),
        make_request_(std::move(make_request)),
        object_(std::move(object)),
        range_(std::move(range)),
        retry_(std::move(retry)),
        done_(std::move(done)) {}

  void Start(double delay_seconds) {
    ++attempts_;
    checked_ = false;
    attempt_began_at_ = filled_;
    HttpRequest request = make_request_(object_, range_.offset + filled_,
                                        range_.offset + static_cast<int64_t>(range_.out.size()));
    request.delay_seconds = delay_seconds;
    request.cancelled = range_.cancelled;
    request.wait = retry_.wait();
    authorization_ = AuthorizationOf(request);
    not_the_range_.clear();
    request.on_body = [self = shared_from_this()](const HttpAnswer& answer,
                                                  absl::string_view bytes) {
      return self->Take(answer, bytes);
    };
    http_->Start(std::move(request), [self = shared_from_this()](HttpAnswer answer) {
      self->EndAttempt(std::move(answer));
    });
  }

 private:
  // False ends the attempt: status_ or not_the_range_ says why.
  bool Take(const HttpAnswer& answer, absl::string_view bytes) {
    if (!checked_ && !Check(answer)) return false;
    if (bytes.size() > range_.out.size() - filled_) {
      not_the_range_ = "more bytes came than were requested";
      return false;
    }
    std::memcpy(range_.out.data() + filled_, bytes.data(), bytes.size());
    filled_ += bytes.size();
    return true;
  }

  // Before the first byte of each attempt: is it the range, of the generation?
  bool Check(const HttpAnswer& answer) {
    checked_ = true;
    if (answer.status != 206 || answer.range_begin != range_.offset + filled_) {
      not_the_range_ =
          absl::StrCat("the answer to byte ", range_.offset + filled_, " was not that range");
      return false;
    }
    const std::string version = service_.version_of(answer);
    if (version.empty() || answer.range_total < 0) {
      not_the_range_ = absl::StrCat("the answer has no ", service_.version_name);
      return false;
    }
    if (object_.version.empty()) {
      if (answer.range_total <= range_.offset) {
        not_the_range_ = absl::StrCat("the answer is of a file of ", answer.range_total, " bytes");
        return false;
      }
      object_.version = version;
      object_.size = answer.range_total;
      range_.out =
          range_.out.first(std::min<int64_t>(range_.out.size(), object_.size - range_.offset));
      if (range_.on_found != nullptr) range_.on_found(object_);
    }
    if (version != object_.version || answer.range_total != object_.size) {
      status_ = ReplacedError(object_, service_);
      return false;
    }
    return true;
  }

  bool is_whole() const { return checked_ && filled_ == static_cast<int64_t>(range_.out.size()); }

  void EndAttempt(HttpAnswer answer) {
    if (answer.end == End::kCancelled) {
      return Done(absl::CancelledError(
          absl::StrCat("reading '", DisplayUri(object_.uri), "' was cancelled")));
    }
    if (answer.end == End::kWhole && answer.status / 100 == 2 && !checked_) Check(answer);
    if (!status_.ok()) return Done(status_);
    if (!not_the_range_.empty()) {
      answer.end = End::kWhole;
      return TryAgain(AsForeign(std::move(answer), not_the_range_));
    }
    // All bytes have arrived, so a connection that breaks now loses nothing.
    if (is_whole()) return Done(answer);
    if (answer.end == End::kWhole && answer.status / 100 == 2) {
      answer.end = End::kBroken;
      answer.error = "the answer ended too soon";
    }
    const bool is_pinned = !object_.version.empty();
    const bool is_open_404 = !is_pinned && answer.end == End::kWhole && answer.status == 404;
    // The caller that opens the object verifies a 404 (Find).
    if (!is_open_404 && IsForeign(answer, service_, /*is_head=*/false)) {
      return TryAgain(AsForeign(std::move(answer), kNotTheServices));
    }
    if (IsWorthRetrying(answer) || service_.passes(answer)) return TryAgain(answer);
    if (is_pinned && (answer.status == 404 || answer.status == 412)) {
      return Done(ReplacedError(object_, service_));
    }
    // The range lies inside the object.
    if (is_pinned && answer.status == 416) {
      return TryAgain(AsForeign(std::move(answer), "though the file has these bytes"));
    }
    done_({.status = RefusedError(answer, service_, Doing(), object_.uri),
           .bytes = filled_,
           .refused_authorization = service_.refuses_credentials(answer) ? authorization_ : ""});
  }

  void TryAgain(const HttpAnswer& answer) {
    // Less in one attempt is no progress: a connection that trickles would go on for ever.
    constexpr int64_t kProgress = 64 << 10;
    if (filled_ - attempt_began_at_ >= kProgress) retry_.MadeProgress();
    if (const std::optional<double> delay = retry_.NextDelay(answer)) return Start(*delay);
    Done(ServiceError(absl::StatusCode::kUnavailable,
                      absl::StrCat(WhatTheServiceSaid(answer, service_), "; byte ",
                                   range_.offset + filled_, ", attempt ", attempts_),
                      Doing(), object_.uri));
  }

  const char* Doing() const { return object_.version.empty() ? "open" : "read"; }

  void Done(const HttpAnswer& answer) {
    ObjectRangeEnd end{.status = absl::OkStatus(), .bytes = filled_};
    if (attempts_ == 1) {
      end.first_byte_seconds = answer.first_byte_seconds;
      end.transfer_seconds = answer.transfer_seconds;
    }
    done_(std::move(end));
  }
  void Done(absl::Status status) { done_({.status = std::move(status), .bytes = filled_}); }

  HttpClient* const http_;        // outlives its attempts
  const ObjectService& service_;  // lives for ever
  const MakeRequest make_request_;
  StoredObject object_;
  ObjectRange range_;
  HttpRetry retry_;
  const std::function<void(ObjectRangeEnd)> done_;

  int64_t filled_ = 0;
  int64_t attempt_began_at_ = 0;  // of `filled_`
  int attempts_ = 0;
  bool checked_ = false;       // for this attempt
  std::string not_the_range_;  // why this attempt's answer is not the service's
  std::string authorization_;  // sent with this attempt
  absl::Status status_;
};

}  // namespace

HttpRetry ObjectReader::NewRetry(absl::string_view doing, const Uri& uri) {
  return HttpRetry(*http_, retry_limit_seconds_, base::MixSeeds(seed_, requests_++),
                   absl::StrCat(doing, " '", DisplayUri(uri), "'"));
}

template <typename T>
absl::StatusOr<T> ObjectReader::Ask(HttpRetry& retry, double delay, absl::string_view doing,
                                    const Uri& uri,
                                    const std::function<absl::StatusOr<HttpRequest>()>& request,
                                    const std::function<std::optional<T>(const HttpAnswer&)>& read,
                                    bool* is_own) {
  bool reauthorized = false;
  for (;;) {
    PENSTOCK_ASSIGN_OR_RETURN(HttpRequest attempt, request());
    const std::string authorization = AuthorizationOf(attempt);
    const bool is_head = attempt.head;
    attempt.delay_seconds = delay;
    attempt.wait = retry.wait();
    HttpAnswer answer = http_->Fetch(std::move(attempt));
    if (answer.end == End::kCancelled) return absl::CancelledError("the file system is closing");
    if (answer.end == End::kWhole && answer.status == 200) {
      if (std::optional<T> value = read(answer)) return *std::move(value);
      answer = AsForeign(std::move(answer), "but not an answer to the request");
    } else if (answer.end == End::kWhole && answer.status / 100 == 2) {
      answer = AsForeign(std::move(answer), "but not an answer to the request");
    } else if (IsForeign(answer, service_, is_head)) {
      answer = AsForeign(std::move(answer), kNotTheServices);
    } else if (!reauthorized && service_.refuses_credentials(answer)) {
      reauthorized = true;
      if (Reauthorize(authorization)) {
        delay = 0;
        continue;
      }
    }
    if (!IsWorthRetrying(answer) && !service_.passes(answer)) {
      if (is_own != nullptr) *is_own = service_.is_own_error(answer);
      return RefusedError(answer, service_, doing, uri);
    }
    const std::optional<double> next = retry.NextDelay(answer);
    if (!next) {
      return ServiceError(
          absl::StatusCode::kUnavailable,
          absl::StrCat(WhatTheServiceSaid(answer, service_), "; attempt ", retry.attempts()), doing,
          uri);
    }
    delay = *next;
  }
}

absl::StatusOr<StoredObject> ObjectReader::Find(const Uri& uri) {
  constexpr absl::string_view kDoing = "open";
  HttpRetry retry = NewRetry(kDoing, uri);
  for (double delay = 0;;) {
    bool is_own = false;
    absl::StatusOr<StoredObject> found = Ask<StoredObject>(
        retry, delay, kDoing, uri, [&] { return FindRequest(uri); },
        [&](const HttpAnswer& answer) { return Found(uri, answer); }, &is_own);
    if (!absl::IsNotFound(found.status())) return found;
    PENSTOCK_ASSIGN_OR_RETURN(const bool is_believed, IsMissing(uri, is_own));
    if (is_believed) return found;
    const HttpAnswer doubted = {
        .end = End::kForeign,
        .error =
            "HTTP status 404, which the service's listing does not confirm; is something "
            "between here and the service?"};
    const std::optional<double> next = retry.NextDelay(doubted);
    if (!next) {
      return ServiceError(absl::StatusCode::kUnavailable, DescribeEnd(doubted), kDoing, uri);
    }
    delay = *next;
  }
}

// Verifies a 404, whether or not it was the service's own error, by a listing.
absl::StatusOr<bool> ObjectReader::IsMissing(const Uri& uri, bool is_own) {
  const auto page = AskForPage(uri, /*all_levels=*/false, "");
  if (absl::IsNotFound(page.status())) return true;  // the bucket does not exist either
  if (absl::IsPermissionDenied(page.status()) || absl::IsUnauthenticated(page.status())) {
    return is_own;  // there is no other evidence than the 404
  }
  PENSTOCK_RETURN_IF_ERROR(page.status());
  // It would be the first of the names that begin with this one.
  return page->objects.empty() || page->objects[0].path != uri.path;
}

absl::StatusOr<ObjectPage> ObjectReader::AskForPage(const Uri& prefix, bool all_levels,
                                                    const std::string& page) {
  HttpRetry retry = NewRetry("list", prefix);
  return Ask<ObjectPage>(
      retry, /*delay=*/0, "list", prefix, [&] { return ListRequest(prefix, all_levels, page); },
      [&](const HttpAnswer& answer) { return Listed(prefix, answer); }, nullptr);
}

absl::StatusOr<ObjectPage> ObjectReader::ListPage(const Uri& prefix, bool all_levels,
                                                  const std::string& page) {
  auto listed = AskForPage(prefix, all_levels, page);
  // A bucket has no parent to list.
  if (absl::IsNotFound(listed.status())) return AskForPage(prefix, all_levels, page);
  return listed;
}

void ObjectReader::Read(const StoredObject& object, ObjectRange range,
                        std::function<void(ObjectRangeEnd)> done) {
  auto make_request = MakeRangeRequest();
  if (!make_request.ok()) return done({.status = make_request.status()});
  std::make_shared<RangeRead>(
      http_.get(), service_, *std::move(make_request), object, std::move(range),
      NewRetry(object.version.empty() ? "open" : "read", object.uri), std::move(done))
      ->Start(0);
}

}  // namespace penstock::io
