#include "penstock/io/http/http_client.h"

#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/io/testing/canned_server.h"

namespace penstock::io {
namespace http_client_test {

using Outcome = HttpResponse::Outcome;

std::string Url(const CannedServer& server) {
  return absl::StrCat("http://127.0.0.1:", server.port(), "/x");
}

TEST(HttpClient, ParsesResponse) {
  const CannedServer server(CannedHttp(
      "206 Partial Content", "hello",
      "x-GOOG-generation:  12 \r\nContent-Range: bytes 7-11/9000000000\r\nRetry-After: 3\r\n"));
  HttpClient http;
  const HttpResponse response = http.Fetch({.url = Url(server), .headers = {"Range: bytes=7-11"}});
  EXPECT_EQ(response.outcome, Outcome::kComplete);
  EXPECT_EQ(response.status, 206);
  EXPECT_EQ(response.body, "hello");
  EXPECT_EQ(response.generation, 12);
  EXPECT_EQ(response.range_begin, 7);
  EXPECT_EQ(response.range_total, 9000000000);
  EXPECT_EQ(response.retry_after_seconds, 3);
  EXPECT_THAT(server.requests().at(0), testing::HasSubstr("\r\nRange: bytes=7-11\r\n"));
}

TEST(HttpClient, RejectsMalformedNumbersInHeaders) {
  const CannedServer server(CannedHttp("200 OK", "",
                                       "x-goog-generation: x\r\nContent-Range: bytes */0\r\n"
                                       "Retry-After: Fri, 31 Dec 1999 23:59:59 GMT\r\n:\r\n"));
  const HttpResponse response = HttpClient().Fetch({.url = Url(server)});
  EXPECT_EQ(response.outcome, Outcome::kComplete);
  EXPECT_EQ(response.generation, 0);
  EXPECT_EQ(response.range_begin, -1);
  EXPECT_EQ(response.range_total, 0);
  EXPECT_EQ(response.retry_after_seconds, 0);
}

TEST(HttpClient, SendsHeadRequest) {
  const CannedServer server(
      "HTTP/1.1 200 OK\r\nContent-Length: 9000000000\r\nETag: \"a-1\"\r\n"
      "x-amz-bucket-region: eu-west-1\r\nConnection: close\r\n\r\n");
  const HttpResponse response = HttpClient().Fetch({.url = Url(server), .head = true});
  EXPECT_EQ(response.outcome, Outcome::kComplete);
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.length, 9000000000);
  EXPECT_EQ(response.etag, "\"a-1\"");
  EXPECT_EQ(response.bucket_region, "eu-west-1");
  EXPECT_THAT(server.requests().at(0), testing::StartsWith("HEAD /x HTTP/1.1\r\n"));
}

TEST(HttpClient, DoesNotFollowRedirects) {
  const CannedServer server(CannedHttp("302 Found", "", "Location: http://127.0.0.1:1/\r\n"));
  EXPECT_EQ(HttpClient().Fetch({.url = Url(server)}).status, 302);
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(HttpClient, DistinguishesTransientFromPermanentFailures) {
  HttpClient http;
  const CannedServer rude("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
  const HttpResponse half = http.Fetch({.url = Url(rude)});
  EXPECT_EQ(half.outcome, Outcome::kFailed);
  EXPECT_FALSE(half.error.empty());
  EXPECT_EQ(http.Fetch({.url = "http://127.0.0.1:1/"}).outcome, Outcome::kFailed);
  const CannedServer no_http("220 mail.example ESMTP\r\n");
  EXPECT_EQ(http.Fetch({.url = Url(no_http)}).outcome, Outcome::kFailed);
  // Extra bytes after a response, which the next request on the same connection receives.
  const CannedServer talkative(
      "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx220 mail.example ESMTP\r\n");
  for (int i = 0; i < 3; ++i) {
    EXPECT_NE(http.Fetch({.url = Url(talkative)}).outcome, Outcome::kPermanentFailure);
  }
  EXPECT_EQ(http.Fetch({.url = "http://[/"}).outcome, Outcome::kPermanentFailure);
  EXPECT_EQ(http.Fetch({.url = "hottp://127.0.0.1/"}).outcome, Outcome::kPermanentFailure);
}

// Truncation within the headers, the blank line, or the body.
TEST(HttpClient, DetectsTruncationAtEveryByte) {
  const std::string whole = CannedHttp("200 OK", "{\"size\": \"3\"}", "ETag: \"a\"\r\n");
  HttpClient http;
  for (size_t size = 1; size < whole.size(); ++size) {
    const CannedServer server(whole.substr(0, size));
    EXPECT_EQ(http.Fetch({.url = Url(server)}).outcome, Outcome::kFailed) << whole.substr(0, size);
  }
  const CannedServer server(whole);
  EXPECT_EQ(http.Fetch({.url = Url(server)}).outcome, Outcome::kComplete);
}

TEST(HttpClient, KeepsBeginningOfErrorBodyWithoutWaitingForRest) {
  // Announces a body of 3 GiB and leaves the connection open.
  const CannedServer server(absl::StrCat(
      "HTTP/1.1 404 Not Found\r\nContent-Length: 3221225472\r\n\r\n", std::string(1 << 20, 'x')));
  const HttpResponse response = HttpClient().Fetch({.url = Url(server)});
  EXPECT_EQ(response.outcome, Outcome::kComplete);
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(response.body, std::string(HttpClient::kMaxErrorBody, 'x'));
}

TEST(HttpClient, AbortsUnboundedResponses) {
  HttpClient http;
  const CannedServer body(
      absl::StrCat("HTTP/1.1 200 OK\r\n\r\n", std::string(HttpClient::kMaxBody + 1, 'x')));
  const HttpResponse response = http.Fetch({.url = Url(body)});
  EXPECT_EQ(response.outcome, Outcome::kFailed);
  EXPECT_THAT(response.error, testing::HasSubstr("exceed"));
  std::string many = "HTTP/1.1 200 OK\r\n";
  while (many.size() <= HttpClient::kMaxHead) {
    absl::StrAppend(&many, "X: ", std::string(997, 'y'), "\r\n");
  }
  std::string continues;
  while (continues.size() <= HttpClient::kMaxHead) continues += "HTTP/1.1 100 Continue\r\n\r\n";
  for (const std::string& head : {many, continues}) {
    const CannedServer server(head);
    EXPECT_EQ(http.Fetch({.url = Url(server)}).outcome, Outcome::kFailed);
  }
}

// Regression: libcurl rejects new options on a handle whose transfer failed before it began.
TEST(HttpClient, ContinuesAfterUnresolvableHost) {
  HttpClient http({.threads = 1});
  // A DNS label has at most 63 characters, so this name is never sent to a name server.
  const std::string unresolvable = absl::StrCat("http://", std::string(64, 'a'), "/");
  const CannedServer server(CannedHttp("200 OK", "x"));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(http.Fetch({.url = unresolvable}).outcome, Outcome::kFailed);
    EXPECT_EQ(http.Fetch({.url = Url(server)}).status, 200);
  }
}

TEST(HttpClient, ParsesRetryAfterDate) {
  base::FakeClock clock;  // 2023-11-14 22:13:20 UTC
  HttpClient http({.threads = 1, .clock = &clock});
  for (const auto& [value, seconds] :
       std::vector<std::pair<std::string, double>>{{"Tue, 14 Nov 2023 22:14:00 GMT", 40},
                                                   {"Tue, 14 Nov 2023 22:13:00 GMT", 0},
                                                   {"120", 120},
                                                   {"-1e300", 0},
                                                   {"inf", 0},
                                                   {"nan", 0},
                                                   {"soon", 0}}) {
    const CannedServer server(
        CannedHttp("503 Busy", "", absl::StrCat("Retry-After: ", value, "\r\n")));
    EXPECT_EQ(http.Fetch({.url = Url(server)}).retry_after_seconds, seconds) << value;
  }
}

TEST(HttpClient, DestructorCancelsInFlightAndQueuedRequests) {
  const CannedServer silent("");
  base::FakeClock clock;
  std::vector<Outcome> ends;
  {
    HttpClient http({.threads = 1, .max_connections = 1, .clock = &clock});
    const auto note = [&](const HttpResponse& response) { ends.push_back(response.outcome); };
    http.Start({.url = Url(silent)}, note);
    http.Start({.url = Url(silent)}, note);                         // queued
    http.Start({.url = Url(silent), .delay_seconds = 1000}, note);  // delayed
  }
  EXPECT_THAT(ends,
              testing::ElementsAre(Outcome::kCancelled, Outcome::kCancelled, Outcome::kCancelled));
}

TEST(HttpClient, SupportsCancellation) {
  const CannedServer silent("");
  base::FakeClock clock;
  HttpClient http({.threads = 1, .max_connections = 1, .clock = &clock});
  const auto cancelled = std::make_shared<std::atomic<bool>>(false);
  http.Start({.url = Url(silent), .cancelled = cancelled}, [](const HttpResponse&) {});
  *cancelled = true;
  http.Wake();
  const CannedServer server(CannedHttp("200 OK", "x"));
  EXPECT_EQ(http.Fetch({.url = Url(server)}).status, 200);  // the only connection is free again
}

}  // namespace http_client_test
}  // namespace penstock::io
