#include "penstock/cli/legible.h"

#include "gtest/gtest.h"

namespace penstock::cli {
namespace legible_test {

TEST(Legible, EscapesControlCharactersOnly) {
  EXPECT_EQ(Legible("caf\u00e9 \u732b 'cat' \\x \"q\"\n\tb"),
            "caf\u00e9 \u732b 'cat' \\x \"q\"\n\tb");
  EXPECT_EQ(Legible("a\x1b[2Jb\r\x7f"), "a\\x1b[2Jb\\x0d\\x7f");
  EXPECT_EQ(Legible("a\xc2\x9b"
                    "2Jb"),
            "a\\xc2\\x9b2Jb");  // U+009B begins sequences, too
  EXPECT_EQ(Legible(absl::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(LegibleLine("a\nb\tc\xc2"), "a\\x0ab\\x09c\xc2");
}

}  // namespace legible_test
}  // namespace penstock::cli
