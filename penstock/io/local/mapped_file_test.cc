#include "penstock/io/local/mapped_file.h"

#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/io/file_system.h"
#include "penstock/io/local/local_file_system.h"

namespace penstock::io {
namespace mapped_file_test {

using ::testing::HasSubstr;

TEST(MappedFile, KeepsContentsAfterReplacement) {
  const auto fs = MakeLocalFileSystem();
  const std::string path = ::testing::TempDir() + "/mapped_file_test.bin";
  std::string bytes;
  for (int i = 0; i < 10'000; ++i) bytes.push_back(static_cast<char>(i * 7));
  ASSERT_TRUE(WriteFile(*fs, path, bytes).ok());
  const auto mapped = MappedFile::Open("file://" + path);
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_EQ((*mapped)->bytes(), bytes);
  EXPECT_EQ(reinterpret_cast<uintptr_t>((*mapped)->bytes().data()) % 4096, 0);
  // The mapping stays valid after the file is replaced or removed.
  ASSERT_TRUE(WriteFile(*fs, path, "short").ok());
  EXPECT_EQ((*mapped)->bytes(), bytes);
  ASSERT_TRUE(fs->Remove(path).ok());
  EXPECT_EQ((*mapped)->bytes(), bytes);
}

TEST(MappedFile, SupportsEmptyFile) {
  const std::string path = ::testing::TempDir() + "/mapped_file_test.empty";
  ASSERT_TRUE(WriteFile(*MakeLocalFileSystem(), path, "").ok());
  EXPECT_EQ((*MappedFile::Open(path))->bytes(), "");
}

TEST(MappedFile, ReportsUnsupportedFiles) {
  const auto message = [](const std::string& uri) {
    return std::string(MappedFile::Open(uri).status().message());
  };
  EXPECT_THAT(message("/nowhere/x.npy"), HasSubstr("/nowhere/x.npy"));
  EXPECT_THAT(message(::testing::TempDir()), HasSubstr("folder"));
  EXPECT_THAT(message("gs://bucket/x.npy"), HasSubstr("not a local file"));
  EXPECT_THAT(message("/dev/null"), HasSubstr("is a character device"));
}

}  // namespace mapped_file_test
}  // namespace penstock::io
