#include "penstock/io/local_file_system.h"

#include <csignal>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/base/random.h"
#include "penstock/io/glob.h"
#include "penstock/io/testing/file_system_conformance.h"
#include "penstock/io/testing/status_assertions.h"
#include "penstock/io/uri.h"

namespace penstock::io {
namespace local_file_system_test {

using testing::ElementsAre;
using testing::IsEmpty;
namespace stdfs = std::filesystem;

std::string NewFolder() {
  const std::string folder =
      JoinPath(testing::TempDir(), absl::StrCat("penstock-io-", absl::Hex(base::EntropySeed())));
  stdfs::create_directory(folder);
  return folder;
}

INSTANTIATE_TEST_SUITE_P(Paths, FileSystemConformance,
                         ConformanceOf([]() -> absl::StatusOr<FileSystemUnderTest> {
                           return FileSystemUnderTest{MakeLocalFileSystem(), NewFolder()};
                         }));
INSTANTIATE_TEST_SUITE_P(
    FileUris, FileSystemConformance, ConformanceOf([]() -> absl::StatusOr<FileSystemUnderTest> {
      return FileSystemUnderTest{MakeLocalFileSystem(), absl::StrCat("file://", NewFolder())};
    }));

class LocalFileSystem : public testing::Test {
 protected:
  ~LocalFileSystem() override { stdfs::remove_all(root_); }

  std::string At(absl::string_view name) const { return JoinPath(root_, name); }
  void Put(absl::string_view name, absl::string_view bytes) {
    EXPECT_OK(WriteFile(*fs_, At(name), bytes));
  }
  std::string Read(absl::string_view name) {
    const auto bytes = ReadFile(*fs_, At(name));
    EXPECT_OK(bytes);
    return bytes.value_or("");
  }
  // Of everything in the root, also what List leaves out.
  std::vector<std::string> RawNames() {
    std::vector<std::string> names;
    for (const auto& entry : stdfs::directory_iterator(root_)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  const std::shared_ptr<FileSystem> fs_ = MakeLocalFileSystem();
  const std::string root_ = NewFolder();
};

TEST_F(LocalFileSystem, LeavesTheOldFileWholeWhenTheWriterIsKilled) {
  Put("file", "old");
  for (int i = 0; i < 8; ++i) {
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      auto out = fs_->Create(At("file"));
      const std::string bytes(300000, 'n');
      for (int64_t n = 0; out.ok() && (*out)->Append(bytes).ok(); ++n) {
        // The parent kills somewhere behind the i-th piece.
        if (n == i && ::write(ready[1], "x", 1) != 1) break;
      }
      ::_exit(1);
    }
    char c;
    ASSERT_EQ(::read(ready[0], &c, 1), 1);
    ::kill(child, SIGKILL);
    int how = 0;
    ASSERT_EQ(::waitpid(child, &how, 0), child);
    ASSERT_TRUE(WIFSIGNALED(how));
    ::close(ready[0]);
    ::close(ready[1]);
    EXPECT_EQ(Read("file"), "old");
    ASSERT_OK_AND_ASSIGN(const auto listed, fs_->List(root_));
    ASSERT_EQ(listed.size(), 1u);
    EXPECT_EQ(listed[0].uri, At("file"));
  }
  Put("file", "new");
  EXPECT_EQ(Read("file"), "new");
}

TEST_F(LocalFileSystem, LeavesTheOldOrTheNewFileWhenKilledWhilePublishing) {
  const std::string files[2] = {std::string(70000, 'a'), std::string(90000, 'b')};
  Put("file", files[0]);
  for (int i = 0; i < 20; ++i) {
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      for (int n = 1;; ++n) {
        if (!WriteFile(*fs_, At("file"), files[n % 2]).ok()) ::_exit(1);
        if (n == 1 + i % 3 && ::write(ready[1], "x", 1) != 1) ::_exit(1);
      }
    }
    char c;
    ASSERT_EQ(::read(ready[0], &c, 1), 1);
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    ::close(ready[0]);
    ::close(ready[1]);
    const std::string read = Read("file");
    EXPECT_TRUE(read == files[0] || read == files[1]) << read.size();
  }
}

TEST_F(LocalFileSystem, LeavesNothingBehindWhenDiscarded) {
  {
    ASSERT_OK_AND_ASSIGN(const auto out, fs_->Create(At("file")));
    ASSERT_OK(out->Append(std::string(1 << 20, 'x')));
    EXPECT_EQ(RawNames().size(), 1u);
  }
  EXPECT_THAT(RawNames(), IsEmpty());
}

TEST_F(LocalFileSystem, SaysThatTheDiskIsFull) {
  // The kernel's device that is always full.
  ASSERT_OK_AND_ASSIGN(const auto out, fs_->Create("/dev/full"));
  absl::Status status = out->Append("x");
  if (status.ok()) status = out->Close();
  EXPECT_THAT(status, IsStatus(absl::StatusCode::kResourceExhausted, "/dev/full"));
}

TEST_F(LocalFileSystem, DoesNotPublishAfterAFailedWrite) {
  Put("file", "old");
  // A file may not grow beyond this limit; the signal that comes with it would end the program.
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100000, 100000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    auto out = fs_->Create(At("file"));
    const absl::Status append = (*out)->Append(std::string(1 << 20, 'x'));
    const absl::Status close = (*out)->Close();
    ::_exit(absl::IsResourceExhausted(append) && absl::IsResourceExhausted(close) ? 0 : 1);
  }
  int how = 0;
  ASSERT_EQ(::waitpid(child, &how, 0), child);
  EXPECT_EQ(how, 0);
  EXPECT_EQ(Read("file"), "old");
}

TEST_F(LocalFileSystem, SaysThatThereIsNoRight) {
  if (::geteuid() == 0) {
    // Root may do everything but write to what the kernel gives read-only.
    EXPECT_FALSE(WriteFile(*fs_, "/proc/penstock/file", "x").ok());
    return;
  }
  stdfs::permissions(root_, stdfs::perms::owner_read | stdfs::perms::owner_exec);
  EXPECT_THAT(WriteFile(*fs_, At("file"), "x"),
              IsStatus(absl::StatusCode::kPermissionDenied, At("file")));
  stdfs::permissions(root_, stdfs::perms::owner_all);
}

TEST_F(LocalFileSystem, WritesDevicesAsTheyAre) {
  ASSERT_OK(WriteFile(*fs_, "/dev/null", "x"));
  EXPECT_TRUE(stdfs::is_character_file("/dev/null"));
}

TEST_F(LocalFileSystem, ReadsFilesWhoseSizeTheKernelDoesNotTell) {
  ASSERT_OK_AND_ASSIGN(const std::string bytes, ReadFile(*fs_, "/proc/self/status"));
  EXPECT_THAT(bytes, testing::HasSubstr("Pid:"));
}

TEST_F(LocalFileSystem, KeepsPermissionBitsOfTheFileItReplaces) {
  Put("file", "x");
  stdfs::permissions(At("file"), stdfs::perms(0640));
  Put("file", "y");
  EXPECT_EQ(stdfs::status(At("file")).permissions(), stdfs::perms(0640));
}

TEST_F(LocalFileSystem, KeepsAnOpenFileWhenItIsReplaced) {
  Put("file", "old");
  ASSERT_OK_AND_ASSIGN(const auto file, fs_->OpenRandomAccess(At("file")));
  Put("file", "new");
  std::string read(3, '\0');
  ASSERT_OK(file->Read(0, absl::MakeSpan(&read[0], 3)));
  EXPECT_EQ(read, "old");
}

TEST_F(LocalFileSystem, ReplacesWhatALinkPointsTo) {
  Put("real", "old");
  stdfs::create_symlink("real", At("link"));
  Put("link", "new");
  EXPECT_TRUE(stdfs::is_symlink(At("link")));
  EXPECT_EQ(Read("real"), "new");
}

TEST_F(LocalFileSystem, FollowsLinksToFoldersButNotInCircles) {
  Put("real/file", "x");
  stdfs::create_directory_symlink(At("real"), At("link"));
  stdfs::create_directory_symlink(root_, At("real/up"));
  ASSERT_OK_AND_ASSIGN(const auto found, Glob(*fs_, At("**/file")));
  EXPECT_THAT(found, ElementsAre(At("link/file"), At("real/file")));
  ASSERT_OK_AND_ASSIGN(const auto one, Glob(*fs_, At("*/file")));
  EXPECT_THAT(one, ElementsAre(At("link/file"), At("real/file")));
}

TEST_F(LocalFileSystem, ListsALinkThatPointsNowhereAndCannotOpenIt) {
  stdfs::create_symlink("nowhere", At("link"));
  ASSERT_OK_AND_ASSIGN(const auto listed, fs_->List(root_));
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_FALSE(listed[0].is_directory);
  EXPECT_THAT(fs_->OpenInput(listed[0].uri), IsStatus(absl::StatusCode::kNotFound, "link"));
  ASSERT_OK(fs_->Remove(At("link")));
  EXPECT_THAT(RawNames(), IsEmpty());
}

TEST_F(LocalFileSystem, RemovesLinksAndNotWhatTheyPointTo) {
  Put("real/file", "x");
  Put("tree/file", "x");
  stdfs::create_directory_symlink(At("real"), At("tree/link"));
  stdfs::create_directory_symlink(At("real"), At("link"));
  ASSERT_OK(fs_->RemoveRecursively(At("tree")));
  ASSERT_OK(fs_->RemoveRecursively(At("link/")));
  EXPECT_THAT(RawNames(), ElementsAre("real"));
  EXPECT_EQ(Read("real/file"), "x");
  EXPECT_THAT(fs_->RemoveRecursively("/"), IsStatus(absl::StatusCode::kInvalidArgument, "refused"));
}

TEST_F(LocalFileSystem, HasEmptyFolders) {
  ASSERT_OK(fs_->CreateFolder(At("a/b")));
  ASSERT_OK_AND_ASSIGN(const auto listed, fs_->List(At("a/b")));
  EXPECT_THAT(listed, IsEmpty());
  EXPECT_THAT(Glob(*fs_, At("a/b/*")), IsStatus(absl::StatusCode::kNotFound, "is empty"));
}

TEST_F(LocalFileSystem, SaysWhichStepIsAFile) {
  Put("file", "x");
  EXPECT_THAT(WriteFile(*fs_, At("file/x"), "x"),
              IsStatus(absl::StatusCode::kFailedPrecondition, "file/x"));
  EXPECT_THAT(fs_->OpenInput(At("file/x")),
              IsStatus(absl::StatusCode::kFailedPrecondition, "is a file"));
}

TEST_F(LocalFileSystem, FindsRelativeNames) {
  Put("train/a.tfrec", "x");
  const std::string before = stdfs::current_path().string();
  stdfs::current_path(root_);
  const auto deep = Glob(*fs_, "**/*.tfrec");
  const auto flat = Glob(*fs_, "*/*.tfrec");
  const auto named = Glob(*fs_, "train/*");
  const auto dotted = Glob(*fs_, "./*/a*");
  stdfs::current_path(before);
  EXPECT_EQ(deep.value(), std::vector<std::string>{"train/a.tfrec"});
  EXPECT_EQ(flat.value(), std::vector<std::string>{"train/a.tfrec"});
  EXPECT_EQ(named.value(), std::vector<std::string>{"train/a.tfrec"});
  EXPECT_EQ(dotted.value(), std::vector<std::string>{"./train/a.tfrec"});
}

}  // namespace local_file_system_test
}  // namespace penstock::io
