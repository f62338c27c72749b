#include "penstock/io/memory/memory_file_system.h"

#include <gtest/gtest.h>

#include "penstock/io/testing/file_system_conformance.h"
#include "penstock/io/testing/status_assertions.h"

namespace penstock::io {
namespace memory_file_system_test {

INSTANTIATE_TEST_SUITE_P(Memory, FileSystemConformance,
                         ConformanceOf([]() -> absl::StatusOr<FileSystemUnderTest> {
                           return FileSystemUnderTest{MakeMemoryFileSystem(), "memory://root"};
                         }));

TEST(MemoryFileSystem, InstancesAreIndependent) {
  const auto one = MakeMemoryFileSystem();
  const auto other = MakeMemoryFileSystem();
  ASSERT_OK(WriteFile(*one, "memory://file", "x"));
  EXPECT_THAT(other->Stat("memory://file"), IsStatus(absl::StatusCode::kNotFound, "file"));
}

TEST(MemoryFileSystem, OpenFileSurvivesReplacement) {
  const auto fs = MakeMemoryFileSystem();
  ASSERT_OK(WriteFile(*fs, "memory://file", "old"));
  ASSERT_OK_AND_ASSIGN(const auto file, fs->OpenRandomAccess("memory://file"));
  ASSERT_OK(WriteFile(*fs, "memory://file", "new"));
  std::string read(3, '\0');
  ASSERT_OK(file->Read(0, absl::MakeSpan(&read[0], 3)));
  EXPECT_EQ(read, "old");
}

TEST(MemoryFileSystem, RejectsNameThatIsFileAndFolder) {
  const auto fs = MakeMemoryFileSystem();
  ASSERT_OK(WriteFile(*fs, "memory://a/b", "x"));
  EXPECT_THAT(fs->Create("memory://a"),
              IsStatus(absl::StatusCode::kFailedPrecondition, "is a folder"));
  EXPECT_THAT(fs->Create("memory://a/b/c"),
              IsStatus(absl::StatusCode::kFailedPrecondition, "memory://a/b/c"));
}

TEST(MemoryFileSystem, ListsItsRoot) {
  const auto fs = MakeMemoryFileSystem();
  ASSERT_OK_AND_ASSIGN(auto listed, fs->List("memory://"));
  EXPECT_TRUE(listed.empty());
  ASSERT_OK(WriteFile(*fs, "memory://a/b", "x"));
  ASSERT_OK_AND_ASSIGN(listed, fs->List("memory://"));
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].uri, "memory://a");
}

}  // namespace memory_file_system_test
}  // namespace penstock::io
