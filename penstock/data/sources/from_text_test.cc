#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/memory_files.h"
#include "penstock/io/file_system.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/record/compression.h"

namespace penstock::data {
namespace from_text_test {

using base::NamedArrays;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using testing::ReadAll;
using testing::ReadSome;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAreArray;

std::shared_ptr<io::FileSystem> File(absl::string_view bytes) {
  return testing::MemoryFiles(".txt", {std::string(bytes)});
}

// Reads a file with these bytes and returns its lines.
std::vector<std::string> Lines(absl::string_view bytes, TextOptions options = {}) {
  return *testing::ReadColumn<std::string>(Dataset::FromText({"memory://d/*"}, options), "line",
                                           {.file_system = File(bytes)});
}

TEST(FromText, SplitsLinesOfAllPlatforms) {
  for (int64_t block : {1, 2, 3, 5, 1 << 20}) {
    SCOPED_TRACE(block);
    const TextOptions options = {.block_bytes = block};
    EXPECT_THAT(Lines("a\nbc\r\n\n\r\nlast", options), ElementsAre("a", "bc", "", "", "last"));
    EXPECT_THAT(Lines("a\n", options), ElementsAre("a"));
    EXPECT_THAT(Lines("\n", options), ElementsAre(""));
    EXPECT_THAT(Lines("", options), ElementsAre());
    // A lone carriage return is an ordinary character.
    EXPECT_THAT(Lines("a\rb\r\r\nc\r", options), ElementsAre("a\rb\r", "c\r"));
    EXPECT_THAT(Lines("\xef\xbb\xbf"
                      "a\n\xef\xbb\xbf",
                      options),
                ElementsAre("a", "\xef\xbb\xbf"));
    EXPECT_THAT(Lines("\"a\nb\"\n", options), ElementsAre("\"a", "b\""));
    EXPECT_THAT(Lines(absl::string_view("a\0b\nc", 5), options),
                ElementsAre(std::string("a\0b", 3), "c"));
  }
}

std::string Line(int64_t file, int64_t line) { return absl::StrCat(file, "/", line); }

std::shared_ptr<io::FileSystem> Files(const std::vector<int64_t>& sizes) {
  std::vector<std::string> texts(sizes.size());
  for (size_t f = 0; f < sizes.size(); ++f) {
    for (int64_t i = 0; i < sizes[f]; ++i) absl::StrAppend(&texts[f], Line(f, i), "\n");
  }
  return testing::MemoryFiles(".txt", texts);
}

std::vector<std::string> Printed(const std::vector<std::string>& lines) {
  std::vector<std::string> out;
  for (const std::string& line : lines) out.push_back("line=string[] {\"" + line + "\"}");
  return out;
}

TEST(FromText, InterleavesFiles) {
  const auto fs = Files({5, 0, 3});
  EXPECT_THAT(
      *ReadAll(Dataset::FromText({"memory://d/*"}, {.parallel_files = 2, .block_length = 2}),
               {.file_system = fs}),
      ElementsAreArray(Printed({"0/0", "0/1", "0/2", "0/3", "2/0", "2/1", "0/4", "2/2"})));
  EXPECT_THAT(
      *ReadAll(Dataset::FromText({"memory://d/*"}, {.parallel_files = 1}), {.file_system = fs}),
      ElementsAreArray(Printed({"0/0", "0/1", "0/2", "0/3", "0/4", "2/0", "2/1", "2/2"})));
}

TEST(FromText, LosesNothingWithLittleMemoryAndWhenNotDeterministic) {
  const auto fs = Files({40, 1, 0, 33, 7});
  const auto all = *ReadAll(Dataset::FromText({"memory://d/*"}), {.file_system = fs});
  EXPECT_EQ(all.size(), 81);
  for (int64_t bytes : {1, 9, 300}) {
    const Dataset dataset =
        Dataset::FromText({"memory://d/*"}, {.read_ahead_bytes = bytes, .block_bytes = bytes});
    base::ThreadPool pool(3);
    EXPECT_EQ(*ReadAll(dataset, {.pool = &pool, .file_system = fs}), all);
    EXPECT_THAT(*ReadAll(dataset, {.file_system = fs, .deterministic = false}),
                UnorderedElementsAreArray(all));
  }
}

TEST(FromText, ReshufflesFilesInEachEpoch) {
  const auto fs = Files(std::vector<int64_t>(20, 1));
  const Dataset dataset =
      Dataset::FromText({"memory://d/*"}, {.parallel_files = 1, .shuffle_files = true});
  const auto first = *ReadAll(dataset, {.file_system = fs, .seed = 1});
  const auto second = *ReadAll(dataset, {.file_system = fs, .seed = 1, .epoch = 1});
  EXPECT_NE(first, second);
  EXPECT_THAT(first, UnorderedElementsAreArray(second));
}

TEST(FromText, ReadsGzip) {
  auto fs = io::MakeMemoryFileSystem();
  auto out = record::Deflate(*fs->Create("memory://d/0.txt.gz"), record::Compression::kGzip, -1);
  PENSTOCK_CHECK_OK((*out)->Append("one\ntwo\n"));
  PENSTOCK_CHECK_OK((*out)->Close());
  EXPECT_THAT(*ReadAll(Dataset::FromText({"memory://d/*"}), {.file_system = fs}),
              ElementsAreArray(Printed({"one", "two"})));
}

TEST(FromText, NamesTooLongLine) {
  const std::string longest(10, 'x');
  for (int64_t block : {1, 4, 1 << 20}) {
    const TextOptions options = {.block_bytes = block, .max_line_bytes = 10};
    EXPECT_THAT(Lines(absl::StrCat("a\r\n", longest, "\r\n", longest), options),
                ElementsAre("a", longest, longest));
    for (const char* end : {"", "\n", "\r\n", "x\nmore\n"}) {
      const auto fs = File(absl::StrCat("a\r\n", longest, "x", end));
      const Dataset dataset = Dataset::FromText({"memory://d/*"}, options);
      EXPECT_EQ(ReadSome(dataset, 1, {.file_system = fs})->size(), 1);
      const auto got = ReadAll(dataset, {.file_system = fs});
      EXPECT_EQ(got.status().code(), absl::StatusCode::kDataLoss);
      EXPECT_THAT(std::string(got.status().message()),
                  StartsWith("memory://d/00.txt:3:2: the line is longer than 10 bytes"));
    }
  }
}

TEST(FromText, NamesTheOffsetAndTheLineOfAnElement) {
  const auto fs = File(
      "\xef\xbb\xbf"
      "a\r\n\nbcd\nlast");
  const Dataset dataset =
      Dataset::FromText({"memory://d/*"}, {.block_bytes = 4})
          .Map([](const NamedArrays&, NamedArrays*) { return absl::DataLossError("bad"); });
  const std::vector<std::string> origins = {"3:1", "6:2", "7:3", "11:4"};
  for (size_t i = 0; i < origins.size(); ++i) {
    EXPECT_EQ(
        ReadAll(dataset.Skip(static_cast<int64_t>(i)), {.file_system = fs}).status().message(),
        absl::StrCat("memory://d/00.txt:", origins[i], ": Map: bad"));
  }
}

TEST(FromText, RejectsInvalidParameters) {
  EXPECT_FALSE(Dataset::FromText({}).status().ok());
  EXPECT_FALSE(Dataset::FromText({"x"}, {.block_bytes = 0}).status().ok());
  EXPECT_FALSE(Dataset::FromText({"x"}, {.max_line_bytes = int64_t{1} << 31}).status().ok());
  const auto missing =
      Dataset::FromText({"memory://d/7.txt"}).MakeIterator({.file_system = File("")});
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("memory://d/7.txt"));
}

TEST(FromText, CanBeDestroyedAnywhereAndContinuesAfterSkip) {
  const auto fs = Files({7, 0, 12, 1});
  const Dataset dataset =
      Dataset::FromText({"memory://d/*"}, {.read_ahead_bytes = 1, .block_bytes = 8})
          .Shuffle(5)
          .Batch(2)
          .Repeat(2);
  testing::ExpectCanBeDroppedAndSkips(dataset, {.file_system = fs, .seed = 3});
}

}  // namespace from_text_test
}  // namespace penstock::data
