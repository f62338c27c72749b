#include "penstock/formats/csv.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/float16.h"

namespace penstock::formats {
namespace csv_test {

using base::DType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Split(absl::string_view row, CsvDialect dialect = {}) {
  std::vector<CsvField> fields;
  const absl::Status status = SplitCsvRow(row, dialect, &fields);
  if (!status.ok()) return {"error", std::to_string(fields.size()), std::string(status.message())};
  std::vector<std::string> out;
  for (const CsvField& field : fields) {
    out.push_back(field.has_escaped_quotes ? UnescapeQuotes(field.text) : std::string(field.text));
  }
  return out;
}

// Examples from RFC 4180, section 2.
TEST(Csv, SplitsPerRfc4180) {
  EXPECT_THAT(Split("aaa,bbb,ccc"), ElementsAre("aaa", "bbb", "ccc"));
  EXPECT_THAT(Split("\"aaa\",\"bbb\",\"ccc\""), ElementsAre("aaa", "bbb", "ccc"));
  EXPECT_THAT(Split("\"aaa\",\"b\r\nbb\",\"ccc\""), ElementsAre("aaa", "b\r\nbb", "ccc"));
  EXPECT_THAT(Split("\"aaa\",\"b\"\"bb\",\"ccc\""), ElementsAre("aaa", "b\"bb", "ccc"));
}

TEST(Csv, SplitsEmptyFields) {
  EXPECT_THAT(Split(""), ElementsAre(""));
  EXPECT_THAT(Split(","), ElementsAre("", ""));
  EXPECT_THAT(Split(",a,,\"\","), ElementsAre("", "a", "", "", ""));
  EXPECT_THAT(Split("\"\"\"\""), ElementsAre("\""));
  EXPECT_THAT(Split("\",\",\"\"\"\"\"\""), ElementsAre(",", "\"\""));
  EXPECT_THAT(Split(" a , b"), ElementsAre(" a ", " b"));
}

TEST(Csv, SupportsOtherDelimitersAndNoQuotes) {
  EXPECT_THAT(Split("a,b\tc", {.delimiter = '\t'}), ElementsAre("a,b", "c"));
  EXPECT_THAT(Split("5\" pipe,\"x", {.quotes = false}), ElementsAre("5\" pipe", "\"x"));
}

TEST(Csv, ReportsFieldWithMisplacedQuote) {
  EXPECT_THAT(Split("a,b\"c,d"), ElementsAre("error", "1", HasSubstr("is not quoted")));
  EXPECT_THAT(Split("a,\"b\"c,d"), ElementsAre("error", "1", HasSubstr("follow its closing")));
  EXPECT_THAT(Split("\"a,b"), ElementsAre("error", "0", HasSubstr("never closed")));
  EXPECT_THAT(Split("a,b,\"c\"\""), ElementsAre("error", "2", HasSubstr("never closed")));
}

TEST(Csv, JoinedRowsRoundTrip) {
  const std::vector<std::string> fields = {"plain", "", "a,b", "say \"hi\"", "two\nlines", " "};
  EXPECT_EQ(Split(JoinCsvRow(fields)), fields);
  EXPECT_EQ(JoinCsvRow({"a;b", "c,d"}, ';'), "\"a;b\";c,d");
}

template <typename T>
std::string Read(absl::string_view text) {
  T value{};
  if (!ParseCsvNumber(text, base::DTypeOf<T>(), &value)) return "none";
  return std::to_string(value);
}

TEST(Csv, ParsesOnlyNumbersInRange) {
  EXPECT_EQ(Read<int64_t>("-9223372036854775808"), "-9223372036854775808");
  EXPECT_EQ(Read<int64_t>("9223372036854775808"), "none");
  EXPECT_EQ(Read<uint64_t>("18446744073709551615"), "18446744073709551615");
  EXPECT_EQ(Read<uint8_t>("255"), "255");
  EXPECT_EQ(Read<uint8_t>("256"), "none");
  EXPECT_EQ(Read<uint8_t>("-1"), "none");
  EXPECT_EQ(Read<int8_t>("-128"), "-128");
  EXPECT_EQ(Read<int32_t>(" +7\t"), "7");
  for (const char* text : {"", " ", "+", "+-7", "--7", "1.0", "1e3", "0x10", "7 8", "7,", "abc"}) {
    EXPECT_EQ(Read<int32_t>(text), "none") << text;
  }
  EXPECT_EQ(Read<bool>("True"), "1");
  EXPECT_EQ(Read<bool>("0"), "0");
  EXPECT_EQ(Read<bool>("2"), "none");
}

TEST(Csv, RoundsFloatsCorrectly) {
  const auto read = [](absl::string_view text) {
    double value = -1;
    EXPECT_TRUE(ParseCsvNumber(text, DType::kF64, &value)) << text;
    return value;
  };
  EXPECT_EQ(read("0.1"), 0.1);
  EXPECT_EQ(read("+1e22"), 1e22);
  EXPECT_EQ(read("9007199254740993"), 9007199254740992.0);
  EXPECT_EQ(read("2.2250738585072011e-308"), 2.2250738585072011e-308);
  EXPECT_EQ(read("1e-400"), 0);
  EXPECT_EQ(read("-inf"), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(read("NaN")));
  for (const char* text : {"", ".", "1e", "1e400", "-1e400", "1.0.0", "0x1p3", "1 2"}) {
    EXPECT_EQ(Read<double>(text), "none") << text;
  }
  EXPECT_EQ(Read<float>("1e39"), "none");
  base::float16 half;
  EXPECT_TRUE(ParseCsvNumber("65504", DType::kF16, &half));
  EXPECT_EQ(static_cast<float>(half), 65504);
  EXPECT_FALSE(ParseCsvNumber("70000", DType::kF16, &half));
}

TEST(Csv, InfersNarrowestType) {
  const auto infer = [](const std::vector<std::string>& fields) {
    DType type = DType::kInvalid;
    for (const std::string& field : fields) type = InferCsvType(field, type);
    return type;
  };
  EXPECT_EQ(infer({}), DType::kInvalid);
  EXPECT_EQ(infer({"1", "-2"}), DType::kI64);
  EXPECT_EQ(infer({"1", "2.5"}), DType::kF32);
  EXPECT_EQ(infer({"2.5", "1"}), DType::kF32);
  EXPECT_EQ(infer({"99999999999999999999"}), DType::kF32);
  EXPECT_EQ(infer({"1", "x", "2"}), DType::kString);
  EXPECT_EQ(infer({"true"}), DType::kString);
}

}  // namespace csv_test
}  // namespace penstock::formats
