#include "penstock/io/http/network_wait.h"

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/base/clock.h"
#include "penstock/io/http/http_client.h"
#include "penstock/io/http/http_retry.h"
#include "penstock/io/testing/canned_server.h"

namespace penstock::io {
namespace network_wait_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class NetworkWaitReports : public testing::Test {
 protected:
  // Advances the clock and returns the reports that are then due.
  std::vector<std::string> After(double seconds) {
    clock_.Advance(seconds);
    lines_.clear();
    waits_.Poll();
    return lines_;
  }

  base::FakeClock clock_;
  std::vector<std::string> lines_;
  NetworkWaits waits_{&clock_, [this](absl::string_view line) { lines_.emplace_back(line); }};
};

TEST_F(NetworkWaitReports, OmitShortWaits) {
  { const NetworkWait wait(&waits_, "open 'gs://b/x'"); }
  const NetworkWait wait(&waits_, "open 'gs://b/x'");
  EXPECT_THAT(After(4.9), IsEmpty());
}

TEST_F(NetworkWaitReports, NameTheOperationTheAttemptAndTheDeadline) {
  {
    NetworkWait wait(&waits_, "open 'gs://b/x'", 60);
    EXPECT_THAT(After(5), ElementsAre("waiting for the network to open 'gs://b/x': 5 s so far, "
                                      "attempt 1, giving up in 55 s"));
    wait.SetAttempt(2, "HTTP status 503", 20);
    EXPECT_THAT(After(29), IsEmpty());
    EXPECT_THAT(After(1), ElementsAre("waiting for the network to open 'gs://b/x': 35 s so far, "
                                      "attempt 2 (last: HTTP status 503), the last attempt"));
    lines_.clear();
  }
  EXPECT_THAT(lines_,
              ElementsAre("no longer waiting for the network to open 'gs://b/x' (after 35 s)"));
}

TEST_F(NetworkWaitReports, DescribeTheRetriesInsideAClient) {
  const NetworkWait wait(&waits_, "publish 's3://b/x'", std::string("retried for up to 80 s"));
  EXPECT_THAT(After(6), ElementsAre("waiting for the network to publish 's3://b/x': 6 s so far, "
                                    "retried for up to 80 s"));
}

TEST_F(NetworkWaitReports, CombineManyRequestsIntoOneLine) {
  std::vector<std::unique_ptr<NetworkWait>> waits;
  for (int i = 0; i < 64; ++i) {
    waits.push_back(std::make_unique<NetworkWait>(&waits_, absl::StrCat("read ", i)));
    clock_.Advance(0.01);
  }
  EXPECT_THAT(After(6),
              ElementsAre(testing::AllOf(HasSubstr("read 0:"),
                                         HasSubstr("63 other requests are waiting as well"))));
  EXPECT_THAT(After(1), IsEmpty());
}

TEST_F(NetworkWaitReports, EndWhenBytesArriveAgain) {
  NetworkWait wait(&waits_, "read");
  EXPECT_THAT(After(7), ElementsAre(HasSubstr("7 s so far")));
  lines_.clear();
  wait.Received(64 << 10);
  EXPECT_THAT(lines_, ElementsAre("no longer waiting for the network to read (after 7 s)"));
  EXPECT_THAT(After(4), IsEmpty());
}

TEST_F(NetworkWaitReports, RestartOnProgressButNotOnTrickle) {
  NetworkWait wait(&waits_, "read");
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(After(4), IsEmpty());
    wait.Received(64 << 10);
  }
  for (int i = 0; i < 4; ++i) {
    clock_.Advance(1);
    wait.Received(1000);
  }
  EXPECT_THAT(After(1), ElementsAre(HasSubstr("5 s so far")));
}

// HttpClient registers its requests automatically.
TEST_F(NetworkWaitReports, CoverEveryRequestOfAnHttpClient) {
  const CannedServer silent("");
  bool advanced = false;
  HttpClient http({.threads = 1,
                   .stall_seconds = 20,
                   .clock = &clock_,
                   .waits = &waits_,
                   .before_wait = [&](const HttpClientOptions::Wait& wait) {
                     if (wait.active == 0 || advanced) return;
                     advanced = true;
                     clock_.Advance(6);
                     waits_.Poll();
                     clock_.Advance(15);
                   }});
  const std::string host = absl::StrCat("127.0.0.1:", silent.port());
  const HttpResponse response =
      http.Fetch({.url = absl::StrCat("http://", host, "/o?token=secret")});
  EXPECT_EQ(response.outcome, HttpResponse::Outcome::kStalled);
  ASSERT_FALSE(lines_.empty());
  EXPECT_THAT(lines_[0], HasSubstr("waiting for the network to reach " + host + ": 6 s"));
}

TEST_F(NetworkWaitReports, NameTheAttemptsOfARetriedOperation) {
  const HttpClient http({.threads = 1, .clock = &clock_, .waits = &waits_});
  HttpRetry retry(http, 60, /*seed=*/1, "list 'gs://b'");
  for (int i = 0; i < 4; ++i) {
    clock_.Advance(
        retry.NextDelay({.outcome = HttpResponse::Outcome::kFailed, .error = "Connection refused"})
            .value());
  }
  EXPECT_THAT(After(5), ElementsAre(testing::AllOf(
                            HasSubstr("to list 'gs://b': "), HasSubstr("attempt 5"),
                            HasSubstr("Connection refused"), HasSubstr("giving up in "))));
}

}  // namespace network_wait_test
}  // namespace penstock::io
