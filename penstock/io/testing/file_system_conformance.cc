#include "penstock/io/testing/file_system_conformance.h"

#include <atomic>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include <gmock/gmock.h>

#include "penstock/base/thread_pool.h"
#include "penstock/io/arrow/arrow_file_system.h"
#include "penstock/io/glob.h"
#include "penstock/io/testing/random_bytes.h"
#include "penstock/io/testing/status_assertions.h"
#include "penstock/io/uri.h"

namespace penstock::io {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

constexpr absl::StatusCode kNotFound = absl::StatusCode::kNotFound;
constexpr absl::StatusCode kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr absl::StatusCode kInvalidArgument = absl::StatusCode::kInvalidArgument;

std::vector<std::string> Names(const std::vector<FileInfo>& entries) {
  std::vector<std::string> names;
  for (const FileInfo& entry : entries) names.push_back(Basename(entry.uri));
  return names;
}

}  // namespace

decltype(testing::Values(MakeFileSystem())) ConformanceOf(MakeFileSystem make) {
  return testing::Values(std::move(make));
}

void FileSystemConformance::SetUp() {
  ASSERT_OK_AND_ASSIGN(made_, GetParam()());
  fs_ = made_.fs.get();
}

void FileSystemConformance::TearDown() {
  // nullptr if MakeFileSystem failed.
  if (fs_ != nullptr) (void)fs_->RemoveRecursively(made_.root);
}

std::string FileSystemConformance::At(absl::string_view name) const {
  return JoinPath(made_.root, name);
}

void FileSystemConformance::Put(absl::string_view name, absl::string_view bytes) {
  EXPECT_OK(WriteFile(*fs_, At(name), bytes));
}

TEST_P(FileSystemConformance, RoundTripsContents) {
  // Sizes around the block sizes of readers and writers.
  for (const size_t size : {size_t{1}, size_t{4095}, size_t{256 << 10}, size_t{(256 << 10) + 1},
                            size_t{kUploadBuffer}, size_t{kUploadBuffer} + 3}) {
    SCOPED_TRACE(size);
    const std::string bytes = RandomBytes(size);
    Put("file", bytes);
    ASSERT_OK_AND_ASSIGN(const std::string read, ReadFile(*fs_, At("file")));
    EXPECT_TRUE(read == bytes);
    ASSERT_OK_AND_ASSIGN(const FileInfo info, fs_->Stat(At("file")));
    EXPECT_EQ(info.size, static_cast<int64_t>(size));
  }
}

TEST_P(FileSystemConformance, ConcatenatesAppends) {
  const std::string bytes = RandomBytes(1000003);
  ASSERT_OK_AND_ASSIGN(const auto out, fs_->Create(At("file")));
  EXPECT_EQ(out->full_uri(), At("file"));
  EXPECT_EQ(out->uri(), DisplayName(At("file")));
  size_t step = 1;
  for (size_t at = 0; at < bytes.size(); at += step, step = step * 2 + 1) {
    ASSERT_OK(out->Append(absl::string_view(bytes).substr(at, step)));
    ASSERT_OK(out->Append(""));
  }
  ASSERT_OK(out->Close());
  ASSERT_OK_AND_ASSIGN(const std::string read, ReadFile(*fs_, At("file")));
  EXPECT_TRUE(read == bytes);
}

TEST_P(FileSystemConformance, ReadsRanges) {
  const std::string bytes = RandomBytes(100000);
  Put("file", bytes);
  ASSERT_OK_AND_ASSIGN(const auto file, fs_->OpenRandomAccess(At("file")));
  EXPECT_EQ(file->full_uri(), At("file"));
  EXPECT_EQ(file->size(), 100000);
  struct Range {
    int64_t offset, length, got;
  };
  for (const auto [offset, length, got] : {Range{0, 100000, 100000},
                                           {0, 1, 1},
                                           {99999, 1, 1},
                                           {50000, 0, 0},
                                           {65530, 12, 12},
                                           // At the end of the file and beyond it.
                                           {99990, 100, 10},
                                           {100000, 5, 0},
                                           {100001, 5, 0},
                                           {int64_t{1} << 40, 5, 0}}) {
    SCOPED_TRACE(offset);
    std::string read(length, '\0');
    ASSERT_OK_AND_ASSIGN(const int64_t n, file->Read(offset, absl::MakeSpan(&read[0], length)));
    ASSERT_EQ(n, got);
    EXPECT_TRUE(n == 0 || read.substr(0, n) == bytes.substr(offset, n));
  }
  char c;
  EXPECT_THAT(file->Read(-1, absl::MakeSpan(&c, 1)), IsStatus(kInvalidArgument, "-1"));
}

TEST_P(FileSystemConformance, ReadsRangesConcurrently) {
  const std::string bytes = RandomBytes(1 << 20);
  Put("file", bytes);
  ASSERT_OK_AND_ASSIGN(const auto file, fs_->OpenRandomAccess(At("file")));
  base::ThreadPool pool(4);
  std::atomic<int> wrong = 0;
  base::ParallelFor(pool, 0, 64, [&](int64_t i) {
    const int64_t offset = (i * 7919) % 1000 * 1000;
    std::vector<char> part(20011);
    const auto n = file->Read(offset, absl::MakeSpan(part));
    const int64_t expected = std::min<int64_t>(part.size(), bytes.size() - offset);
    if (!n.ok() || *n != expected || bytes.compare(offset, expected, part.data(), expected) != 0)
      ++wrong;
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(FileSystemConformance, StreamsInPiecesOfAnySize) {
  const std::string bytes = RandomBytes(300000);
  Put("file", bytes);
  ASSERT_OK_AND_ASSIGN(const auto in, fs_->OpenInput(At("file")));
  EXPECT_EQ(in->full_uri(), At("file"));
  std::string read;
  for (const int64_t step : {1, 12, 4096, 100000, 0, 70001, 300000}) {
    std::string part(step, '\0');
    ASSERT_OK_AND_ASSIGN(const int64_t n, in->Read(absl::MakeSpan(&part[0], step)));
    // Short reads occur at the end of the file only.
    EXPECT_EQ(n, std::min<int64_t>(step, bytes.size() - read.size()));
    read.append(part, 0, n);
  }
  EXPECT_TRUE(read == bytes);
  char c;
  ASSERT_OK_AND_ASSIGN(const int64_t beyond, in->Read(absl::MakeSpan(&c, 1)));
  EXPECT_EQ(beyond, 0);
}

TEST_P(FileSystemConformance, SupportsEmptyFiles) {
  Put("empty", "");
  ASSERT_OK_AND_ASSIGN(const FileInfo info, fs_->Stat(At("empty")));
  EXPECT_FALSE(info.is_directory);
  EXPECT_EQ(info.size, 0);
  ASSERT_OK_AND_ASSIGN(const std::string read, ReadFile(*fs_, At("empty")));
  EXPECT_EQ(read, "");
  ASSERT_OK_AND_ASSIGN(const auto file, fs_->OpenRandomAccess(At("empty")));
  EXPECT_EQ(file->size(), 0);
  char c;
  ASSERT_OK_AND_ASSIGN(const int64_t n, file->Read(0, absl::MakeSpan(&c, 1)));
  EXPECT_EQ(n, 0);
}

TEST_P(FileSystemConformance, TreatsNamesLiterally) {
  const std::vector<std::string> names = {
      "sp ace.txt", " leading", "100%.jpg", "%41",        "a#b",      "what?",   "q?width=100",
      "q?&",        "q?a=1&b",  "é水🌊.txt", "[1].png",    "star*",    "a+b&c=d", "it's \"it\"",
      ".hidden",    "a:b@c",    "~tilde",   "{x,y}^|`$;", "back\\sl", "e=mc2"};
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const std::string uri = At(absl::StrCat("odd/", name));
    EXPECT_EQ(Basename(uri), name);
    ASSERT_OK(WriteFile(*fs_, uri, name));
    ASSERT_OK_AND_ASSIGN(const FileInfo info, fs_->Stat(uri));
    EXPECT_EQ(info.uri, uri);
    EXPECT_EQ(info.size, static_cast<int64_t>(name.size()));
  }
  ASSERT_OK_AND_ASSIGN(const auto listed, fs_->List(At("odd")));
  EXPECT_THAT(Names(listed), testing::UnorderedElementsAreArray(names));
  for (const FileInfo& entry : listed) {
    SCOPED_TRACE(entry.uri);
    ASSERT_OK_AND_ASSIGN(const std::string read, ReadFile(*fs_, entry.uri));
    EXPECT_EQ(read, Basename(entry.uri));
    EXPECT_OK(fs_->Remove(entry.uri));
  }
}

TEST_P(FileSystemConformance, OverwritesTheWholeFile) {
  Put("file", "a long text");
  Put("file", "short");
  ASSERT_OK_AND_ASSIGN(const std::string read, ReadFile(*fs_, At("file")));
  EXPECT_EQ(read, "short");
}

TEST_P(FileSystemConformance, PublishesNothingBeforeClose) {
  ASSERT_OK_AND_ASSIGN(const auto out, fs_->Create(At("new/file")));
  ASSERT_OK(out->Append("text"));
  EXPECT_THAT(fs_->Stat(At("new/file")), IsStatus(kNotFound, "new/file"));
  const auto listed = fs_->List(At("new"));
  EXPECT_TRUE(absl::IsNotFound(listed.status()) || (listed.ok() && listed->empty()));
  ASSERT_OK(out->Close());
  EXPECT_OK(fs_->Stat(At("new/file")));
}

TEST_P(FileSystemConformance, DiscardsUnclosedFile) {
  Put("old", "old");
  for (const size_t size : {size_t{10}, size_t{1} << 20, size_t{kUploadBuffer} + 100}) {
    SCOPED_TRACE(size);
    for (const char* name : {"old", "new"}) {
      ASSERT_OK_AND_ASSIGN(const auto out, fs_->Create(At(name)));
      ASSERT_OK(out->Append(RandomBytes(size)));
    }
    ASSERT_OK_AND_ASSIGN(const std::string old, ReadFile(*fs_, At("old")));
    EXPECT_EQ(old, "old");
    EXPECT_THAT(fs_->Stat(At("new")), IsStatus(kNotFound, "new"));
    ASSERT_OK_AND_ASSIGN(const auto listed, fs_->List(made_.root));
    EXPECT_THAT(Names(listed), ElementsAre("old"));
  }
}

TEST_P(FileSystemConformance, RejectsSecondClose) {
  ASSERT_OK_AND_ASSIGN(const auto out, fs_->Create(At("file")));
  ASSERT_OK(out->Close());
  EXPECT_THAT(out->Close(), IsStatus(kFailedPrecondition, "already closed"));
}

TEST_P(FileSystemConformance, WritersOfOneFileDoNotMix) {
  base::ThreadPool pool(4);
  std::atomic<int> failed = 0;
  base::ParallelFor(pool, 0, 16, [&](int64_t i) {
    if (!WriteFile(*fs_, At("file"), std::string(100000, static_cast<char>('a' + i))).ok())
      ++failed;
  });
  EXPECT_EQ(failed, 0);
  ASSERT_OK_AND_ASSIGN(const std::string read, ReadFile(*fs_, At("file")));
  EXPECT_TRUE(read == std::string(100000, read.at(0)));
}

TEST_P(FileSystemConformance, ListsOneLevel) {
  Put("tree/b.txt", "12");
  Put("tree/a/x/deep.txt", "1");
  Put("tree/c/y.txt", "1");
  Put("tree2/other.txt", "1");
  for (const std::string& uri : {At("tree"), At("tree/")}) {
    SCOPED_TRACE(uri);
    ASSERT_OK_AND_ASSIGN(const auto listed, fs_->List(uri));
    ASSERT_THAT(Names(listed), ElementsAre("a", "b.txt", "c"));
    EXPECT_EQ(listed[0].uri, At("tree/a"));
    EXPECT_EQ(listed[1].uri, At("tree/b.txt"));
    EXPECT_TRUE(listed[0].is_directory);
    EXPECT_FALSE(listed[1].is_directory);
    EXPECT_EQ(listed[1].size, 2);
    const double modified = listed[1].modified_unix_seconds;
    EXPECT_TRUE((1.7e9 < modified && modified < 4e9) ||
                (modified == 0 && !made_.has_modification_times));
  }
}

TEST_P(FileSystemConformance, ListsFilesAtAllDepths) {
  Put("tree/b.txt", "12");
  Put("tree/a/x/deep.txt", "1");
  Put("tree/a/x.txt", "1");
  Put("tree2/other.txt", "1");
  ASSERT_OK_AND_ASSIGN(const auto listed, fs_->ListRecursive(At("tree/")));
  std::vector<std::string> uris;
  for (const FileInfo& file : listed) uris.push_back(file.uri);
  EXPECT_THAT(uris, ElementsAre(At("tree/a/x.txt"), At("tree/a/x/deep.txt"), At("tree/b.txt")));
  EXPECT_EQ(listed[2].size, 2);
}

TEST_P(FileSystemConformance, ListsAndRemovesManyFiles) {
  base::ThreadPool pool(8);
  std::atomic<int> failed = 0;
  std::vector<std::string> names(made_.many_files);
  for (int i = 0; i < made_.many_files; ++i) names[i] = absl::StrFormat("%04d", i);
  base::ParallelFor(pool, 0, names.size(), [&](int64_t i) {
    if (!WriteFile(*fs_, At(absl::StrCat("many/", names[i])), "x").ok()) ++failed;
  });
  ASSERT_EQ(failed, 0);
  ASSERT_OK_AND_ASSIGN(const auto listed, fs_->List(At("many")));
  EXPECT_EQ(Names(listed), names);
  ASSERT_OK_AND_ASSIGN(const auto files, fs_->ListRecursive(At("many")));
  EXPECT_EQ(Names(files), names);
  ASSERT_OK(fs_->RemoveRecursively(At("many")));
  EXPECT_THAT(fs_->Stat(At("many")), IsStatus(kNotFound, "many"));
}

TEST_P(FileSystemConformance, ReportsNotFound) {
  Put("there", "x");
  const std::string uri = At("no/such");
  EXPECT_THAT(fs_->OpenRandomAccess(uri), IsStatus(kNotFound, "no/such"));
  EXPECT_THAT(fs_->OpenInput(uri), IsStatus(kNotFound, "no/such"));
  EXPECT_THAT(fs_->Stat(uri), IsStatus(kNotFound, "no/such"));
  EXPECT_THAT(fs_->List(uri), IsStatus(kNotFound, "no/such"));
  EXPECT_THAT(fs_->ListRecursive(uri), IsStatus(kNotFound, "no/such"));
  EXPECT_THAT(fs_->Remove(uri), IsStatus(kNotFound, "no/such"));
  EXPECT_THAT(fs_->RemoveRecursively(uri), IsStatus(kNotFound, "no/such"));
  ASSERT_OK_AND_ASSIGN(const bool exists, fs_->Exists(uri));
  EXPECT_FALSE(exists);
  ASSERT_OK_AND_ASSIGN(const bool there, fs_->Exists(At("there")));
  EXPECT_TRUE(there);
}

TEST_P(FileSystemConformance, RejectsFolderAsFile) {
  Put("folder/file", "x");
  for (const std::string& uri : {At("folder"), At("folder/")}) {
    SCOPED_TRACE(uri);
    EXPECT_THAT(fs_->OpenRandomAccess(uri), IsStatus(kFailedPrecondition, "is a folder"));
    EXPECT_THAT(fs_->OpenInput(uri), IsStatus(kFailedPrecondition, "is a folder"));
    EXPECT_THAT(fs_->Remove(uri), IsStatus(kFailedPrecondition, "is a folder"));
    ASSERT_OK_AND_ASSIGN(const FileInfo info, fs_->Stat(uri));
    EXPECT_TRUE(info.is_directory);
    EXPECT_EQ(info.uri, At("folder"));
  }
  EXPECT_THAT(fs_->Create(At("folder/")), IsStatus(kFailedPrecondition, "is a folder"));
  EXPECT_OK(fs_->Stat(At("folder/file")));
}

TEST_P(FileSystemConformance, RejectsFileAsFolder) {
  Put("file", "x");
  EXPECT_THAT(fs_->List(At("file")), IsStatus(kFailedPrecondition, "file"));
  EXPECT_THAT(fs_->ListRecursive(At("file")), IsStatus(kFailedPrecondition, "file"));
  EXPECT_THAT(fs_->RemoveRecursively(At("file")), IsStatus(kFailedPrecondition, "file"));
  EXPECT_OK(fs_->Stat(At("file")));
}

TEST_P(FileSystemConformance, RemovesOneFile) {
  Put("folder/a", "x");
  Put("folder/ab", "x");
  ASSERT_OK(fs_->Remove(At("folder/a")));
  EXPECT_THAT(fs_->Stat(At("folder/a")), IsStatus(kNotFound, "folder/a"));
  EXPECT_OK(fs_->Stat(At("folder/ab")));
}

TEST_P(FileSystemConformance, RemovesTreeAndNothingElse) {
  for (const char* name : {"tree/a", "tree/b/c/d", "tree2/a", "tre", "tree.txt"}) Put(name, "x");
  ASSERT_OK(fs_->RemoveRecursively(At("tree/")));
  EXPECT_THAT(fs_->Stat(At("tree")), IsStatus(kNotFound, "tree"));
  EXPECT_THAT(fs_->Stat(At("tree/b/c/d")), IsStatus(kNotFound, "tree"));
  ASSERT_OK_AND_ASSIGN(const auto listed, fs_->List(made_.root));
  EXPECT_THAT(Names(listed), ElementsAre("tre", "tree.txt", "tree2"));
}

TEST_P(FileSystemConformance, CreatesFolderIdempotently) {
  ASSERT_OK(fs_->CreateFolder(At("a/b")));
  ASSERT_OK(fs_->CreateFolder(At("a/b/")));
  Put("a/b/file", "x");
  ASSERT_OK(fs_->CreateFolder(At("a/b")));
  ASSERT_OK_AND_ASSIGN(const auto listed, fs_->List(At("a/b")));
  EXPECT_THAT(Names(listed), ElementsAre("file"));
}

TEST_P(FileSystemConformance, RejectsUnsupportedNames) {
  EXPECT_THAT(fs_->Stat("unheard-of://x"), IsStatus(kInvalidArgument, "unheard-of://x"));
  EXPECT_THAT(fs_->Create("unheard-of://x"), IsStatus(kInvalidArgument, "unheard-of://x"));
  EXPECT_THAT(fs_->OpenInput(""), IsStatus(kInvalidArgument, "empty"));
}

TEST_P(FileSystemConformance, ExpandsGlobPatterns) {
  for (const char* name :
       {"train/00-of-02.tfrec", "train/01-of-02.tfrec", "train/notes.txt", "train/.hidden.tfrec",
        "val/00-of-01.tfrec", "img/cat/1.jpg", "img/cat/2.JPG", "img/dog/1.jpg",
        "img/dog/old/1.jpg", "img/.cache/1.jpg", "img/top.jpg", "img/[1].jpg"}) {
    Put(name, "x");
  }
  struct Case {
    const char* pattern;
    std::vector<const char*> found;
  };
  const Case cases[] = {
      {"train/*.tfrec", {"train/00-of-02.tfrec", "train/01-of-02.tfrec"}},
      {"train/?0-of-??.tfrec", {"train/00-of-02.tfrec"}},
      {"train/0[1-9]*", {"train/01-of-02.tfrec"}},
      {"train/[!0]*", {"train/notes.txt"}},
      {"train/.*", {"train/.hidden.tfrec"}},
      {"train/notes.txt", {"train/notes.txt"}},
      {"*/00-*", {"train/00-of-02.tfrec", "val/00-of-01.tfrec"}},
      {"img/*/1.jpg", {"img/cat/1.jpg", "img/dog/1.jpg"}},
      {"img/*/*.[jJ][pP][gG]", {"img/cat/1.jpg", "img/cat/2.JPG", "img/dog/1.jpg"}},
      {"img/**/1.jpg", {"img/cat/1.jpg", "img/dog/1.jpg", "img/dog/old/1.jpg"}},
      {"img/**/*.jpg",
       {"img/[1].jpg", "img/cat/1.jpg", "img/dog/1.jpg", "img/dog/old/1.jpg", "img/top.jpg"}},
      {"img/**/old/**", {"img/dog/old/1.jpg"}},
      {"img/dog/**", {"img/dog/1.jpg", "img/dog/old/1.jpg"}},
      {"img/.cache/*", {"img/.cache/1.jpg"}},
      {"img/[[]1].jpg", {"img/[1].jpg"}},
      {"img/*/", {"img/cat/", "img/dog/"}},
      {"img/**/", {"img/cat/", "img/dog/", "img/dog/old/"}},
      {"*/do*/", {"img/dog/"}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.pattern);
    std::vector<std::string> expected;
    for (const char* name : c.found) expected.push_back(At(name));
    ASSERT_OK_AND_ASSIGN(const std::vector<std::string> found, Glob(*fs_, At(c.pattern)));
    EXPECT_THAT(found, ElementsAreArray(expected));
  }
}

TEST_P(FileSystemConformance, ReportsWhereGlobSearched) {
  Put("train/notes.txt", "x");
  EXPECT_THAT(Glob(*fs_, At("train/*.tfrec")), IsStatus(kNotFound, "1 entry"));
  EXPECT_THAT(Glob(*fs_, At("train/*.tfrec")), IsStatus(kNotFound, "notes.txt"));
  EXPECT_THAT(Glob(*fs_, At("trian/*.tfrec")), IsStatus(kNotFound, "trian"));
  EXPECT_THAT(Glob(*fs_, At("trian/**/*.tfrec")), IsStatus(kNotFound, "trian"));
  EXPECT_THAT(Glob(*fs_, At("train/none.tfrec")), IsStatus(kNotFound, "none.tfrec"));
  EXPECT_THAT(Glob(*fs_, At("train")), IsStatus(kFailedPrecondition, "train/*"));
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FileSystemConformance);

}  // namespace penstock::io
