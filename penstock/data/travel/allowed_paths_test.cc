#include "penstock/data/travel/allowed_paths.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/io/memory/memory_file_system.h"

namespace penstock::data {
namespace allowed_paths_test {

using ::testing::HasSubstr;

bool Reads(const AllowedPaths& allowed, absl::string_view uri) {
  return allowed.Check(uri, false).ok();
}

TEST(AllowedPathsTest, AllowsOnlyNamesBelowAPrefix) {
  for (const char* prefix : {"gs://bucket/", "gs://bucket"}) {
    const AllowedPaths allowed({prefix}, {});
    EXPECT_TRUE(Reads(allowed, "gs://bucket/a.tfrec"));
    EXPECT_TRUE(Reads(allowed, "gs://bucket/x/**/*.tfrec"));
    EXPECT_TRUE(Reads(allowed, "gs://bucket"));
    EXPECT_FALSE(Reads(allowed, "gs://bucket2/a.tfrec"));
    EXPECT_FALSE(Reads(allowed, "s3://bucket/a.tfrec"));
    EXPECT_FALSE(Reads(allowed, "/bucket/a.tfrec"));
  }
  const AllowedPaths folder({"s3://b/train"}, {});
  EXPECT_TRUE(Reads(folder, "s3://b/train/0.tfrec"));
  EXPECT_FALSE(Reads(folder, "s3://b/training/0.tfrec"));
  EXPECT_FALSE(Reads(folder, "s3://b/0.tfrec"));
}

TEST(AllowedPathsTest, RejectsPathsThatLeaveThePrefix) {
  const AllowedPaths allowed({"gs://b/x", "/data"}, {});
  EXPECT_FALSE(Reads(allowed, "gs://b/x/../y"));
  EXPECT_FALSE(Reads(allowed, "/data/../etc/passwd"));
  EXPECT_FALSE(Reads(allowed, "/data/a/../../etc/passwd"));
  EXPECT_FALSE(Reads(allowed, "data/a"));
  EXPECT_FALSE(Reads(allowed, ""));
  EXPECT_FALSE(Reads(allowed, "/database/a"));
  EXPECT_TRUE(Reads(allowed, "/data//./a"));
  EXPECT_TRUE(Reads(allowed, "file:///data/a"));
}

TEST(AllowedPathsTest, SendsCredentialsOnlyToTheEndpointOfThePrefix) {
  const AllowedPaths plain({"s3://b/"}, {});
  EXPECT_FALSE(Reads(plain, "s3://b/a?endpoint_override=evil.example:80"));
  EXPECT_FALSE(Reads(plain, "s3://key:secret@b/a"));
  const AllowedPaths custom({"s3://b/?endpoint_override=127.0.0.1:9000"}, {});
  EXPECT_TRUE(Reads(custom, "s3://b/a?endpoint_override=127.0.0.1:9000"));
  EXPECT_FALSE(Reads(custom, "s3://b/a"));
}

TEST(AllowedPathsTest, WritesOnlyWhereWritingIsAllowed) {
  const AllowedPaths allowed({"gs://in"}, {"gs://out"});
  EXPECT_TRUE(Reads(allowed, "gs://out/a"));
  EXPECT_TRUE(allowed.Check("gs://out/a", true).ok());
  const absl::Status status = allowed.Check("gs://in/a", true);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(status.message(),
              HasSubstr("gs://in/a: the worker may not write it; allowed: gs://out"));
}

TEST(AllowedPathsTest, FileSystemChecksEveryCall) {
  const auto memory = io::MakeMemoryFileSystem();
  ASSERT_TRUE(io::WriteFile(*memory, "memory://in/a", "x").ok());
  ASSERT_TRUE(io::WriteFile(*memory, "memory://other/a", "x").ok());
  const auto files = MakeAllowedFileSystem(
      memory, std::make_shared<AllowedPaths>(std::vector<std::string>{"memory://in"},
                                             std::vector<std::string>{"memory://out"}));
  EXPECT_EQ(*io::ReadFile(*files, "memory://in/a"), "x");
  EXPECT_TRUE(io::WriteFile(*files, "memory://out/a", "y").ok());
  for (const absl::Status& status :
       {files->OpenInput("memory://other/a").status(),
        files->OpenRandomAccess("memory://other/a").status(),
        files->Stat("memory://other/a").status(), files->List("memory://other").status(),
        files->ListRecursive("memory://other").status(), files->Create("memory://in/b").status(),
        files->Remove("memory://in/a"), files->RemoveRecursively("memory://in"),
        files->CreateFolder("memory://in/c")}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
  }
}

}  // namespace allowed_paths_test
}  // namespace penstock::data
