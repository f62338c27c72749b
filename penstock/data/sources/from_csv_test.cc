#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/memory_files.h"
#include "penstock/formats/csv.h"
#include "penstock/io/file_system.h"

namespace penstock::data {
namespace from_csv_test {

using base::DType;
using base::NamedArrays;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using testing::ReadAll;
using testing::ReadSome;
using ::testing::StartsWith;

std::shared_ptr<io::FileSystem> Files(const std::vector<std::string>& texts) {
  return testing::MemoryFiles(".csv", texts);
}

absl::StatusOr<std::vector<std::string>> Read(const std::string& text, CsvOptions options = {}) {
  const auto fs = Files({text});
  options.file_system = fs;
  return ReadAll(Dataset::FromCsv({"memory://d/*"}, options), {.file_system = fs});
}

std::string ErrorOf(const std::string& text, CsvOptions options = {}) {
  return std::string(Read(text, std::move(options)).status().message());
}

const std::vector<CsvColumn> kColumns = {{.name = "id", .dtype = DType::kI32},
                                         {.name = "weight", .dtype = DType::kF32},
                                         {.name = "name", .dtype = DType::kString}};

TEST(FromCsv, MakesColumnForEachColumnOfFile) {
  const Dataset dataset = Dataset::FromCsv({"memory://d/*"}, {.columns = kColumns});
  EXPECT_EQ(dataset.spec().ToString(), "{id: int32[], weight: float32[], name: string[]}");
  EXPECT_THAT(*Read("id,weight,name\r\n1,2.5,a b\r\n\r\n-2, 1e3 ,\"x, \"\"y\"\"\nz\"",
                    {.columns = kColumns}),
              ElementsAre("id=int32[] {1} weight=float32[] {2.5} name=string[] {\"a b\"}",
                          "id=int32[] {-2} weight=float32[] {1000} "
                          "name=string[] {\"x, \\\"y\\\"\\nz\"}"));
}

TEST(FromCsv, InfersNamesAndTypes) {
  const auto fs = Files({"i,f,s,none,late\n1,,x,,1\n2,2.5,3,,2\n,4,,,x\n"});
  const Dataset dataset =
      Dataset::FromCsv({"memory://d/*"}, {.infer_rows = 2, .block_bytes = 4, .file_system = fs});
  EXPECT_EQ(dataset.spec().ToString(),
            "{i: int64[], f: float32[], s: string[], none: string[], late: int64[]}");
  EXPECT_THAT(*ReadAll(dataset.Take(2), {.file_system = fs}),
              ElementsAre("i=int64[] {1} f=float32[] {0} s=string[] {\"x\"} none=string[] {\"\"} "
                          "late=int64[] {1}",
                          "i=int64[] {2} f=float32[] {2.5} s=string[] {\"3\"} none=string[] {\"\"} "
                          "late=int64[] {2}"));
  EXPECT_THAT(std::string(ReadAll(dataset, {.file_system = fs}).status().message()),
              StartsWith("memory://d/00.csv:4:5: ParseCsv: 'late' is int64, but \"x\" is not one"));
  // A type given by the user takes precedence.
  EXPECT_EQ(Dataset::FromCsv({"memory://d/*"}, {.columns = {{.name = "i", .dtype = DType::kF64},
                                                            {.name = "f"},
                                                            {.name = "s"},
                                                            {.name = "none"},
                                                            {.name = "late"}},
                                                .select = {"f", "i"},
                                                .file_system = fs})
                .spec()
                .ToString(),
            "{f: float32[], i: float64[]}");
}

TEST(FromCsv, SelectsColumnsInRequestedOrder) {
  EXPECT_THAT(
      *Read("id,weight,name\n1,not a number,x\n", {.columns = kColumns, .select = {"name", "id"}}),
      ElementsAre("name=string[] {\"x\"} id=int32[] {1}"));
}

TEST(FromCsv, AppliesDefaultValues) {
  std::vector<CsvColumn> columns = kColumns;
  columns[0].default_value = "-1";
  columns[2].default_value = "nobody";
  EXPECT_THAT(
      *Read("id,weight,name\n,1,\nNA,1,NA\n\"\",1,\"\"\n", {.columns = columns, .na_value = "NA"}),
      ElementsAreArray(std::vector<std::string>(
          3, "id=int32[] {-1} weight=float32[] {1} name=string[] {\"nobody\"}")));
}

TEST(FromCsv, SupportsOtherDialects) {
  EXPECT_THAT(*Read("1;2,5;5\" pipe\n", {.columns = {{.name = "a", .dtype = DType::kU8},
                                                     {.name = "b", .dtype = DType::kString},
                                                     {.name = "c", .dtype = DType::kString}},
                                         .header = false,
                                         .delimiter = ';',
                                         .quotes = false}),
              ElementsAre("a=uint8[] {1} b=string[] {\"2,5\"} c=string[] {\"5\\\" pipe\"}"));
}

TEST(FromCsv, NamesLineAndColumnOfABadField) {
  const CsvOptions options = {.columns = kColumns};
  EXPECT_EQ(ErrorOf("id,weight,name\n1,2,\"a\nb\"\n\n3,heavy,x\n", options),
            "memory://d/00.csv:5:2: ParseCsv: 'weight' is float32, but \"heavy\" is not one or is "
            "out of range");
  EXPECT_EQ(ErrorOf("id,weight,name\n3000000000,2,x\n", options).substr(0, 30),
            "memory://d/00.csv:2:1: ParseCs");
  EXPECT_EQ(ErrorOf("id,weight,name\n1,,x\n", options),
            "memory://d/00.csv:2:2: ParseCsv: 'weight' is float32, but the field is empty and the "
            "column has no default_value");
  EXPECT_EQ(
      ErrorOf("id,weight,name\n1,2,x\n1,2\n", options),
      "memory://d/00.csv:3: ParseCsv: the row has 2 fields, but there are 3 columns: \"1,2\"");
  EXPECT_THAT(
      ErrorOf("id,weight,name\n1,2,5\" pipe\n1,2,x\n", options),
      StartsWith("memory://d/00.csv:2:3: ParseCsv: it contains a double quote but is not quoted"));
  EXPECT_THAT(ErrorOf("id,weight,name\n1,2,\"x\n3,4,y\n", options),
              StartsWith("memory://d/00.csv:2:3: ParseCsv: its double quote is never closed"));
  EXPECT_THAT(ErrorOf(absl::StrCat("id,weight,name\n1,2,\"x\n", std::string(200, '\n')),
                      {.columns = kColumns, .max_row_bytes = 100}),
              AllOf(StartsWith("memory://d/00.csv:2: the line is longer than 100 bytes"),
                    HasSubstr("a closing double quote is missing")));
}

TEST(FromCsv, NamesTheFirstBadFieldOfABatch) {
  std::string text = "id,weight,name\n";
  for (int i = 0; i < 200; ++i) absl::StrAppend(&text, i, i % 50 == 33 ? ",x" : ",1", ",n\n");
  const auto fs = Files({text});
  base::ThreadPool pool(4);
  EXPECT_THAT(
      std::string(ReadAll(Dataset::FromCsv({"memory://d/*"}, {.columns = kColumns}).Batch(200),
                          {.pool = &pool, .file_system = fs})
                      .status()
                      .message()),
      StartsWith("memory://d/00.csv:35:2: ParseCsv: "));
}

TEST(FromCsv, ChecksHeaderOfEachFile) {
  const auto fs = Files({"id,weight,name\n1,2,x\n", "id,name,weight\n1,x,2\n"});
  EXPECT_EQ(ReadAll(Dataset::FromCsv({"memory://d/*"}, {.columns = kColumns}), {.file_system = fs})
                .status()
                .message(),
            "memory://d/01.csv:1: the header is \"id,name,weight\", but the columns are "
            "\"id,weight,name\"; a file without a header is read with .header = false, one with "
            "other names with .check_header = false");
  EXPECT_THAT(*Read("150,4,setosa\n1,2,x\n", {.columns = kColumns, .check_header = false}),
              ElementsAre("id=int32[] {1} weight=float32[] {2} name=string[] {\"x\"}"));
  EXPECT_THAT(*Read("id,weight,name\n", {.columns = kColumns}), ElementsAre());
  EXPECT_THAT(*Read("", {.columns = kColumns}), ElementsAre());
  EXPECT_THAT(*Read("\xef\xbb\xbf\"id\",weight,name", {.columns = kColumns}), ElementsAre());
}

TEST(FromCsv, RejectsInvalidParameters) {
  EXPECT_THAT(ErrorOf("a,b\n", {.header = false}), HasSubstr("columns must be given"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("memory://d/00.csv: the file is empty"));
  EXPECT_THAT(ErrorOf("a,a\n1,2\n"), HasSubstr("two columns 'a'"));
  EXPECT_THAT(ErrorOf("a,b\n1,2\n", {.select = {"c"}}), HasSubstr("no column 'c'"));
  EXPECT_THAT(ErrorOf("a\n", {.columns = {{.name = "a", .dtype = DType::kC64}}}),
              HasSubstr("complex64"));
  EXPECT_THAT(
      ErrorOf("a\n", {.columns = {{.name = "a", .dtype = DType::kI8, .default_value = "x"}}}),
      HasSubstr("default_value is \"x\""));
  EXPECT_FALSE(Dataset::FromCsv({}).status().ok());
  EXPECT_THAT(ErrorOf("a\n", {.delimiter = '"'}), HasSubstr("delimiter"));
  EXPECT_THAT(
      std::string(
          Dataset::FromCsv({"memory://d/x.csv"}, {.file_system = Files({})}).status().message()),
      HasSubstr("memory://d/x.csv"));
}

// Computed rows, spread over several files.
std::vector<std::string> Texts(const std::vector<int64_t>& sizes) {
  std::vector<std::string> texts;
  for (size_t f = 0; f < sizes.size(); ++f) {
    std::string text = "id,weight,name\n";
    for (int64_t i = 0; i < sizes[f]; ++i) {
      absl::StrAppend(&text,
                      formats::JoinCsvRow(
                          {absl::StrCat(i), absl::StrCat(i * 0.25), absl::StrCat(f, "\n\"", i)}),
                      i % 3 == 0 ? "\r\n" : "\n");
    }
    texts.push_back(text);
  }
  return texts;
}

TEST(FromCsv, WritesIntoBatchesFromAllThreads) {
  const auto fs = Files(Texts({100, 0, 57}));
  for (int threads : {1, 4}) {
    base::ThreadPool pool(threads);
    auto iterator = Dataset::FromCsv({"memory://d/*"}, {.columns = kColumns, .block_bytes = 100})
                        .Shuffle(20)
                        .Batch(64)
                        .MakeIterator({.pool = &pool, .file_system = fs, .seed = 1});
    std::vector<int64_t> seen(2);
    for (NamedArrays batch; *(*iterator)->Next(&batch);) {
      const auto id = batch.Find("id")->values<int32_t>();
      for (size_t i = 0; i < id.size(); ++i) {
        const absl::string_view name = batch.Find("name")->values<absl::string_view>()[i];
        const int64_t file = name[0] - '0';
        EXPECT_EQ(name, absl::StrCat(file, "\n\"", id[i]));
        EXPECT_EQ(batch.Find("weight")->values<float>()[i], static_cast<float>(id[i] * 0.25));
        ++seen[file / 2];
      }
    }
    EXPECT_THAT(seen, ElementsAre(100, 57));
  }
}

TEST(FromCsv, StringsOutliveTheirRows) {
  NamedArrays batch;
  {
    const auto fs = Files(Texts({9}));
    std::vector<CsvColumn> columns = kColumns;
    columns[2].default_value =
        "long enough not to be copied into the batch: " + std::string(80, 'x');
    auto iterator = Dataset::FromCsv({"memory://d/*"}, {.columns = columns, .na_value = "0\n\"3"})
                        .Batch(9)
                        .MakeIterator({.file_system = fs});
    ASSERT_TRUE(*(*iterator)->Next(&batch));
  }
  EXPECT_EQ(batch.Find("name")->data<absl::string_view>()[8], "0\n\"8");
  EXPECT_THAT(std::string(batch.Find("name")->data<absl::string_view>()[3]), StartsWith("long"));
}

TEST(FromCsv, CanBeDestroyedAnywhereAndContinuesAfterSkip) {
  const auto fs = Files(Texts({9, 0, 14, 1}));
  const Dataset dataset =
      Dataset::FromCsv(
          {"memory://d/*"},
          {.columns = kColumns, .shuffle_files = true, .read_ahead_bytes = 1, .block_bytes = 30})
          .Shuffle(5)
          .Batch(2)
          .Repeat(2);
  testing::ExpectCanBeDroppedAndSkips(dataset, {.file_system = fs, .seed = 3});
}

}  // namespace from_csv_test
}  // namespace penstock::data
