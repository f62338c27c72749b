#include "penstock/runtime/cache/cache_key.h"

#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>

#include "penstock/runtime/cache/compile_cache.h"
#include "penstock/runtime/testing/cache_folder.h"

namespace penstock::runtime {
namespace cache_key_test {

using testing::HasSubstr;
using testing::Not;

// Test vector "abc" of FIPS 180-4.
TEST(CacheKey, UsesSha256) {
  EXPECT_EQ(Sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(CacheKey, DependsOnBoundariesOfParts) {
  EXPECT_NE(CacheKey({"ab", "c"}), CacheKey({"a", "bc"}));
  EXPECT_NE(CacheKey({"a", ""}), CacheKey({"a"}));
  EXPECT_NE(CacheKey({"1:a"}), CacheKey({"", "a"}));
  EXPECT_EQ(CacheKey({"a", "b"}), CacheKey({"a", "b"}));
}

class HashedFile : public testing::Test {
 protected:
  void SetUp() override { Write("contents"); }
  void Write(const char* text) { std::ofstream(path_, std::ios::trunc) << text; }

  const CacheFolder folder_;
  const std::string path_ = folder_.path() + "/plugin.so";
  const std::unique_ptr<CompileCache> cache_ =
      *CompileCache::Open({.folder = folder_.path() + "/cache"});
};

TEST_F(HashedFile, IsReadOnceForItsIdentity) {
  const std::string identity = FileIdentity(path_);
  EXPECT_EQ(*HashFile(path_, identity, *cache_), Sha256("contents"));
  // A second read would detect the change.
  Write("something else");
  EXPECT_EQ(*HashFile(path_, identity, *cache_), Sha256("contents"));
  EXPECT_EQ(*HashFile(path_, FileIdentity(path_), *cache_), Sha256("something else"));
}

TEST_F(HashedFile, IdentityChangesWhenTimesAreReset) {
  const std::string identity = FileIdentity(path_);
  const auto time = std::filesystem::last_write_time(path_);
  const std::string copy = path_ + ".new";
  std::ofstream(copy) << "CONTENTS";  // the same length
  std::filesystem::rename(copy, path_);
  std::filesystem::last_write_time(path_, time);
  EXPECT_NE(FileIdentity(path_), identity);
}

TEST_F(HashedFile, RejectsFileThatChangedAfterLoading) {
  const std::string loaded = FileIdentity(path_);
  Write("a new version");
  EXPECT_THAT(std::string(HashFile(path_, loaded, *cache_).status().message()),
              HasSubstr("changed after it was loaded"));
  EXPECT_FALSE(HashFile(path_ + ".gone", loaded, *cache_).ok());
}

TEST_F(HashedFile, DoesNotTrustCorruptHash) {
  const std::string identity = FileIdentity(path_);
  cache_->Store(CacheKey({"hash of a file", path_, identity}), "short");
  EXPECT_EQ(*HashFile(path_, identity, *cache_), Sha256("contents"));
}

TEST(ProcessorFeatures, AreThoseOfFirstProcessorWithoutClock) {
  const CacheFolder folder;
  const std::string path = folder.path() + "/cpuinfo";
  std::ofstream(path) << "processor\t: 0\nmodel name\t: One\ncpu MHz\t\t: 2000.1\n"
                         "flags\t\t: sse avx512f\n\nprocessor\t: 1\nmodel name\t: Two\n";
  const std::string features = *ProcessorFeatures(path);
  EXPECT_THAT(features, HasSubstr("avx512f"));
  EXPECT_THAT(features, HasSubstr("One"));
  EXPECT_THAT(features, Not(HasSubstr("Two")));
  EXPECT_THAT(features, Not(HasSubstr("2000.1")));
  EXPECT_FALSE(ProcessorFeatures(folder.path() + "/none").ok());
  EXPECT_TRUE(ProcessorFeatures().ok());
}

TEST(EnvironmentFlags, IncludesFlagsOfFile) {
  const CacheFolder folder;
  const std::string path = folder.path() + "/flags";
  std::ofstream(path) << "--in_a_file";
  const char* old = std::getenv("XLA_FLAGS");
  const std::string saved = old == nullptr ? "" : old;
  ::setenv("XLA_FLAGS", "--in_the_variable", 1);
  EXPECT_THAT(EnvironmentFlags(), HasSubstr("--in_the_variable"));
  ::setenv("XLA_FLAGS", path.c_str(), 1);
  EXPECT_THAT(EnvironmentFlags(), HasSubstr("--in_a_file"));
  old == nullptr ? ::unsetenv("XLA_FLAGS") : ::setenv("XLA_FLAGS", saved.c_str(), 1);
}

}  // namespace cache_key_test
}  // namespace penstock::runtime
