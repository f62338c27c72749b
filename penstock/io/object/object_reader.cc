#include "penstock/io/object/object_reader.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/io/object/service_error.h"

namespace penstock::io {
namespace {

using Outcome = HttpResponse::Outcome;

absl::Status ReplacedError(const StoredObject& object, const ObjectService& service) {
  return absl::AbortedError(absl::StrCat("cannot continue reading '", DisplayUri(object.uri),
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

std::string DescribeResponse(const HttpResponse& response, const ObjectService& service) {
  const std::string message = service.error_message(response.body);
  return absl::StrCat(DescribeOutcome(response), message.empty() ? "" : ": ", message);
}

absl::Status RejectionError(const HttpResponse& response, const ObjectService& service,
                            absl::string_view doing, const Uri& uri) {
  const absl::StatusCode code =
      response.outcome != Outcome::kComplete  ? absl::StatusCode::kUnavailable
      : service.rejects_credentials(response) ? absl::StatusCode::kUnauthenticated
                                              : CodeOf(response.status);
  std::string said = DescribeResponse(response, service);
  if (!response.bucket_region.empty() && (response.status / 100 == 3 || response.status == 400)) {
    absl::StrAppend(&said, "; the bucket is in region ", response.bucket_region,
                    ": set AWS_REGION, or the option region");
  }
  return ServiceError(code, said, doing, uri);
}

bool LooksLikeAPage(absl::string_view body) {
  body = absl::StripLeadingAsciiWhitespace(body);
  return absl::StartsWithIgnoreCase(body, "<!doctype") || absl::StartsWithIgnoreCase(body, "<html");
}

// Whether an error status comes from an intermediary: a proxy, a load balancer without a backend, a
// login page. The response to HEAD has no body that would tell.
bool IsForeign(const HttpResponse& response, const ObjectService& service, bool is_head) {
  if (response.outcome != Outcome::kComplete || response.status / 100 == 2) return false;
  if (IsRetryable(response) || service.is_own_error(response)) return false;
  switch (response.status) {
    case 401:
    case 403:  // has many wordings, and nothing depends on it
    case 412:
    case 416:
      return LooksLikeAPage(response.body);
    default:
      // No service redirects HEAD without identifying itself.
      return !is_head || response.status / 100 == 3;
  }
}

// Turns a response into a failed attempt (kNotFromService), for messages and retries.
HttpResponse AsNotFromService(HttpResponse response, absl::string_view why) {
  response.error = absl::StrCat(DescribeOutcome(response), ", ", why,
                                "; is a proxy between here and the service?");
  response.outcome = Outcome::kNotFromService;
  return response;
}

constexpr char kNotTheServices[] = "which is not an error of the service";

// Value of the Authorization header of a request; "" if there is none.
std::string AuthorizationOf(const HttpRequest& request) {
  for (const std::string& header : request.headers) {
    if (absl::StartsWithIgnoreCase(header, "authorization: ")) return header.substr(15);
  }
  return "";
}

// One range read with all its attempts. It keeps itself alive while an attempt is in flight.
class RangeRead : public std::enable_shared_from_this<RangeRead> {
 public:
  using MakeRequest =
      std::function<HttpRequest(const StoredObject& object, int64_t begin, int64_t end)>;

  RangeRead(HttpClient* http, const ObjectService& service, MakeRequest make_request,
            StoredObject object, ObjectRange range, HttpRetry retry,
            std::function<void(ObjectRangeResult)> done)
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
    request.on_body = [self = shared_from_this()](const HttpResponse& response,
                                                  absl::string_view bytes) {
      return self->Take(response, bytes);
    };
    http_->Start(std::move(request), [self = shared_from_this()](HttpResponse response) {
      self->EndAttempt(std::move(response));
    });
  }

 private:
  // False aborts the attempt: status_ or not_the_range_ says why.
  bool Take(const HttpResponse& response, absl::string_view bytes) {
    if (!checked_ && !Check(response)) return false;
    if (bytes.size() > range_.out.size() - filled_) {
      not_the_range_ = "the response has more bytes than were requested";
      return false;
    }
    std::memcpy(range_.out.data() + filled_, bytes.data(), bytes.size());
    filled_ += bytes.size();
    return true;
  }

  // Before the first byte of each attempt: checks that the response is the requested range and
  // version.
  bool Check(const HttpResponse& response) {
    checked_ = true;
    if (response.status != 206 || response.range_begin != range_.offset + filled_) {
      not_the_range_ = absl::StrCat("the response to the request for byte ",
                                    range_.offset + filled_, " was not that range");
      return false;
    }
    const std::string version = service_.version_of(response);
    if (version.empty() || response.range_total < 0) {
      not_the_range_ = absl::StrCat("the response has no ", service_.version_name);
      return false;
    }
    if (object_.version.empty()) {
      if (response.range_total <= range_.offset) {
        not_the_range_ =
            absl::StrCat("the response is of a file of ", response.range_total, " bytes");
        return false;
      }
      object_.version = version;
      object_.size = response.range_total;
      range_.out =
          range_.out.first(std::min<int64_t>(range_.out.size(), object_.size - range_.offset));
      if (range_.on_found != nullptr) range_.on_found(object_);
    }
    if (version != object_.version || response.range_total != object_.size) {
      status_ = ReplacedError(object_, service_);
      return false;
    }
    return true;
  }

  bool is_whole() const { return checked_ && filled_ == static_cast<int64_t>(range_.out.size()); }

  void EndAttempt(HttpResponse response) {
    if (response.outcome == Outcome::kCancelled) {
      return Done(absl::CancelledError(
          absl::StrCat("reading '", DisplayUri(object_.uri), "' was cancelled")));
    }
    if (response.outcome == Outcome::kComplete && response.status / 100 == 2 && !checked_)
      Check(response);
    if (!status_.ok()) return Done(status_);
    if (!not_the_range_.empty()) {
      response.outcome = Outcome::kComplete;
      return TryAgain(AsNotFromService(std::move(response), not_the_range_));
    }
    // All bytes have arrived, so it does not matter how the connection ended.
    if (is_whole()) return Done(response);
    if (response.outcome == Outcome::kComplete && response.status / 100 == 2) {
      response.outcome = Outcome::kFailed;
      response.error = "the response body was truncated";
    }
    const bool is_pinned = !object_.version.empty();
    const bool is_open_404 =
        !is_pinned && response.outcome == Outcome::kComplete && response.status == 404;
    // The caller that opens the object verifies a 404 (Stat).
    if (!is_open_404 && IsForeign(response, service_, /*is_head=*/false)) {
      return TryAgain(AsNotFromService(std::move(response), kNotTheServices));
    }
    if (IsRetryable(response) || service_.is_transient(response)) return TryAgain(response);
    if (is_pinned && (response.status == 404 || response.status == 412)) {
      return Done(ReplacedError(object_, service_));
    }
    // The range lies inside the object.
    if (is_pinned && response.status == 416) {
      return TryAgain(AsNotFromService(std::move(response), "although the file has these bytes"));
    }
    done_({.status = RejectionError(response, service_, Doing(), object_.uri),
           .bytes = filled_,
           .rejected_authorization = service_.rejects_credentials(response) ? authorization_ : ""});
  }

  void TryAgain(const HttpResponse& response) {
    // Fewer bytes in one attempt are not progress: a trickling connection would otherwise never
    // time out.
    constexpr int64_t kProgress = 64 << 10;
    if (filled_ - attempt_began_at_ >= kProgress) retry_.MadeProgress();
    if (const std::optional<double> delay = retry_.NextDelay(response)) return Start(*delay);
    Done(ServiceError(absl::StatusCode::kUnavailable,
                      absl::StrCat(DescribeResponse(response, service_), "; byte ",
                                   range_.offset + filled_, ", attempt ", attempts_),
                      Doing(), object_.uri));
  }

  const char* Doing() const { return object_.version.empty() ? "open" : "read"; }

  void Done(const HttpResponse& response) {
    ObjectRangeResult end{.status = absl::OkStatus(), .bytes = filled_};
    if (attempts_ == 1) {
      end.first_byte_seconds = response.first_byte_seconds;
      end.transfer_seconds = response.transfer_seconds;
    }
    done_(std::move(end));
  }
  void Done(absl::Status status) { done_({.status = std::move(status), .bytes = filled_}); }

  HttpClient* const http_;        // outlives its attempts
  const ObjectService& service_;  // static
  const MakeRequest make_request_;
  StoredObject object_;
  ObjectRange range_;
  HttpRetry retry_;
  const std::function<void(ObjectRangeResult)> done_;

  int64_t filled_ = 0;
  int64_t attempt_began_at_ = 0;  // of `filled_`
  int attempts_ = 0;
  bool checked_ = false;       // for this attempt
  std::string not_the_range_;  // why this attempt's response is not from the service
  std::string authorization_;  // sent with this attempt
  absl::Status status_;
};

}  // namespace

HttpRetry ObjectReader::NewRetry(absl::string_view doing, const Uri& uri) {
  return HttpRetry(*http_, retry_limit_seconds_, base::MixSeeds(seed_, requests_++),
                   absl::StrCat(doing, " '", DisplayUri(uri), "'"));
}

template <typename T>
absl::StatusOr<T> ObjectReader::SendWithRetries(
    HttpRetry& retry, double delay, absl::string_view doing, const Uri& uri,
    const std::function<absl::StatusOr<HttpRequest>()>& request,
    const std::function<std::optional<T>(const HttpResponse&)>& read, bool* is_own) {
  bool reauthorized = false;
  for (;;) {
    PENSTOCK_ASSIGN_OR_RETURN(HttpRequest attempt, request());
    const std::string authorization = AuthorizationOf(attempt);
    const bool is_head = attempt.head;
    attempt.delay_seconds = delay;
    attempt.wait = retry.wait();
    HttpResponse response = http_->Fetch(std::move(attempt));
    if (response.outcome == Outcome::kCancelled)
      return absl::CancelledError("the file system is closing");
    if (response.outcome == Outcome::kComplete && response.status == 200) {
      if (std::optional<T> value = read(response)) return *std::move(value);
      response = AsNotFromService(std::move(response), "which is not a response to the request");
    } else if (response.outcome == Outcome::kComplete && response.status / 100 == 2) {
      response = AsNotFromService(std::move(response), "which is not a response to the request");
    } else if (IsForeign(response, service_, is_head)) {
      response = AsNotFromService(std::move(response), kNotTheServices);
    } else if (!reauthorized && service_.rejects_credentials(response)) {
      reauthorized = true;
      if (Reauthorize(authorization)) {
        delay = 0;
        continue;
      }
    }
    if (!IsRetryable(response) && !service_.is_transient(response)) {
      if (is_own != nullptr) *is_own = service_.is_own_error(response);
      return RejectionError(response, service_, doing, uri);
    }
    const std::optional<double> next = retry.NextDelay(response);
    if (!next) {
      return ServiceError(
          absl::StatusCode::kUnavailable,
          absl::StrCat(DescribeResponse(response, service_), "; attempt ", retry.attempts()), doing,
          uri);
    }
    delay = *next;
  }
}

absl::StatusOr<StoredObject> ObjectReader::Stat(const Uri& uri) {
  constexpr absl::string_view kDoing = "open";
  HttpRetry retry = NewRetry(kDoing, uri);
  for (double delay = 0;;) {
    bool is_own = false;
    absl::StatusOr<StoredObject> found = SendWithRetries<StoredObject>(
        retry, delay, kDoing, uri, [&] { return StatRequest(uri); },
        [&](const HttpResponse& response) { return ParseStat(uri, response); }, &is_own);
    if (!absl::IsNotFound(found.status())) return found;
    PENSTOCK_ASSIGN_OR_RETURN(const bool is_believed, IsMissing(uri, is_own));
    if (is_believed) return found;
    const HttpResponse doubted = {.outcome = Outcome::kNotFromService,
                                  .error =
                                      "HTTP status 404, which the service's listing contradicts; "
                                      "is a proxy between here and the service?"};
    const std::optional<double> next = retry.NextDelay(doubted);
    if (!next) {
      return ServiceError(absl::StatusCode::kUnavailable, DescribeOutcome(doubted), kDoing, uri);
    }
    delay = *next;
  }
}

// Verifies a 404 by a listing, whether or not it was the service's own error.
absl::StatusOr<bool> ObjectReader::IsMissing(const Uri& uri, bool is_own) {
  const auto page = RequestPage(uri, /*all_levels=*/false, "");
  if (absl::IsNotFound(page.status())) return true;  // the bucket does not exist either
  if (absl::IsPermissionDenied(page.status()) || absl::IsUnauthenticated(page.status())) {
    return is_own;  // the 404 is the only evidence
  }
  PENSTOCK_RETURN_IF_ERROR(page.status());
  // The object would be the first of the names that begin with its own.
  return page->objects.empty() || page->objects[0].path != uri.path;
}

absl::StatusOr<ObjectPage> ObjectReader::RequestPage(const Uri& prefix, bool all_levels,
                                                     const std::string& page) {
  HttpRetry retry = NewRetry("list", prefix);
  return SendWithRetries<ObjectPage>(
      retry, /*delay=*/0, "list", prefix, [&] { return ListRequest(prefix, all_levels, page); },
      [&](const HttpResponse& response) { return ParseListing(prefix, response); }, nullptr);
}

absl::StatusOr<ObjectPage> ObjectReader::ListPage(const Uri& prefix, bool all_levels,
                                                  const std::string& page) {
  auto listed = RequestPage(prefix, all_levels, page);
  // A bucket has no parent to list.
  if (absl::IsNotFound(listed.status())) return RequestPage(prefix, all_levels, page);
  return listed;
}

void ObjectReader::Read(const StoredObject& object, ObjectRange range,
                        std::function<void(ObjectRangeResult)> done) {
  auto make_request = MakeRangeRequest();
  if (!make_request.ok()) return done({.status = make_request.status()});
  std::make_shared<RangeRead>(
      http_.get(), service_, *std::move(make_request), object, std::move(range),
      NewRetry(object.version.empty() ? "open" : "read", object.uri), std::move(done))
      ->Start(0);
}

}  // namespace penstock::io
