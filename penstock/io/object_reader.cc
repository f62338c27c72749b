#include "penstock/io/object_reader.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/io/http_retry.h"
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
    case 401:
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
  return ServiceError(CodeOf(answer.status), WhatTheServiceSaid(answer, service), doing, uri);
}

absl::Status NotAService(const Uri& uri, absl::string_view why) {
  return absl::DataLossError(absl::StrCat("cannot read '", DisplayUri(uri), "': ", why,
                                          "; is something between here and the service?"));
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
    request.on_body = [self = shared_from_this()](const HttpAnswer& answer,
                                                  absl::string_view bytes) {
      self->status_ = self->Take(answer, bytes);
      return self->status_.ok();
    };
    http_->Start(std::move(request), [self = shared_from_this()](HttpAnswer answer) {
      self->EndAttempt(std::move(answer));
    });
  }

 private:
  absl::Status Take(const HttpAnswer& answer, absl::string_view bytes) {
    if (!checked_) PENSTOCK_RETURN_IF_ERROR(Check(answer));
    if (bytes.size() > range_.out.size() - filled_) {
      return NotAService(object_.uri, "more bytes came than were asked for");
    }
    std::memcpy(range_.out.data() + filled_, bytes.data(), bytes.size());
    filled_ += bytes.size();
    return absl::OkStatus();
  }

  // Before the first byte of each attempt: is it the range, of the generation?
  absl::Status Check(const HttpAnswer& answer) {
    checked_ = true;
    if (answer.status != 206 || answer.range_begin != range_.offset + filled_) {
      return NotAService(object_.uri,
                         absl::StrCat("the answer to byte ", range_.offset + filled_,
                                      " was not that range (HTTP status ", answer.status, ")"));
    }
    const std::string version = service_.version_of(answer);
    if (version.empty() || answer.range_total < 0) {
      return NotAService(object_.uri, absl::StrCat("the answer tells no ", service_.version_name));
    }
    if (object_.version.empty()) {
      object_.version = version;
      object_.size = answer.range_total;
      range_.out =
          range_.out.first(std::min<int64_t>(range_.out.size(), object_.size - range_.offset));
      if (range_.on_found != nullptr) range_.on_found(object_);
    }
    if (version != object_.version || answer.range_total != object_.size) {
      return ReplacedError(object_, service_);
    }
    return absl::OkStatus();
  }

  void EndAttempt(HttpAnswer answer) {
    if (answer.end == End::kCancelled) {
      return Done(absl::CancelledError(
          absl::StrCat("reading '", DisplayUri(object_.uri), "' was cancelled")));
    }
    if (answer.end == End::kRefused) return Done(status_);
    if (answer.end == End::kWhole && answer.status / 100 == 2) {
      if (!checked_) {
        if (absl::Status status = Check(answer); !status.ok()) return Done(std::move(status));
      }
      if (filled_ == static_cast<int64_t>(range_.out.size())) return Done(answer);
      answer.end = End::kBroken;
      answer.error = "the answer ended too soon";
    }
    if (!IsWorthRetrying(answer)) {
      const bool is_gone = answer.status == 404 || answer.status == 412;
      return Done(is_gone && !object_.version.empty()
                      ? ReplacedError(object_, service_)
                      : RefusedError(answer, service_, Doing(), object_.uri));
    }
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
  bool checked_ = false;  // this attempt
  absl::Status status_;
};

}  // namespace

absl::Status ObjectReader::NotAStorageServiceError(const Uri& uri, absl::string_view why) {
  return NotAService(uri, why);
}

absl::StatusOr<HttpAnswer> ObjectReader::Ask(
    const std::function<absl::StatusOr<HttpRequest>()>& request, absl::string_view doing,
    const Uri& uri) {
  HttpRetry retry(http_->clock(), retry_limit_seconds_, base::MixSeeds(seed_, requests_++));
  double delay = 0;
  for (;;) {
    PENSTOCK_ASSIGN_OR_RETURN(HttpRequest attempt, request());
    attempt.delay_seconds = delay;
    HttpAnswer answer = http_->Fetch(std::move(attempt));
    if (answer.end == End::kCancelled) return absl::CancelledError("the file system is closing");
    if (!IsWorthRetrying(answer)) {
      if (answer.status != 200) return RefusedError(answer, service_, doing, uri);
      return answer;
    }
    const std::optional<double> next = retry.NextDelay(answer);
    if (!next) {
      return ServiceError(absl::StatusCode::kUnavailable, WhatTheServiceSaid(answer, service_),
                          doing, uri);
    }
    delay = *next;
  }
}

absl::StatusOr<StoredObject> ObjectReader::Find(const Uri& uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const HttpAnswer answer,
                            Ask([&] { return FindRequest(uri); }, "open", uri));
  return Found(uri, answer);
}

absl::StatusOr<ObjectPage> ObjectReader::ListPage(const Uri& prefix, bool all_levels,
                                                  const std::string& page) {
  PENSTOCK_ASSIGN_OR_RETURN(
      const HttpAnswer answer,
      Ask([&] { return ListRequest(prefix, all_levels, page); }, "list", prefix));
  return Listed(prefix, answer);
}

void ObjectReader::Read(const StoredObject& object, ObjectRange range,
                        std::function<void(ObjectRangeEnd)> done) {
  auto make_request = MakeRangeRequest();
  if (!make_request.ok()) return done({.status = make_request.status()});
  std::make_shared<RangeRead>(
      http_.get(), service_, *std::move(make_request), object, std::move(range),
      HttpRetry(http_->clock(), retry_limit_seconds_, base::MixSeeds(seed_, requests_++)),
      std::move(done))
      ->Start(0);
}

}  // namespace penstock::io
