#include "penstock/monitor/http_server.h"

#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/monitor/testing/raw_client.h"

namespace penstock::monitor {
namespace http_server_test {

using testing::Ask;
using testing::BodyOf;
using ::testing::EndsWith;
using testing::Get;
using ::testing::HasSubstr;
using testing::RawClient;
using ::testing::StartsWith;

HttpReply Echo(const HttpRequest& request) { return {.body = absl::StrCat(request.path, "\n")}; }

std::unique_ptr<HttpServer> StartServer(HttpServer::Options options = {}) {
  options.address = "127.0.0.1:0";
  auto server = HttpServer::Start(options, Echo);
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

TEST(HttpServerTest, AnswersGetAndHead) {
  const auto server = StartServer();
  const std::string response = Get(server->port(), "/x");
  EXPECT_THAT(response, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(response, HasSubstr("Content-Length: 3\r\n"));
  EXPECT_THAT(response, HasSubstr("default-src 'none'"));
  EXPECT_THAT(response, EndsWith("\r\n\r\n/x\n"));
  const std::string head = Ask(server->port(), "HEAD /x HTTP/1.1\r\n\r\n");
  EXPECT_THAT(head, HasSubstr("Content-Length: 3\r\n"));
  EXPECT_EQ(BodyOf(head), "");
}

TEST(HttpServerTest, TakesARequestByteByByte) {
  const auto server = StartServer();
  const RawClient client(server->port());
  for (const char c : std::string("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")) {
    client.Send(std::string(1, c));
  }
  EXPECT_EQ(BodyOf(client.ReadAll()), "/slow\n");
}

TEST(HttpServerTest, RefusesOtherRequestsWithAStatus) {
  const auto server = StartServer();
  EXPECT_THAT(Ask(server->port(), "POST / HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(Ask(server->port(), "\x16\x03\x01\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask(server->port(), std::string(9000, 'a')), StartsWith("HTTP/1.1 431 "));
}

TEST(HttpServerTest, ServesAReaderAlthoughManyConnectionsAreOpen) {
  const auto server = StartServer({.max_connections = 8});
  std::vector<std::unique_ptr<RawClient>> idle;
  for (int i = 0; i < 50; ++i) {
    idle.push_back(std::make_unique<RawClient>(server->port()));
    idle.back()->Send("GET / HTT");
  }
  EXPECT_EQ(BodyOf(Get(server->port(), "/x")), "/x\n");
  // The oldest ones were closed.
  EXPECT_EQ(idle[0]->ReadAll(), "");
}

TEST(HttpServerTest, ClosesASlowConnectionAtItsDeadline) {
  base::FakeClock clock;
  const auto server = StartServer({.deadline_seconds = 10, .clock = &clock});
  const RawClient slow(server->port());
  slow.Send("GET / HT");
  EXPECT_EQ(BodyOf(Get(server->port(), "/x")), "/x\n");  // the slow one was accepted before
  clock.Advance(11);
  EXPECT_EQ(slow.ReadAll(), "");
}

TEST(HttpServerTest, SendsALargeResponseToASlowReader) {
  const std::string large(5 << 20, 'x');
  auto server = HttpServer::Start({.address = "127.0.0.1:0"},
                                  [&](const HttpRequest&) { return HttpReply{.body = large}; });
  ASSERT_TRUE(server.ok()) << server.status();
  const RawClient client((*server)->port());
  client.Send("GET / HTTP/1.1\r\n\r\n");
  // The server is not blocked by what the first client has not read.
  EXPECT_EQ(BodyOf(Get((*server)->port(), "/")).size(), large.size());
  EXPECT_EQ(BodyOf(client.ReadAll()), large);
}

TEST(HttpServerTest, AnswersSeveralReadersAtOnce) {
  const auto server = StartServer();
  std::vector<std::thread> readers;
  for (int t = 0; t < 8; ++t) {
    readers.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const std::string path = absl::StrCat("/", t, "/", i);
        EXPECT_EQ(BodyOf(Get(server->port(), path)), path + "\n");
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
}

TEST(HttpServerTest, SaysThatAPortIsInUse) {
  const auto server = StartServer();
  const std::string address = absl::StrCat("127.0.0.1:", server->port());
  const auto second = HttpServer::Start({.address = address}, Echo);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(second.status().message(),
              HasSubstr(absl::StrCat("cannot listen on ", address, ": Address already in use")));
}

TEST(HttpServerTest, RejectsWhatIsNoAddress) {
  for (const char* address : {"", "6006", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536",
                              "127.0.0.1:-1", "host.example:80", "[::1]", "1.2.3:4"}) {
    EXPECT_EQ(HttpServer::Start({.address = address}, Echo).status().code(),
              absl::StatusCode::kInvalidArgument)
        << address;
  }
}

TEST(HttpServerTest, KnowsLoopbackAddresses) {
  for (const char* address : {"127.0.0.1:1", "127.8.9.1:1", "[::1]:1", "localhost:1"}) {
    EXPECT_TRUE(IsLoopback(address)) << address;
  }
  for (const char* address : {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "128.0.0.1:1", "",
                              "127.example.com:1", "127.0.0.1.example.com:1", "127.1:1"}) {
    EXPECT_FALSE(IsLoopback(address)) << address;
  }
}

}  // namespace http_server_test
}  // namespace penstock::monitor
