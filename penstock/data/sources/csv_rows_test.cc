// Compares FromCsv with a reference parser on random text: the rows, their positions and fields,
// and which rows are errors.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/base/testing/sanitized.h"
#include "penstock/data/dataset.h"
#include "penstock/io/file_system.h"
#include "penstock/io/memory/memory_file_system.h"

namespace penstock::data {
namespace csv_rows_test {

using base::DType;
using base::NamedArrays;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kError[] = "(error)";

// Keyed by the line on which a row begins: its fields, or kError.
using RowRefs = std::map<int64_t, std::vector<std::string>>;

// Parses character by character, like Python's csv module, except that what RFC 4180 forbids is an
// error of the row. A quote is special only as a field's first character, and within a field that
// began with one.
class PlainParser {
 public:
  PlainParser(const std::string& text, char delimiter, size_t columns)
      : text_(text), delimiter_(delimiter), columns_(columns) {}

  RowRefs Parse() {
    for (at_ = 0; at_ < text_.size(); ++at_) Take(text_[at_]);
    if (state_ == kQuoted) failed_ = true;
    if (begun_) EndRow();
    return rows_;
  }

 private:
  enum State { kBegin, kPlain, kQuoted, kClosed };

  bool Next(char c) const { return at_ + 1 < text_.size() && text_[at_ + 1] == c; }

  void Take(char c) {
    if (c == '\n') ++line_;
    if (state_ == kQuoted) {
      if (c != '"') {
        field_ += c;
      } else if (Next('"')) {
        field_ += c;
        ++at_;
      } else {
        state_ = kClosed;
      }
      return;
    }
    if (c == '\r' && Next('\n')) return;
    if (c == '\n') return EndRow();
    begun_ = true;
    if (c == delimiter_) return EndField();
    if (state_ == kBegin && c == '"') {
      state_ = kQuoted;
      return;
    }
    if (state_ == kClosed || c == '"') failed_ = true;
    if (state_ == kBegin) state_ = kPlain;
    field_ += c;
  }

  void EndField() {
    fields_.push_back(field_);
    field_.clear();
    state_ = kBegin;
  }

  void EndRow() {
    EndField();
    if (begun_) {
      const bool good = !failed_ && fields_.size() == columns_;
      rows_[first_line_] = good ? fields_ : std::vector<std::string>{kError};
    }
    fields_.clear();
    begun_ = failed_ = false;
    first_line_ = line_;
  }

  const std::string& text_;
  const char delimiter_;
  const size_t columns_;
  size_t at_ = 0;
  State state_ = kBegin;
  std::string field_;
  std::vector<std::string> fields_;
  bool begun_ = false;  // whether the row has a character yet
  bool failed_ = false;
  int64_t line_ = 1;
  int64_t first_line_ = 1;
  RowRefs rows_;
};

// Rows that FromCsv returns, in order; `skipped` gets the line numbers of the others.
std::vector<std::vector<std::string>> ReadRows(const std::string& text, char delimiter,
                                               int64_t block_bytes, std::vector<int64_t>* skipped) {
  const auto fs = io::MakeMemoryFileSystem();
  PENSTOCK_CHECK_OK(io::WriteFile(*fs, "memory://d/x.csv", text));
  const CsvOptions options = {
      .columns = {{.name = "a", .dtype = DType::kString}, {.name = "b", .dtype = DType::kString}},
      .header = false,
      .delimiter = delimiter,
      .parallel_files = 1,
      .block_bytes = block_bytes,
      .max_row_bytes = 1 << 20};
  const OnSkipped on_skipped = [&](const SkippedElement& element) {
    // memory://d/x.csv:LINE[:COLUMN]
    const std::vector<std::string> parts = absl::StrSplit(element.origin, ':');
    int64_t line = -1;
    EXPECT_TRUE(parts.size() >= 3 && absl::SimpleAtoi(parts[2], &line)) << element.origin;
    skipped->push_back(line);
    return absl::OkStatus();
  };
  auto iterator = Dataset::FromCsv({"memory://d/x.csv"}, options)
                      .IgnoreErrors()
                      .MakeIterator({.file_system = fs, .on_skipped = on_skipped});
  EXPECT_TRUE(iterator.ok()) << iterator.status();
  std::vector<std::vector<std::string>> rows;
  for (NamedArrays element;;) {
    const auto more = (*iterator)->Next(&element);
    EXPECT_TRUE(more.ok()) << more.status();
    if (!more.ok() || !*more) return rows;
    rows.emplace_back();
    for (const auto& [name, array] : element) {
      rows.back().emplace_back(array.values<absl::string_view>()[0]);
    }
  }
}

TEST(CsvRows, MatchReferenceParserForRandomText) {
  base::Random random(17);
  int64_t good = 0, bad = 0;
  for (int64_t i = 0; i < base::FewerIfSanitized(2000); ++i) {
    const char delimiter = i % 3 == 0 ? ';' : ',';
    // Mostly well-formed text, or everything would be an error; sometimes any characters.
    const std::string plain = absl::StrCat("ab,;\n\"\r", std::string(1, delimiter), "\n");
    std::string text;
    const auto size = static_cast<size_t>(random.Below(60));
    while (text.size() < size) {
      const uint64_t what = random.Below(i % 2 == 0 ? 12 : 4);
      if (what < 3) text += plain[random.Below(plain.size())];
      if (what == 3) text += std::string(1, delimiter);
      if (what == 4) text += absl::StrCat("\"x\"\"y\n", random.Below(10), "\"");
      if (what == 5) text += absl::StrCat("\"", random.Below(10), "\"");
      if (what == 6) text += "w";
      if (what >= 7) text += absl::StrCat("u", std::string(1, delimiter), "v\n");
    }
    const RowRefs expected = PlainParser(text, delimiter, 2).Parse();
    std::vector<std::vector<std::string>> rows;
    std::vector<int64_t> failed;
    for (const auto& [line, fields] : expected) {
      if (fields == std::vector<std::string>{kError}) {
        failed.push_back(line);
      } else {
        rows.push_back(fields);
      }
    }
    good += static_cast<int64_t>(rows.size());
    bad += static_cast<int64_t>(failed.size());
    for (const int64_t block :
         {int64_t{1}, 1 + static_cast<int64_t>(random.Below(20)), int64_t{1} << 20}) {
      std::vector<int64_t> skipped;
      ASSERT_EQ(ReadRows(text, delimiter, block, &skipped), rows)
          << "blocks of " << block << " bytes of:\n"
          << text;
      ASSERT_EQ(skipped, failed) << "blocks of " << block << " bytes of:\n" << text;
    }
  }
  EXPECT_GT(good, base::FewerIfSanitized(1000));
  EXPECT_GT(bad, base::FewerIfSanitized(1000));
}

TEST(CsvRows, StrayQuoteFailsOnlyItsOwnRow) {
  std::string text;
  for (int i = 0; i < 1000; ++i) {
    absl::StrAppend(&text, i == 10 ? "5\" pipe" : "pipe", ",", i, "\n");
  }
  std::vector<int64_t> skipped;
  EXPECT_EQ(ReadRows(text, ',', 1 << 20, &skipped).size(), 999u);
  EXPECT_THAT(skipped, ElementsAre(11));
}

// An unclosed quote swallows the rest of the file, as in every RFC 4180 reader; the error reports
// how much text was lost.
TEST(CsvRows, UnclosedFieldReportsItsNumberOfLines) {
  const auto fs = io::MakeMemoryFileSystem();
  std::string text = "a,b\n1,\"2\n";
  for (int i = 0; i < 98; ++i) text += "3,4\n";
  PENSTOCK_CHECK_OK(io::WriteFile(*fs, "memory://d/x.csv", text));
  const Dataset dataset = Dataset::FromCsv(
      {"memory://d/x.csv"},
      {.columns = {{.name = "a", .dtype = DType::kI64}, {.name = "b", .dtype = DType::kI64}}});
  auto iterator = dataset.MakeIterator({.file_system = fs});
  NamedArrays element;
  EXPECT_THAT(std::string((*iterator)->Next(&element).status().message()),
              HasSubstr("x.csv:2:2: ParseCsv: its double quote is never closed; the field spans "
                        "99 lines"));
}

}  // namespace csv_rows_test
}  // namespace penstock::data
