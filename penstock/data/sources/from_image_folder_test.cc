#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/io/file_system.h"
#include "penstock/io/memory/memory_file_system.h"

namespace penstock::data {
namespace from_image_folder_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ReadAll;

std::shared_ptr<io::FileSystem> Folder(const std::vector<std::string>& files) {
  auto fs = io::MakeMemoryFileSystem();
  for (const std::string& file : files) {
    PENSTOCK_CHECK_OK(io::WriteFile(*fs, absl::StrCat("memory://d/", file), file));
  }
  return fs;
}

std::shared_ptr<io::FileSystem> Flowers() {
  return Folder({"tulips/1.jpg", "tulips/deep/er/2.JPEG", "daisy/b.png", "daisy/a.PNG",
                 "daisy/notes.txt", "daisy/._a.png", "10/x.jpg", ".cache/y.jpg", "readme.jpg"});
}

// "image class" of each element.
std::vector<std::string> Elements(const Dataset& dataset, const IteratorOptions& options) {
  auto iterator = dataset.MakeIterator(options);
  PENSTOCK_CHECK_OK(iterator.status());
  std::vector<std::string> out;
  base::NamedArrays element;
  for (;;) {
    const auto more = (*iterator)->Next(&element);
    PENSTOCK_CHECK_OK(more.status());
    if (!*more) return out;
    out.push_back(absl::StrCat(element.Find("image")->data<absl::string_view>()[0], " ",
                               element.Find("class")->item<int64_t>()));
  }
}

TEST(FromImageFolder, NumbersSubfoldersByName) {
  const auto fs = Flowers();
  const Dataset dataset =
      Dataset::FromImageFolder("memory://d", {.shuffle_files = false, .file_system = fs});
  ASSERT_TRUE(dataset.status().ok()) << dataset.status();
  EXPECT_EQ(dataset.spec().ToString(), "{image: string[], class: int64[]}");
  EXPECT_THAT(dataset.class_names(), ElementsAre("10", "daisy", "tulips"));
  EXPECT_THAT(Elements(dataset, {.file_system = fs}),
              ElementsAre("10/x.jpg 0", "daisy/a.PNG 1", "daisy/b.png 1", "tulips/1.jpg 2",
                          "tulips/deep/er/2.JPEG 2"));
  EXPECT_EQ(*dataset.Cardinality({.file_system = fs}), 5);
  EXPECT_THAT(dataset.Shuffle(4).Repeat(2).Batch(2).class_names(),
              ElementsAre("10", "daisy", "tulips"))
      << "class names pass through stages";
  EXPECT_THAT(Dataset::Range(0, 3).class_names(), IsEmpty());
}

TEST(FromImageFolder, UsesGivenClassesAndExtensions) {
  const auto fs = Flowers();
  const Dataset dataset =
      Dataset::FromImageFolder("memory://d/", {.class_names = {"tulips", "daisy"},
                                               .extensions = {".png", ".jpg"},
                                               .shuffle_files = false,
                                               .paths = true,
                                               .file_system = fs});
  ASSERT_TRUE(dataset.status().ok()) << dataset.status();
  EXPECT_EQ(dataset.spec().ToString(), "{image: string[], class: int64[], path: string[]}");
  EXPECT_THAT(*ReadAll(dataset, {.file_system = fs}),
              ElementsAre("image=string[] {\"tulips/1.jpg\"} class=int64[] {0} path=string[] "
                          "{\"memory://d/tulips/1.jpg\"}",
                          "image=string[] {\"daisy/a.PNG\"} class=int64[] {1} path=string[] "
                          "{\"memory://d/daisy/a.PNG\"}",
                          "image=string[] {\"daisy/b.png\"} class=int64[] {1} path=string[] "
                          "{\"memory://d/daisy/b.png\"}"));
}

std::shared_ptr<io::FileSystem> Many() {
  std::vector<std::string> files;
  for (int c = 0; c < 4; ++c) {
    for (int i = 0; i < 25; ++i) files.push_back(absl::StrFormat("c%d/%02d.jpg", c, i));
  }
  return Folder(files);
}

TEST(FromImageFolder, ShufflesAllFilesInEachEpochBySeed) {
  const auto fs = Many();
  const Dataset dataset = Dataset::FromImageFolder("memory://d", {.file_system = fs}).Repeat(2);
  const auto one = Elements(dataset, {.file_system = fs, .seed = 1});
  EXPECT_EQ(one, Elements(dataset, {.file_system = fs, .seed = 1}));
  EXPECT_NE(one, Elements(dataset, {.file_system = fs, .seed = 2}));
  const std::vector<std::string> first(one.begin(), one.begin() + 100),
      second(one.begin() + 100, one.end());
  EXPECT_NE(first, second);
  const std::set<std::string> files(first.begin(), first.end());
  EXPECT_EQ(files.size(), 100u);
  EXPECT_EQ(files, std::set<std::string>(second.begin(), second.end()));
  for (const std::string& element : one) EXPECT_EQ(element[1], element.back()) << element;
}

TEST(FromImageFolder, SplitsTheSameWayEverywhere) {
  const auto fs = Many();
  const auto part = [&](ImageSubset subset, uint64_t seed) {
    const Dataset dataset = Dataset::FromImageFolder("memory://d", {.validation_split = 0.25,
                                                                    .subset = subset,
                                                                    .split_seed = seed,
                                                                    .shuffle_files = false,
                                                                    .file_system = fs});
    PENSTOCK_CHECK_OK(dataset.status());
    const auto elements = Elements(dataset, {.file_system = fs});
    return std::set<std::string>(elements.begin(), elements.end());
  };
  const auto training = part(ImageSubset::kTraining, 7),
             validation = part(ImageSubset::kValidation, 7);
  EXPECT_EQ(training.size(), 75u);
  EXPECT_EQ(validation.size(), 25u);
  for (const std::string& element : validation) EXPECT_EQ(training.count(element), 0u);
  EXPECT_EQ(validation, part(ImageSubset::kValidation, 7));
  EXPECT_NE(validation, part(ImageSubset::kValidation, 8));
}

TEST(FromImageFolder, ResumesWhereItStopped) {
  const auto fs = Many();
  const Dataset dataset = Dataset::FromImageFolder("memory://d", {.file_system = fs}).Repeat();
  const IteratorOptions options{.file_system = fs, .seed = 3};
  auto iterator = *dataset.MakeIterator(options);
  base::NamedArrays element;
  for (int i = 0; i < 130; ++i) ASSERT_TRUE(*iterator->Next(&element));
  const IteratorState state = iterator->State();
  std::vector<std::string> want, got;
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(*iterator->Next(&element));
    want.emplace_back(element.Find("image")->data<absl::string_view>()[0]);
  }
  auto resumed = dataset.MakeIterator({.file_system = fs, .state = state});
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  iterator = *std::move(resumed);
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(*iterator->Next(&element));
    got.emplace_back(element.Find("image")->data<absl::string_view>()[0]);
  }
  EXPECT_EQ(got, want);
}

TEST(FromImageFolder, RejectsClassNamesThatAreNotSubfolders) {
  const auto fs = Folder({"cats/a.jpg", "dogs/b.jpg"});
  for (const std::string name : {"", ".", ".."}) {
    const Dataset dataset =
        Dataset::FromImageFolder("memory://d", {.class_names = {"cats", name}, .file_system = fs});
    EXPECT_THAT(std::string(dataset.status().message()),
                HasSubstr(absl::StrCat("class_names has '", name, "', which is not the name of")));
  }
  EXPECT_THAT(
      std::string(Dataset::FromImageFolder(
                      "memory://d", {.class_names = {"cats", "dogs", "cats"}, .file_system = fs})
                      .status()
                      .message()),
      HasSubstr("'cats' twice"));
}

// Jupyter keeps copies of what it edits in cats/.ipynb_checkpoints.
TEST(FromImageFolder, LeavesOutHiddenFoldersInsideClasses) {
  const auto fs = Folder({"cats/a.jpg", "cats/.ipynb_checkpoints/a-checkpoint.jpg",
                          "cats/x/.old/y/b.jpg", "cats/x/c.jpg"});
  const Dataset dataset =
      Dataset::FromImageFolder("memory://d/", {.shuffle_files = false, .file_system = fs});
  ASSERT_TRUE(dataset.status().ok()) << dataset.status();
  EXPECT_THAT(Elements(dataset, {.file_system = fs}),
              ElementsAre("cats/a.jpg 0", "cats/x/c.jpg 0"));
}

TEST(FromImageFolder, RejectsFoldersWithoutClassesOrImages) {
  const auto message = [](const std::vector<std::string>& files, ImageFolderOptions options = {}) {
    options.file_system = Folder(files);
    const Dataset dataset = Dataset::FromImageFolder("memory://d", options);
    EXPECT_FALSE(dataset.status().ok());
    EXPECT_FALSE(dataset.MakeIterator({.file_system = options.file_system}).ok());
    return std::string(dataset.status().message());
  };
  EXPECT_THAT(message({"a.jpg"}), HasSubstr("memory://d has no subfolders"));
  EXPECT_THAT(
      message({"cats/a.jpg", "dogs/readme.txt"}),
      HasSubstr("the folder of class 'dogs', memory://d/dogs, has no files that end in .jpg"));
  EXPECT_THAT(message({"cats/a.jpg"}, {.extensions = {}}), HasSubstr("extensions is empty"));
  EXPECT_THAT(message({"cats/a.jpg"}, {.validation_split = 0.5}),
              HasSubstr("together with a subset"));
  EXPECT_THAT(message({"cats/a.jpg"}, {.subset = ImageSubset::kTraining}),
              HasSubstr("validation_split"));
  EXPECT_THAT(message({"cats/a.jpg", "dogs/b.jpg"},
                      {.validation_split = 0.1, .subset = ImageSubset::kValidation}),
              HasSubstr("the validation subset of 2 images in memory://d is empty"));
  EXPECT_EQ(Dataset::FromImageFolder("memory://none", {.file_system = Folder({"cats/a.jpg"})})
                .status()
                .code(),
            absl::StatusCode::kNotFound);
}

}  // namespace from_image_folder_test
}  // namespace penstock::data
