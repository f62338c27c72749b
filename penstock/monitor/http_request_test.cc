#include "penstock/monitor/http_request.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace penstock::monitor {
namespace http_request_test {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(HttpRequestTest, ParsesPathQueryAndHeaders) {
  const std::string text =
      "GET /api/series?range=run&token=a%2Fb+c%4&empty HTTP/1.1\r\nHost: localhost:6006\r\n"
      "AUTHORIZATION:  Bearer x \r\n\r\n";
  const auto request = ParseHttpRequest(text);
  ASSERT_TRUE(request.ok() && request->has_value()) << request.status();
  EXPECT_EQ((*request)->method, "GET");
  EXPECT_EQ((*request)->path, "/api/series");
  EXPECT_THAT((*request)->query,
              ElementsAre(Pair("range", "run"), Pair("token", "a/b c%4"), Pair("empty", "")));
  EXPECT_EQ(*(*request)->FindHeader("authorization"), "Bearer x");
  EXPECT_EQ((*request)->FindHeader("cookie"), nullptr);
}

TEST(HttpRequestTest, WaitsForTheWholeHead) {
  const std::string text = "HEAD / HTTP/1.0\r\nHost: x\r\n\r\n";
  for (size_t i = 0; i < text.size(); ++i) {
    const auto request = ParseHttpRequest(text.substr(0, i));
    ASSERT_TRUE(request.ok());
    EXPECT_FALSE(request->has_value()) << i;
  }
  EXPECT_TRUE(ParseHttpRequest(text)->has_value());
}

TEST(HttpRequestTest, RejectsWhatItDoesNotServe) {
  const auto code = [](const std::string& head) {
    return ParseHttpRequest(absl::StrCat(head, "\r\n\r\n")).status().code();
  };
  EXPECT_EQ(code("POST / HTTP/1.1"), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(code("GET / HTTP/1.1\r\nContent-Length: 5"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code("GET / HTTP/1.1\r\nTransfer-Encoding: chunked"),
            absl::StatusCode::kInvalidArgument);
  for (const char* head :
       {"", "GET", "GET /", "GET / HTTP/2", "GET x HTTP/1.1", "GET http://a/ HTTP/1.1",
        "GET / a HTTP/1.1", "\x16\x03\x01", "GET / HTTP/1.1\r\nno colon",
        "GET / HTTP/1.1\r\n: no name", "GET / HTTP/1.1\r\n folded: line"}) {
    EXPECT_EQ(code(head), absl::StatusCode::kInvalidArgument) << head;
  }
}

TEST(HttpRequestTest, RejectsAHeadThatIsTooLong) {
  const std::string long_line(HttpRequest::kMaxHead + 1, 'a');
  EXPECT_EQ(ParseHttpRequest(long_line).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ParseHttpRequest(absl::StrCat("GET /", long_line, " HTTP/1.1\r\n\r\n")).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace http_request_test
}  // namespace penstock::monitor
