#include "penstock/io/gcs_reader.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include <nlohmann/json.hpp>

#include "penstock/base/status.h"
#include "penstock/io/http_retry.h"
#include "penstock/io/service_error.h"

namespace penstock::io {
namespace {

using End = HttpAnswer::End;

// Names of objects stand in one step of the URL.
std::string PercentEncode(absl::string_view name) {
  std::string out;
  for (const char c : name) {
    if (absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.' || c == '~') {
      out += c;
    } else {
      absl::StrAppendFormat(&out, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return out;
}

// {"error": {"message": "..."}}, or a text that is no page.
std::string WhatTheServiceSaid(const HttpAnswer& answer) {
  std::string said = DescribeEnd(answer);
  const auto json = nlohmann::json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  if (json.is_object() && json.contains("error") && json["error"].is_object()) {
    const auto message = json["error"].find("message");
    if (message != json["error"].end() && message->is_string()) {
      absl::StrAppend(&said, ": ", message->get<std::string>());
    }
  }
  return said;
}

absl::Status ReplacedError(const Uri& uri, int64_t generation) {
  return absl::AbortedError(
      absl::StrCat("cannot go on reading '", DisplayUri(uri),
                   "': it was replaced or removed since it was opened (generation ", generation,
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

absl::Status RefusedError(const HttpAnswer& answer, absl::string_view doing, const Uri& uri) {
  return ServiceError(CodeOf(answer.status), WhatTheServiceSaid(answer), doing, uri);
}

// What goes wrong when something that is no storage service answers: a proxy, a login page.
absl::Status NotAStorageServiceError(const Uri& uri, absl::string_view why) {
  return absl::DataLossError(absl::StrCat("cannot read '", DisplayUri(uri), "': ", why,
                                          "; is something between here and the service?"));
}

// One range, through all its attempts. It keeps itself alive while an attempt is under way.
class RangeRead : public std::enable_shared_from_this<RangeRead> {
 public:
  RangeRead(HttpClient* http, std::string url, std::string authorization, GcsObject object,
            GcsRange range, HttpRetry retry, std::function<void(GcsRangeEnd)> done)
      : http_(http),
        url_(std::move(url)),
        authorization_(std::move(authorization)),
        object_(std::move(object)),
        range_(std::move(range)),
        retry_(std::move(retry)),
        done_(std::move(done)) {}

  void Start(double delay_seconds) {
    ++attempts_;
    checked_ = false;
    attempt_began_at_ = filled_;
    const int64_t wanted = range_.out.size();
    HttpRequest request{.url = absl::StrCat(url_, "?alt=media")};
    if (object_.generation != 0) absl::StrAppend(&request.url, "&generation=", object_.generation);
    // Objects stored compressed are wanted as they are stored: ranges are of those bytes.
    request.headers = {
        absl::StrCat("Range: bytes=", range_.offset + filled_, "-", range_.offset + wanted - 1),
        "Accept-Encoding: gzip"};
    if (!authorization_.empty()) request.headers.push_back("Authorization: " + authorization_);
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
      return NotAStorageServiceError(object_.uri, "more bytes came than were asked for");
    }
    std::memcpy(range_.out.data() + filled_, bytes.data(), bytes.size());
    filled_ += bytes.size();
    return absl::OkStatus();
  }

  // Before the first byte of each attempt: is it the range, of the generation?
  absl::Status Check(const HttpAnswer& answer) {
    checked_ = true;
    if (answer.status != 206 || answer.range_begin != range_.offset + filled_) {
      return NotAStorageServiceError(
          object_.uri, absl::StrCat("the answer to byte ", range_.offset + filled_,
                                    " was not that range (HTTP status ", answer.status, ")"));
    }
    if (answer.generation == 0 || answer.range_total < 0) {
      return NotAStorageServiceError(object_.uri,
                                     "the answer tells no generation (x-goog-generation)");
    }
    if (object_.generation == 0) {
      object_.generation = answer.generation;
      object_.size = answer.range_total;
      range_.out =
          range_.out.first(std::min<int64_t>(range_.out.size(), object_.size - range_.offset));
      if (range_.on_found != nullptr) range_.on_found(object_);
    }
    if (answer.generation != object_.generation || answer.range_total != object_.size) {
      return ReplacedError(object_.uri, object_.generation);
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
      return Done(is_gone && object_.generation != 0
                      ? ReplacedError(object_.uri, object_.generation)
                      : RefusedError(answer, Doing(), object_.uri));
    }
    // Less in one attempt is no progress: a connection that trickles would go on for ever.
    constexpr int64_t kProgress = 64 << 10;
    if (filled_ - attempt_began_at_ >= kProgress) retry_.MadeProgress();
    if (const std::optional<double> delay = retry_.NextDelay(answer)) return Start(*delay);
    Done(ServiceError(absl::StatusCode::kUnavailable,
                      absl::StrCat(WhatTheServiceSaid(answer), "; byte ", range_.offset + filled_,
                                   ", attempt ", attempts_),
                      Doing(), object_.uri));
  }

  const char* Doing() const { return object_.generation == 0 ? "open" : "read"; }

  void Done(const HttpAnswer& answer) {
    GcsRangeEnd end{.status = absl::OkStatus(), .bytes = filled_};
    if (attempts_ == 1) {
      end.first_byte_seconds = answer.first_byte_seconds;
      end.transfer_seconds = answer.transfer_seconds;
    }
    done_(std::move(end));
  }
  void Done(absl::Status status) { done_({.status = std::move(status), .bytes = filled_}); }

  HttpClient* const http_;  // outlives its attempts
  const std::string url_;
  const std::string authorization_;
  GcsObject object_;
  GcsRange range_;
  HttpRetry retry_;
  const std::function<void(GcsRangeEnd)> done_;

  int64_t filled_ = 0;
  int64_t attempt_began_at_ = 0;  // of `filled_`
  int attempts_ = 0;
  bool checked_ = false;  // this attempt
  absl::Status status_;
};

// "size": "123", as the JSON API writes 64-bit numbers.
std::optional<int64_t> NumberOf(const nlohmann::json& json, const char* field) {
  int64_t number = 0;
  if (!json.is_object() || !json.contains(field) || !json[field].is_string()) return std::nullopt;
  if (!absl::SimpleAtoi(json[field].get_ref<const std::string&>(), &number)) return std::nullopt;
  return number;
}

}  // namespace

GcsReader::GcsReader(std::shared_ptr<HttpClient> http, GcsEndpoint endpoint, Authorize authorize,
                     uint64_t seed)
    : http_(std::move(http)),
      endpoint_(std::move(endpoint)),
      authorize_(std::move(authorize)),
      seed_(seed) {}

std::string GcsReader::ObjectUrl(const Uri& uri) const {
  return absl::StrCat(endpoint_.url(), "/storage/v1/b/", PercentEncode(uri.bucket), "/o/",
                      PercentEncode(uri.path));
}

absl::StatusOr<GcsObject> GcsReader::Find(const Uri& uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string authorization, authorize_());
  HttpRequest request{.url = absl::StrCat(ObjectUrl(uri), "?fields=size,generation")};
  if (!authorization.empty()) request.headers.push_back("Authorization: " + authorization);
  HttpRetry retry(http_->clock(), endpoint_.retry_limit_seconds,
                  base::MixSeeds(seed_, requests_++));
  HttpAnswer answer = http_->Fetch(request);
  while (IsWorthRetrying(answer)) {
    const std::optional<double> delay = retry.NextDelay(answer);
    if (!delay) {
      return ServiceError(absl::StatusCode::kUnavailable, WhatTheServiceSaid(answer), "open", uri);
    }
    request.delay_seconds = *delay;
    answer = http_->Fetch(request);
  }
  if (answer.end == End::kCancelled) return absl::CancelledError("the file system is closing");
  if (answer.status != 200) return RefusedError(answer, "open", uri);
  const auto json = nlohmann::json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  const auto size = NumberOf(json, "size");
  const auto generation = NumberOf(json, "generation");
  if (!size || !generation) {
    return NotAStorageServiceError(uri, "the answer is no description of an object");
  }
  return GcsObject{.uri = uri, .generation = *generation, .size = *size};
}

void GcsReader::Read(const GcsObject& object, GcsRange range,
                     std::function<void(GcsRangeEnd)> done) {
  auto authorization = authorize_();
  if (!authorization.ok()) return done({.status = authorization.status()});
  std::make_shared<RangeRead>(
      http_.get(), ObjectUrl(object.uri), *std::move(authorization), object, std::move(range),
      HttpRetry(http_->clock(), endpoint_.retry_limit_seconds, base::MixSeeds(seed_, requests_++)),
      std::move(done))
      ->Start(0);
}

}  // namespace penstock::io
