#include "penstock/io/scheme_router.h"

#include "absl/strings/str_cat.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/base/random.h"
#include "penstock/io/local/local_file_system.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/io/testing/file_system_conformance.h"
#include "penstock/io/testing/status_assertions.h"
#include "penstock/io/uri.h"

namespace penstock::io {
namespace scheme_router_test {

INSTANTIATE_TEST_SUITE_P(Routed, FileSystemConformance,
                         ConformanceOf([]() -> absl::StatusOr<FileSystemUnderTest> {
                           return FileSystemUnderTest{
                               MakeSchemeRouter({{"memory", MakeMemoryFileSystem()}}),
                               "memory://root"};
                         }));

TEST(SchemeRouter, DispatchesByScheme) {
  const auto memory = MakeMemoryFileSystem();
  const auto local = MakeLocalFileSystem();
  const auto fs = MakeSchemeRouter({{"", local}, {"file", local}, {"memory", memory}});
  const std::string path =
      JoinPath(testing::TempDir(), absl::StrCat("penstock-", absl::Hex(base::EntropySeed())));
  ASSERT_OK(WriteFile(*fs, "memory://file", "in memory"));
  ASSERT_OK(WriteFile(*fs, path, "on disk"));
  ASSERT_OK_AND_ASSIGN(const std::string in_memory, ReadFile(*memory, "memory://file"));
  ASSERT_OK_AND_ASSIGN(const std::string on_disk, ReadFile(*fs, absl::StrCat("file://", path)));
  EXPECT_EQ(in_memory, "in memory");
  EXPECT_EQ(on_disk, "on disk");
  EXPECT_OK(fs->Remove(path));
}

TEST(SchemeRouter, ErrorListsSupportedSchemes) {
  const auto fs = MakeSchemeRouter({{"memory", MakeMemoryFileSystem()}});
  EXPECT_THAT(fs->Stat("http://host/x"),
              IsStatus(absl::StatusCode::kInvalidArgument, "'http', which is unknown"));
  EXPECT_THAT(fs->Stat("http://host/x"), IsStatus(absl::StatusCode::kInvalidArgument, "memory://"));
  EXPECT_THAT(fs->Stat("x"), IsStatus(absl::StatusCode::kInvalidArgument, "is a local path"));
}

TEST(SchemeRouter, ServesDefaultFileSystem) {
  const auto fs = FileSystem::Default();
  EXPECT_EQ(fs, FileSystem::Default());
  EXPECT_OK(fs->Stat(testing::TempDir()));
  EXPECT_THAT(fs->Stat("http://host/x"),
              IsStatus(absl::StatusCode::kInvalidArgument, "local paths, file://, gs://, s3://"));
  EXPECT_THAT(fs->Stat("gs://bucket/x?unknown=1"),
              IsStatus(absl::StatusCode::kInvalidArgument, "endpoint_override"));
}

}  // namespace scheme_router_test
}  // namespace penstock::io
