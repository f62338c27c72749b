#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/io/file_system.h"
#include "penstock/io/memory_file_system.h"

namespace penstock::data {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using testing::ReadAll;
using testing::ReadSome;
using ::testing::UnorderedElementsAreArray;

constexpr int kFiles = 40;

std::shared_ptr<io::FileSystem> Files() {
  auto fs = io::MakeMemoryFileSystem();
  for (int i = 0; i < kFiles; ++i) {
    PENSTOCK_CHECK_OK(io::WriteFile(*fs, absl::StrFormat("memory://d/%02d.txt", i),
                                    i == 3 ? "" : absl::StrCat("text ", i)));
  }
  return fs;
}

std::vector<std::string> Expected() {
  std::vector<std::string> out;
  for (int i = 0; i < kFiles; ++i) {
    out.push_back(absl::StrFormat("path=string[] {\"memory://d/%02d.txt\"} bytes=string[] {\"%s\"}",
                                  i, i == 3 ? "" : absl::StrCat("text ", i)));
  }
  return out;
}

TEST(FromFiles, GivesPathsAndBytes) {
  const Dataset dataset = Dataset::FromFiles({"memory://d/*.txt"});
  EXPECT_EQ(dataset.spec().ToString(), "{path: string[], bytes: string[]}");
  EXPECT_THAT(*ReadAll(dataset, {.file_system = Files()}), ElementsAreArray(Expected()));
  EXPECT_THAT(*ReadAll(dataset, {.file_system = Files(), .deterministic = false}),
              UnorderedElementsAreArray(Expected()));
}

TEST(FromFiles, ReadsWithLittleRoom) {
  const Dataset dataset =
      Dataset::FromFiles({"memory://d/*.txt"}, {.parallel_files = 3, .read_ahead_bytes = 1});
  EXPECT_THAT(*ReadAll(dataset, {.file_system = Files()}), ElementsAreArray(Expected()));
}

TEST(FromFiles, SkipsWithoutReading) {
  const auto expected = Expected();
  for (int64_t skip : {0, 1, 20, 40, 50}) {
    const Dataset dataset = Dataset::FromFiles({"memory://d/*.txt"}).Skip(skip);
    EXPECT_THAT(*ReadAll(dataset, {.file_system = Files()}),
                ElementsAreArray(expected.begin() + std::min<int64_t>(skip, 40), expected.end()));
  }
}

TEST(FromFiles, NamesWhatItCannotFindOrRead) {
  const auto fs = Files();
  EXPECT_THAT(std::string(Dataset::FromFiles({"memory://d/x.txt"})
                              .MakeIterator({.file_system = fs})
                              .status()
                              .message()),
              HasSubstr("memory://d/x.txt"));
  EXPECT_FALSE(Dataset::FromFiles({}).status().ok());
}

TEST(FromFiles, CanBeDroppedAnywhere) {
  const Dataset dataset = Dataset::FromFiles({"memory://d/*.txt"}).Shuffle(4).Batch(3);
  const auto fs = Files();
  for (int64_t count = 0; count < 14; ++count) {
    EXPECT_TRUE(ReadSome(dataset, count, {.file_system = fs}).ok());
  }
}

}  // namespace
}  // namespace penstock::data
