// Folders of images on every kind of file system, with the names and the things that people have in
// them.
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/base/random.h"
#include "penstock/data/dataset.h"
#include "penstock/data/iterator.h"
#include "penstock/image/encode.h"
#include "penstock/image/view.h"
#include "penstock/io/file_system.h"
#include "penstock/io/testing/emulator.h"
#include "penstock/io/testing/status_assertions.h"
#include "penstock/io/uri.h"

namespace penstock::data {
namespace from_image_folder_places_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

std::string NewLocalFolder() {
  return absl::StrCat(::testing::TempDir(), "/image_folder_", getpid(), "_", base::EntropySeed());
}

struct Place {
  std::string name;
  // A folder that is not there yet.
  std::function<absl::StatusOr<std::string>()> make;
};

absl::StatusOr<std::string> InBucket(absl::StatusOr<io::Emulator*> emulator) {
  PENSTOCK_RETURN_IF_ERROR(emulator.status());
  PENSTOCK_ASSIGN_OR_RETURN(const std::string bucket,
                            (*emulator)->MakeBucket(*io::FileSystem::Default()));
  return io::JoinPath(bucket, "my pictures");
}

std::string Png(int value) {
  base::Array pixels = base::Array::Zeros(base::DType::kU8, {4, 6, 3});
  pixels.mutable_data<uint8_t>()[0] = static_cast<uint8_t>(value);
  return *image::EncodePng(*image::ViewOf(pixels));
}

// What a pass over a dataset gives: the values of a column of strings or numbers, and the error at
// its end, if any.
struct Pass {
  std::vector<std::string> values;
  absl::Status error;
};

Pass Read(const Dataset& dataset, const std::string& column) {
  Pass pass;
  auto iterator = dataset.MakeIterator({});
  pass.error = iterator.status();
  base::NamedArrays element;
  while (pass.error.ok()) {
    const auto more = (*iterator)->Next(&element);
    pass.error = more.status();
    if (!more.ok() || !*more) break;
    const base::Array& value = *element.Find(column);
    pass.values.push_back(value.dtype() == base::DType::kString
                              ? absl::StrCat(value.data<absl::string_view>()[0], " ",
                                             element.Find("class")->item<int64_t>())
                              : absl::StrCat(static_cast<int>(value.data<uint8_t>()[0])));
  }
  return pass;
}

class ImageFolderIn : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override { ASSERT_OK_AND_ASSIGN(folder_, GetParam().make()); }
  void TearDown() override {
    if (GetParam().name == "Local") std::filesystem::remove_all(folder_);
  }
  void Put(const std::string& name, const std::string& bytes) {
    ASSERT_OK(io::WriteFile(*io::FileSystem::Default(), io::JoinPath(folder_, name), bytes));
  }

  std::string folder_;
};

TEST_P(ImageFolderIn, NamesMayHaveSpacesAndLettersOfAnyLanguage) {
  for (const std::string name : {"Hunde/Bild 1.JPG", "Hunde/Gr\u00f6\u00dfe 100%25.jpeg",
                                 "chats & chiens/\u00e9t\u00e9 #2.Png", "\u732b/\u5199\u771f+1.jpg",
                                 "\u732b/deep er/x=y.PNG", "\u732b/notes.txt"}) {
    Put(name, name);
  }
  const Dataset dataset = Dataset::FromImageFolder(folder_, {.shuffle_files = false});
  ASSERT_OK(dataset.status());
  EXPECT_THAT(dataset.class_names(), ElementsAre("Hunde", "chats & chiens", "\u732b"));
  const Pass pass = Read(dataset, "image");
  ASSERT_OK(pass.error);
  EXPECT_THAT(pass.values, ElementsAre("Hunde/Bild 1.JPG 0", "Hunde/Gr\u00f6\u00dfe 100%25.jpeg 0",
                                       "chats & chiens/\u00e9t\u00e9 #2.Png 1",
                                       "\u732b/deep er/x=y.PNG 2", "\u732b/\u5199\u771f+1.jpg 2"));
  const Dataset one =
      Dataset::FromImageFolder(folder_, {.class_names = {"\u732b"}, .shuffle_files = false});
  EXPECT_THAT(Read(one, "image").values,
              ElementsAre("\u732b/deep er/x=y.PNG 0", "\u732b/\u5199\u771f+1.jpg 0"));
}

TEST_P(ImageFolderIn, NamesTheFileThatIsNoImage) {
  Put("cats/1.png", Png(1));
  Put("cats/2 (copy).JPG", "<html>not found</html>");
  Put("dogs/3.PNG", Png(3));
  Put("dogs/4.png", "");
  const Dataset dataset = Dataset::FromImageFolder(folder_, {.shuffle_files = false})
                              .DecodeImage({.height = 4, .width = 6});
  ASSERT_OK(dataset.status());
  const Pass pass = Read(dataset, "image");
  EXPECT_THAT(pass.values, ElementsAre("1"));
  EXPECT_THAT(std::string(pass.error.message()), HasSubstr("2 (copy).JPG"));
  const Pass rest = Read(dataset.IgnoreErrors(), "image");
  ASSERT_OK(rest.error);
  EXPECT_THAT(rest.values, ElementsAre("1", "3"));
}

TEST_P(ImageFolderIn, NamesTheClassWithoutImages) {
  Put("cats/1.png", Png(1));
  Put("dogs/readme.txt", "");
  const absl::Status status = Dataset::FromImageFolder(folder_).status();
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("the folder of class 'dogs'"), HasSubstr(".jpg"),
                    HasSubstr("ImageFolderOptions.class_names")));
  EXPECT_THAT(
      std::string(
          Dataset::FromImageFolder(folder_, {.class_names = {"cats", "cows"}}).status().message()),
      HasSubstr("cows"));
  EXPECT_OK(Dataset::FromImageFolder(folder_, {.class_names = {"cats"}}).status());
}

TEST_P(ImageFolderIn, AMissingFolderIsAnError) {
  EXPECT_EQ(Dataset::FromImageFolder(io::JoinPath(folder_, "nowhere")).status().code(),
            absl::StatusCode::kNotFound);
}

INSTANTIATE_TEST_SUITE_P(
    Places, ImageFolderIn,
    ::testing::Values(Place{"Local", [] { return NewLocalFolder(); }},
                      Place{"Gcs", [] { return InBucket(io::Emulator::Gcs()); }},
                      Place{"S3", [] { return InBucket(io::Emulator::S3()); }}),
    [](const auto& info) { return info.param.name; });

class LocalImageFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_ + "/cats");
    std::filesystem::create_directories(folder_ + "/dogs");
    Put("cats/a.png", Png(1));
    Put("dogs/z.png", Png(2));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void Put(const std::string& name, const std::string& bytes) {
    ASSERT_OK(io::WriteFile(*io::FileSystem::Default(), io::JoinPath(folder_, name), bytes));
  }
  Dataset Images() const {
    return Dataset::FromImageFolder(folder_, {.shuffle_files = false})
        .DecodeImage({.height = 4, .width = 6});
  }

  const std::string folder_ = NewLocalFolder();
};

// Opening a pipe without a writer would block forever.
TEST_F(LocalImageFolder, NamesThePipeAmongTheImages) {
  ASSERT_EQ(::mkfifo((folder_ + "/cats/b.jpg").c_str(), 0600), 0);
  const Pass pass = Read(Images(), "image");
  EXPECT_THAT(std::string(pass.error.message()),
              AllOf(HasSubstr("cats/b.jpg"), HasSubstr("is a pipe (FIFO)")));
}

TEST_F(LocalImageFolder, NamesTheLinkWithoutATarget) {
  std::filesystem::create_symlink("/nowhere/b.jpg", folder_ + "/cats/b.jpg");
  const Pass pass = Read(Images(), "image");
  EXPECT_FALSE(pass.error.ok());
  EXPECT_THAT(std::string(pass.error.message()), HasSubstr("cats/b.jpg"));
}

TEST_F(LocalImageFolder, FollowsLinksToImagesAndClasses) {
  const std::string elsewhere = NewLocalFolder();
  std::filesystem::create_directories(elsewhere);
  {
    std::ofstream file(elsewhere + "/1.png", std::ios::binary);
    file << Png(7);
  }
  std::filesystem::create_symlink(elsewhere + "/1.png", folder_ + "/cats/link.png");
  std::filesystem::create_directory_symlink(elsewhere, folder_ + "/birds");
  const Dataset images = Images();
  EXPECT_THAT(images.class_names(), ElementsAre("birds", "cats", "dogs"));
  const Pass pass = Read(images, "image");
  EXPECT_OK(pass.error);
  EXPECT_THAT(pass.values, UnorderedElementsAre("7", "1", "7", "2"));
  std::filesystem::remove_all(elsewhere);
}

TEST_F(LocalImageFolder, AnEmptyFolderIsNoClass) {
  std::filesystem::create_directories(folder_ + "/cows");
  EXPECT_THAT(std::string(Dataset::FromImageFolder(folder_).status().message()),
              AllOf(HasSubstr("the folder of class 'cows'"), HasSubstr("remove the folder")));
}

}  // namespace from_image_folder_places_test
}  // namespace penstock::data
