#include "penstock/cli/image_list.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/io/memory_file_system.h"

namespace penstock::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ImageListTest : public ::testing::Test {
 protected:
  void Write(const std::string& uri, const std::string& bytes = "x") {
    ASSERT_TRUE(io::WriteFile(*fs_, uri, bytes).ok());
  }
  std::shared_ptr<io::FileSystem> fs_ = io::MakeMemoryFileSystem();
};

TEST_F(ImageListTest, FoldersAreLabelsAtAnyDepthAndOtherFilesAreLeftOut) {
  Write("memory://p/dog/b.PNG");
  Write("memory://p/cat/deep/er/a.jpeg");
  Write("memory://p/cat/readme.txt");
  Write("memory://p/stray.jpg");
  const auto list = ImagesOfFolder(*fs_, "memory://p", {});
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_THAT(list->classes, ElementsAre("cat", "dog"));
  ASSERT_EQ(list->images.size(), 2u);
  EXPECT_EQ(list->images[0].uri, "memory://p/cat/deep/er/a.jpeg");
  EXPECT_EQ(list->images[1].class_index, 1);
}

TEST_F(ImageListTest, GivenClassesKeepTheirNumbersWhereSomeAreMissing) {
  Write("memory://p/dog/b.png");
  const auto list = ImagesOfFolder(*fs_, "memory://p", {"cat", "dog"});
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->images[0].class_index, 1);
  const auto other = ImagesOfFolder(*fs_, "memory://p", {"cat"});
  EXPECT_THAT(std::string(other.status().message()),
              HasSubstr("'dog', which is not among the classes cat"));
}

TEST_F(ImageListTest, AnEmptyFolderSaysWhereImagesAreLookedFor) {
  Write("memory://p/notes.txt");
  EXPECT_THAT(std::string(ImagesOfFolder(*fs_, "memory://p", {}).status().message()),
              HasSubstr("memory://p/LABEL/NAME.jpg"));
}

TEST_F(ImageListTest, CsvPathsAreBelowTheCsvAndQuotesProtectCommas) {
  Write("memory://p/labels.csv",
        "path,label\r\n\"a,1.jpg\",\"big \"\"cat\"\"\"\nsub/b.jpg,dog\nmemory://q/c.jpg,dog\n");
  const auto list = ImagesOfCsv(*fs_, "memory://p/labels.csv", {});
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_THAT(list->classes, ElementsAre("big \"cat\"", "dog"));
  EXPECT_EQ(list->images[0].uri, "memory://p/a,1.jpg");
  EXPECT_EQ(list->images[1].uri, "memory://p/sub/b.jpg");
  EXPECT_EQ(list->images[2].uri, "memory://q/c.jpg");
}

TEST_F(ImageListTest, ABadCsvLineIsNamedByItsNumber) {
  Write("memory://p/labels.csv", "a.jpg,cat\nb.jpg\n");
  EXPECT_THAT(std::string(ImagesOfCsv(*fs_, "memory://p/labels.csv", {}).status().message()),
              HasSubstr("labels.csv:2: wants a path and a label, got: b.jpg"));
}

}  // namespace
}  // namespace penstock::cli
