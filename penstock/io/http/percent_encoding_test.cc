#include "penstock/io/http/percent_encoding.h"

#include <gtest/gtest.h>

namespace penstock::io {
namespace percent_encoding_test {

TEST(PercentEncoding, KeepsUnreservedCharacters) {
  EXPECT_EQ(PercentEncode("a/b c+\xC3\xA9~_-.%", true), "a/b%20c%2B%C3%A9~_-.%25");
  EXPECT_EQ(PercentEncode("a/b"), "a%2Fb");
}

TEST(PercentEncoding, RoundTrips) {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  EXPECT_EQ(PercentDecode(PercentEncode(all)), all);
  EXPECT_EQ(PercentDecode("%2f%2B"), "/+");
  for (const char* text : {"%", "%4", "%zz", "100%"}) EXPECT_EQ(PercentDecode(text), text);
}

}  // namespace percent_encoding_test
}  // namespace penstock::io
