#include "penstock/pack/scratch_file.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <unistd.h>

#include "penstock/base/random.h"
#include "penstock/io/memory/memory_file_system.h"

namespace penstock::pack {
namespace scratch_file_test {

using ::testing::HasSubstr;

TEST(ScratchFile, HoldsTheSameBytesInMemoryAndOnDisk) {
  const std::string folder =
      absl::StrCat(::testing::TempDir(), "/scratch_", getpid(), "_", base::EntropySeed());
  std::filesystem::create_directories(folder);
  for (int64_t limit : {int64_t{0}, int64_t{40}, int64_t{1000}}) {
    auto scratch =
        std::make_shared<ScratchFile>(ScratchOptions{.memory_bytes = limit, .folder = folder});
    std::string expected;
    for (int i = 0; i < 30; ++i) {
      ASSERT_TRUE(scratch->Append(absl::StrCat(i, ",")).ok());
      absl::StrAppend(&expected, i, ",");
    }
    EXPECT_EQ(scratch->on_disk(), limit < 80);
    EXPECT_EQ(scratch->size(), static_cast<int64_t>(expected.size()));
    EXPECT_TRUE(std::filesystem::is_empty(folder)) << "the file has no name";

    const auto fs = io::MakeMemoryFileSystem();
    auto out = fs->Create("memory://copy");
    ASSERT_TRUE(scratch->CopyTo(**out).ok());
    ASSERT_TRUE((*out)->Close().ok());
    EXPECT_EQ(*io::ReadFile(*fs, "memory://copy"), expected);

    const auto file = ReadFrom(scratch, "x", /*begin=*/20, /*size=*/40);
    std::string part(10, '?');
    EXPECT_EQ(*file->Read(3, absl::MakeSpan(part)), 10);
    EXPECT_EQ(part, expected.substr(23, 10));
    EXPECT_EQ(*file->Read(36, absl::MakeSpan(part)), 4) << "no further than its end";
    EXPECT_EQ(part.substr(0, 4), expected.substr(56, 4));
    EXPECT_EQ(*file->Read(1000, absl::MakeSpan(part)), 0);
    EXPECT_FALSE(file->Read(-1, absl::MakeSpan(part)).ok());

    scratch->Clear();
    EXPECT_EQ(scratch->size(), 0);
    ASSERT_TRUE(scratch->Append("new").ok());
    EXPECT_EQ(*scratch->Read(0, absl::MakeSpan(part)), 3);
    EXPECT_EQ(part.substr(0, 3), "new");
  }
  std::filesystem::remove_all(folder);
}

TEST(ScratchFile, NamesMissingFolderInError) {
  ScratchFile scratch({.memory_bytes = 0, .folder = "/no/such/folder"});
  EXPECT_THAT(std::string(scratch.Append("x").message()), HasSubstr("/no/such/folder"));
}

}  // namespace scratch_file_test
}  // namespace penstock::pack
