#include "penstock/monitor/server.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/monitor/testing/raw_client.h"

namespace penstock::monitor {
namespace server_test {

using testing::Ask;
using testing::BodyOf;
using testing::Get;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ServerTest : public ::testing::Test {
 protected:
  void Start(const std::string& token = "") {
    auto server = Server::Start(registry_, {.address = "127.0.0.1:0", .token = token});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  Registry registry_;
  std::unique_ptr<Server> server_;
};

TEST_F(ServerTest, ServesThePageTheMetricsAndTheSnapshot) {
  Start();
  registry_.SetState("training");
  registry_.Get("penstock_log", "loss").Set(0.25);
  registry_.Sample();
  EXPECT_THAT(Get(server_->port(), "/"), HasSubstr("Content-Type: text/html"));
  EXPECT_THAT(BodyOf(Get(server_->port(), "/metrics")),
              HasSubstr("penstock_log{name=\"loss\"} 0.25\n"));
  const auto snapshot = Snapshot::FromJson(BodyOf(Get(server_->port(), "/api/snapshot")));
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  EXPECT_EQ(*snapshot->Find("penstock_log", "loss"), 0.25);
  for (const char* path : {"/api/series", "/api/series?range=hour", "/api/series?range=run"}) {
    const auto series = nlohmann::json::parse(BodyOf(Get(server_->port(), path)));
    EXPECT_EQ(series["penstock_log{loss}"][0][2], 0.25) << path;
  }
  EXPECT_THAT(Get(server_->port(), "/api/series?range=day"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Get(server_->port(), "/etc/passwd"), StartsWith("HTTP/1.1 404 "));
}

TEST_F(ServerTest, NeedsTheTokenForEverything) {
  Start("secret");
  for (const char* path : {"/", "/metrics", "/api/snapshot", "/api/series", "/x"}) {
    EXPECT_THAT(Get(server_->port(), path), StartsWith("HTTP/1.1 401 ")) << path;
    EXPECT_THAT(Get(server_->port(), absl::StrCat(path, "?token=secre")),
                StartsWith("HTTP/1.1 401 "));
  }
  EXPECT_THAT(Get(server_->port(), "/?token=secret"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Get(server_->port(), "/metrics", "Authorization: Bearer secret\r\n"),
              StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Get(server_->port(), "/metrics", "Authorization: Bearer secret2\r\n"),
              StartsWith("HTTP/1.1 401 "));
}

TEST_F(ServerTest, ListensBeyondLoopbackOnlyWithAToken) {
  const auto open = Server::Start(registry_, {.address = "0.0.0.0:0"});
  EXPECT_EQ(open.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(open.status().message(), HasSubstr("needs a token"));
  // What is no address needs no token but an address.
  for (const char* address : {"nowhere", "tpu1.example:6006", "127.0.0.1"}) {
    EXPECT_THAT(Server::Start(registry_, {.address = address}).status().message(),
                HasSubstr("is no address; write a number with a port"));
  }
}

TEST_F(ServerTest, RefusesNamesOfOtherHosts) {
  Start();
  const auto answer = [&](const std::string& host) {
    return Ask(server_->port(), absl::StrCat("GET /metrics HTTP/1.1\r\nHost: ", host, "\r\n\r\n"));
  };
  EXPECT_THAT(answer("attacker.example"), StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(answer("attacker.example:6006"), StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(answer("127.attacker.example:6006"), StartsWith("HTTP/1.1 403 "));
  for (const char* host : {"localhost", "localhost:6006", "127.0.0.1:1", "[::1]", "[::1]:6006"}) {
    EXPECT_THAT(answer(host), StartsWith("HTTP/1.1 200 ")) << host;
  }
}

TEST_F(ServerTest, ThePageIsSelfContained) {
  const std::string page(PageHtml());
  EXPECT_THAT(page, StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(page, Not(HasSubstr("http:")));
  EXPECT_THAT(page, Not(HasSubstr("https:")));
  EXPECT_THAT(page, Not(HasSubstr(" src=")));
  EXPECT_THAT(page, Not(HasSubstr("@import")));
  // Text from the training is shown as text.
  EXPECT_THAT(page, Not(HasSubstr("innerHTML")));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme: dark"));
}

// Names of metrics in a text.
std::vector<std::string> MetricsIn(const std::string& text) {
  std::vector<std::string> names;
  for (size_t at = text.find("penstock_"); at != std::string::npos;
       at = text.find("penstock_", at + 1)) {
    size_t end = at;
    while (end < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_')) {
      ++end;
    }
    names.push_back(text.substr(at, end - at));
  }
  return names;
}

TEST_F(ServerTest, ThePageAsksForMetricsThatExist) {
  int found = 0;
  for (const std::string& name : MetricsIn(std::string(PageHtml()))) {
    if (name == "penstock_") continue;  // a prefix that it strips
    EXPECT_NE(FindMetric(name), nullptr) << name;
    ++found;
  }
  EXPECT_GT(found, 20);
}

}  // namespace server_test
}  // namespace penstock::monitor
