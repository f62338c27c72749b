#include "penstock/pack/sources/image_list.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/io/memory/memory_file_system.h"

namespace penstock::pack {
namespace image_list_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class ImageListTest : public ::testing::Test {
 protected:
  void Write(const std::string& uri, const std::string& bytes = "x") {
    ASSERT_TRUE(io::WriteFile(*fs_, uri, bytes).ok());
  }
  std::shared_ptr<io::FileSystem> fs_ = io::MakeMemoryFileSystem();
};

TEST_F(ImageListTest, LabelsByFolderAtAnyDepthAndIgnoresOtherFiles) {
  Write("memory://p/dog/b.PNG");
  Write("memory://p/cat/deep/er/a.jpeg");
  Write("memory://p/cat/readme.txt");
  Write("memory://p/stray.jpg");
  const auto list = ListImages(*fs_, {.images = {"memory://p"}});
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_THAT(list->classes, ElementsAre("cat", "dog"));
  ASSERT_EQ(list->images.size(), 2u);
  EXPECT_EQ(list->images[0].uri, "memory://p/cat/deep/er/a.jpeg");
  EXPECT_EQ(list->images[0].bytes, 1);
  EXPECT_EQ(list->images[1].class_index, 1);
}

TEST_F(ImageListTest, IgnoresHiddenFilesAndFolders) {
  Write("memory://p/cat/a.jpg");
  Write("memory://p/cat/._a.jpg");
  Write("memory://p/cat/.thumbnails/a.jpg");
  Write("memory://p/cat/deep/.old/more/a.jpg");
  Write("memory://p/.ipynb_checkpoints/a.jpg");
  const auto list = ListImages(*fs_, {.images = {"memory://p"}});
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_THAT(list->classes, ElementsAre("cat"));
  ASSERT_EQ(list->images.size(), 1u);
  EXPECT_EQ(list->images[0].uri, "memory://p/cat/a.jpg");
}

TEST_F(ImageListTest, LabelsByParentFolderOfPatternMatchesAndListsEachImageOnce) {
  Write("memory://p/x/dog/b.png");
  Write("memory://p/cat/a.jpg");
  Write("memory://p/cat/a.txt");
  const auto list =
      ListImages(*fs_, {.images = {"memory://p/**/*.png", "memory://p/cat/*", "memory://p/*/a*"}});
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_THAT(list->classes, ElementsAre("cat", "dog"));
  ASSERT_EQ(list->images.size(), 2u);
  EXPECT_EQ(list->images[0].uri, "memory://p/x/dog/b.png");
  EXPECT_EQ(list->images[0].class_index, 1);
  EXPECT_EQ(list->images[0].bytes, 1);
}

TEST_F(ImageListTest, KeepsIndicesOfGivenClassesWithoutImages) {
  Write("memory://p/dog/b.png");
  const auto list = ListImages(*fs_, {.images = {"memory://p"}, .classes = {"cat", "dog"}});
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->images[0].class_index, 1);
  const auto other = ListImages(*fs_, {.images = {"memory://p"}, .classes = {"cat"}});
  EXPECT_THAT(std::string(other.status().message()),
              HasSubstr("'dog', which is not one of the classes cat"));
}

TEST_F(ImageListTest, DescribesExpectedLayoutForFolderWithoutImages) {
  Write("memory://p/notes.txt");
  EXPECT_THAT(std::string(ListImages(*fs_, {.images = {"memory://p"}}).status().message()),
              HasSubstr("memory://p/LABEL/NAME.jpg"));
}

TEST_F(ImageListTest, ResolvesPathsRelativeToCsvAndUnquotesFields) {
  Write("memory://p/labels.csv",
        "path,label\r\n\"a,1.jpg\",\"big \"\"cat\"\"\"\nsub/b.jpg,dog\nmemory://q/c.jpg,dog\n");
  const auto labels = ReadImageLabels(*fs_, "memory://p/labels.csv");
  ASSERT_TRUE(labels.ok()) << labels.status();
  EXPECT_THAT(*labels,
              ElementsAre(Pair("memory://p/a,1.jpg", "big \"cat\""),
                          Pair("memory://p/sub/b.jpg", "dog"), Pair("memory://q/c.jpg", "dog")));
  const auto list = ListImages(*fs_, {.labels = &*labels});
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_THAT(list->classes, ElementsAre("big \"cat\"", "dog"));
  EXPECT_EQ(list->images[2].class_index, 1);
}

// Spreadsheet programs write a byte order mark, `find .` prints ./a.jpg.
TEST_F(ImageListTest, ReadsCsvOfOtherPrograms) {
  Write("memory://p/cat/a.jpg");
  Write("memory://p/b.jpg");
  Write("memory://p/labels.csv", "\xef\xbb\xbf./cat/a.jpg,cat\r\n././b.jpg,dog");
  const auto labels = ReadImageLabels(*fs_, "memory://p/labels.csv");
  ASSERT_TRUE(labels.ok()) << labels.status();
  EXPECT_THAT(*labels,
              ElementsAre(Pair("memory://p/b.jpg", "dog"), Pair("memory://p/cat/a.jpg", "cat")));
  const auto list = ListImages(*fs_, {.images = {"memory://p"}, .labels = &*labels});
  EXPECT_TRUE(list.ok()) << list.status();
}

// The header would become an image that is missing, and its second field a class.
TEST_F(ImageListTest, SkipsHeaderOfOtherPrograms) {
  for (const char* header : {"path,label", "Filename,Class", "image,breed", "file,Label"}) {
    Write("memory://p/labels.csv", std::string(header) + "\na.jpg,cat\n");
    const auto labels = ReadImageLabels(*fs_, "memory://p/labels.csv");
    ASSERT_TRUE(labels.ok()) << labels.status();
    EXPECT_THAT(*labels, ElementsAre(Pair("memory://p/a.jpg", "cat"))) << header;
  }
}

TEST_F(ImageListTest, ShortensLongLinesInErrors) {
  // Line ends of old Macs: the file is one line.
  std::string text = "a.jpg,cat";
  for (int i = 0; i < 10000; ++i) text += "\rb.jpg,cat";
  Write("memory://p/labels.csv", text);
  const std::string message(ReadImageLabels(*fs_, "memory://p/labels.csv").status().message());
  EXPECT_THAT(message, HasSubstr("labels.csv:1: expected a path and a label, got: a.jpg,cat\\rb"));
  EXPECT_LT(message.size(), 300u);
  Write("memory://p/labels.csv", std::string(100000, 'a') + ".jpg,cat\n");
  const std::string long_name(ReadImageLabels(*fs_, "memory://p/labels.csv").status().message());
  EXPECT_THAT(long_name, HasSubstr("labels.csv:1: a path of 100015 bytes is too long: memory://p"));
  EXPECT_LT(long_name.size(), 300u);
}

TEST_F(ImageListTest, ReadsJsonObjectsAndArraysAndSortsIntegersNumerically) {
  Write("memory://p/a.json", "{\"a.jpg\": 10, \"sub/b.jpg\": 9}");
  Write("memory://p/b.json",
        "[{\"path\": \"a.jpg\", \"label\": \"10\"}, {\"path\": \"sub/b.jpg\", \"label\": 9}]");
  for (const char* file : {"memory://p/a.json", "memory://p/b.json"}) {
    const auto labels = ReadImageLabels(*fs_, file);
    ASSERT_TRUE(labels.ok()) << labels.status();
    EXPECT_THAT(*labels,
                ElementsAre(Pair("memory://p/a.jpg", "10"), Pair("memory://p/sub/b.jpg", "9")));
    EXPECT_THAT(ListImages(*fs_, {.labels = &*labels})->classes, ElementsAre("9", "10"));
  }
}

TEST_F(ImageListTest, OverridesFolderLabelsAndRejectsUnlabeledImages) {
  Write("memory://p/images/x/a.jpg");
  Write("memory://p/images/b.jpg");
  Write("memory://p/labels.json", "{\"images/x/a.jpg\": \"cat\", \"images/b.jpg\": \"dog\"}");
  const auto labels = ReadImageLabels(*fs_, "memory://p/labels.json");
  const auto list = ListImages(*fs_, {.images = {"memory://p/images"}, .labels = &*labels});
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_THAT(list->classes, ElementsAre("cat", "dog"));
  EXPECT_EQ(list->images.size(), 2u);
  Write("memory://p/images/c.jpg");
  const auto rejected = ListImages(*fs_, {.images = {"memory://p/images"}, .labels = &*labels});
  EXPECT_THAT(std::string(rejected.status().message()),
              HasSubstr("1 of 3 images have no label, for example memory://p/images/c.jpg"));
}

TEST_F(ImageListTest, ReportsPositionOfInvalidLabels) {
  const std::pair<std::string, const char*> kBad[] = {
      {"a.jpg,cat\nb.jpg\n", "labels.csv:2: expected a path and a label, got: b.jpg"},
      {"a.jpg,cat\na.jpg,dog\n",
       "labels.csv:2: duplicate label for memory://p/a.jpg, which has label 'cat'"},
      {"\n", "labels.csv lists no images"},
      {std::string("\xff\xfe"
                   "a\0,\0c\0",
                   8),
       "labels.csv: contains NUL bytes; is it UTF-16?"},
  };
  for (const auto& [text, message] : kBad) {
    Write("memory://p/labels.csv", text);
    EXPECT_THAT(std::string(ReadImageLabels(*fs_, "memory://p/labels.csv").status().message()),
                HasSubstr(message));
  }
  const std::pair<const char*, const char*> kBadJson[] = {
      {"{", "labels.json: not valid JSON"},
      {"3", "neither an object nor an array"},
      {"{\"a.jpg\": 1.5}", "\"a.jpg\" has a label that is neither a string nor an integer"},
      {"{\"a.jpg\": \"cat\", \"a.jpg\": \"dog\"}", "duplicate label for a.jpg"},
      {"{\"a.jpg\": \"cat\", \"./a.jpg\": \"dog\"}",
       "duplicate label for memory://p/a.jpg, which has label '"},
      {"[{\"path\": \"a.jpg\", \"label\": 1}, {\"path\": \"a.jpg\", \"label\": 2}]",
       "entry 1: duplicate label for memory://p/a.jpg, which has label '1'"},
      {"[{\"path\": \"a.jpg\", \"label\": 1}, {\"path\": 3, \"label\": 1}]",
       "entry 1 lacks a \"path\" or a \"label\""},
  };
  for (const auto& [text, message] : kBadJson) {
    Write("memory://p/labels.json", text);
    EXPECT_THAT(std::string(ReadImageLabels(*fs_, "memory://p/labels.json").status().message()),
                HasSubstr(message));
  }
  Write("memory://p/labels.txt");
  EXPECT_THAT(std::string(ReadImageLabels(*fs_, "memory://p/labels.txt").status().message()),
              HasSubstr("must end in .csv or .json"));
}

}  // namespace image_list_test
}  // namespace penstock::pack
