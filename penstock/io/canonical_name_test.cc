#include "penstock/io/canonical_name.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace penstock::io {
namespace {

TEST(CanonicalName, IgnoresCredentialsAndOptionsExceptTheEndpoint) {
  const std::string name = CanonicalName("s3://bucket/net/m.pt");
  EXPECT_EQ(CanonicalName("s3://key:secret@bucket/net/m.pt"), name);
  EXPECT_EQ(CanonicalName("s3://bucket/net/m.pt?region=eu-west-1"), name);
  EXPECT_NE(CanonicalName("s3://bucket/net/m.pt?endpoint_override=127.0.0.1:9000"), name);
  EXPECT_NE(CanonicalName("s3://bucket/net/n.pt"), name);
  EXPECT_NE(CanonicalName("gs://bucket/net/m.pt"), name);
}

TEST(CanonicalName, ResolvesLinksAndSpellingsOfLocalPaths) {
  const std::string folder = ::testing::TempDir() + "/canonical_name_test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder + "/a");
  std::ofstream(folder + "/a/file") << "x";
  std::filesystem::create_directory_symlink("a", folder + "/link");
  const std::string name = CanonicalName(folder + "/a/file");
  EXPECT_EQ(CanonicalName("file://" + folder + "/a/file"), name);
  EXPECT_EQ(CanonicalName(folder + "/a/../a/./file"), name);
  EXPECT_EQ(CanonicalName(folder + "/link/file"), name);
  EXPECT_NE(CanonicalName(folder + "/a/other"), name);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace penstock::io
