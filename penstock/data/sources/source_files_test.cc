#include "penstock/data/sources/source_files.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/status.h"
#include "penstock/io/file_system.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/io/testing/status_assertions.h"

namespace penstock::data {
namespace source_files_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Files of memory://d that exist.
ResolveContext Files(const std::vector<std::string>& names) {
  auto files = io::MakeMemoryFileSystem();
  for (const std::string& name : names) {
    PENSTOCK_CHECK_OK(io::WriteFile(*files, "memory://d/" + name, "x"));
  }
  return {.file_system = std::move(files)};
}

TEST(SourceFiles, ResolvesPatternsOnceForEachIterator) {
  const ResolveContext context = Files({"b.txt", "a.txt"});
  const SourceFiles described({"memory://d/*.txt"});
  const auto found = described.Resolve(context);
  ASSERT_OK(found);
  EXPECT_THAT(found->names(), ElementsAre("memory://d/a.txt", "memory://d/b.txt"));
  EXPECT_EQ(found->ResolvedSources(), "memory://d/a.txt\nmemory://d/b.txt");

  ASSERT_OK(io::WriteFile(*context.file_system, "memory://d/c.txt", "x"));
  EXPECT_EQ(found->names().size(), 2u);
  EXPECT_EQ(described.Resolve(context)->names().size(), 3u);
  EXPECT_THAT(described.names(), ElementsAre("memory://d/*.txt"));
}

TEST(SourceFiles, LeavesOutIndicesOnlyBesideTfRecords) {
  const ResolveContext context = Files({"a.tfrec", "a.tfrec.index"});
  using Content = SourceFiles::Content;
  EXPECT_EQ(SourceFiles({"memory://d/*"}, Content::kAny).Resolve(context)->names().size(), 2u);
  EXPECT_THAT(SourceFiles({"memory://d/*"}, Content::kTfRecords).Resolve(context)->names(),
              ElementsAre("memory://d/a.tfrec"));
}

// The fingerprint of a cache that older versions have written must stay valid.
TEST(SourceFiles, FingerprintIsOfTheFilesThatMatchNow) {
  const ResolveContext context = Files({"a.txt"});
  const SourceFiles described({"memory://d/*.txt"});
  const auto one = described.Fingerprint(context);
  ASSERT_OK(one);
  EXPECT_EQ(*one, *FilesFingerprint(context, {"memory://d/a.txt"}));
  EXPECT_THAT(*one, HasSubstr("1 files, "));
  ASSERT_OK(io::WriteFile(*context.file_system, "memory://d/b.txt", "x"));
  EXPECT_NE(*described.Fingerprint(context), *one);
}

TEST(SourceFiles, ExactFingerprintHasTheVersionsOfRemoteFiles) {
  ResolveContext context = Files({"a.txt", "b.txt"});
  const SourceFiles described({"memory://d/*.txt"});
  const auto change = [&] {
    const std::string before = *described.Fingerprint(context);
    EXPECT_OK(io::WriteFile(*context.file_system, "memory://d/b.txt", "of another size"));
    const bool changed = *described.Fingerprint(context) != before;
    EXPECT_OK(io::WriteFile(*context.file_system, "memory://d/b.txt", "x"));
    return changed;
  };
  EXPECT_FALSE(change()) << "caches of a remote data set stay valid";
  context.exact = true;
  EXPECT_TRUE(change());
}

TEST(SourceFiles, NamesWhatIsMissing) {
  EXPECT_EQ(SourceFiles({}).CheckNotEmpty().message(), "the list of files is empty");
  EXPECT_OK(SourceFiles({"memory://d/*"}).CheckNotEmpty());
  const auto none = SourceFiles({"memory://d/*.png"}).Resolve(Files({"a.txt"}));
  EXPECT_TRUE(absl::IsNotFound(none.status())) << none.status();
}

}  // namespace source_files_test
}  // namespace penstock::data
