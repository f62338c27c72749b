#include "penstock/io/local/local_file_system.h"

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/base/random.h"
#include "penstock/io/glob.h"
#include "penstock/io/local/file_descriptor.h"
#include "penstock/io/local/mapped_file.h"
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
  // All entries of the root folder, including those that List omits.
  std::vector<std::string> RawNames() {
    std::vector<std::string> names;
    for (const auto& entry : stdfs::directory_iterator(root_)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  std::vector<std::string> AllFilesBelow(const std::string& folder) {
    const std::vector<FileInfo> files = fs_->ListRecursive(folder).value();
    std::vector<std::string> uris;
    for (const FileInfo& file : files) uris.push_back(file.uri);
    return uris;
  }

  const std::shared_ptr<FileSystem> fs_ = MakeLocalFileSystem();
  const std::string root_ = NewFolder();
};

TEST_F(LocalFileSystem, KeepsOldFileWhenWriterIsKilled) {
  Put("file", "old");
  for (int i = 0; i < 8; ++i) {
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      auto out = fs_->Create(At("file"));
      const std::string bytes(300000, 'n');
      for (int64_t n = 0; out.ok() && (*out)->Append(bytes).ok(); ++n) {
        // The parent kills the child some time after the i-th write.
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

TEST_F(LocalFileSystem, LeavesOldOrNewFileWhenKilledWhilePublishing) {
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

TEST_F(LocalFileSystem, ReportsFullDisk) {
  // A device file whose writes always fail with ENOSPC.
  ASSERT_OK_AND_ASSIGN(const auto out, fs_->Create("/dev/full"));
  absl::Status status = out->Append("x");
  if (status.ok()) status = out->Close();
  EXPECT_THAT(status, IsStatus(absl::StatusCode::kResourceExhausted, "/dev/full"));
}

TEST_F(LocalFileSystem, DoesNotPublishAfterFailedWrite) {
  Put("file", "old");
  // Limits the file size. SIGXFSZ, sent when the limit is exceeded, would end the process.
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

TEST_F(LocalFileSystem, ReportsPermissionDenied) {
  if (::geteuid() == 0) {
    // Root bypasses permissions, but cannot create files in /proc.
    EXPECT_FALSE(WriteFile(*fs_, "/proc/penstock/file", "x").ok());
    return;
  }
  stdfs::permissions(root_, stdfs::perms::owner_read | stdfs::perms::owner_exec);
  EXPECT_THAT(WriteFile(*fs_, At("file"), "x"),
              IsStatus(absl::StatusCode::kPermissionDenied, At("file")));
  stdfs::permissions(root_, stdfs::perms::owner_all);
}

TEST_F(LocalFileSystem, WritesToDevicesDirectly) {
  ASSERT_OK(WriteFile(*fs_, "/dev/null", "x"));
  EXPECT_TRUE(stdfs::is_character_file("/dev/null"));
}

TEST_F(LocalFileSystem, ReadsFilesOfUnknownSize) {
  ASSERT_OK_AND_ASSIGN(const std::string bytes, ReadFile(*fs_, "/proc/self/status"));
  EXPECT_THAT(bytes, testing::HasSubstr("Pid:"));
}

TEST_F(LocalFileSystem, KeepsPermissionBitsOfReplacedFile) {
  Put("file", "x");
  stdfs::permissions(At("file"), stdfs::perms(0640));
  Put("file", "y");
  EXPECT_EQ(stdfs::status(At("file")).permissions(), stdfs::perms(0640));
}

TEST_F(LocalFileSystem, OpenFileSurvivesReplacement) {
  Put("file", "old");
  ASSERT_OK_AND_ASSIGN(const auto file, fs_->OpenRandomAccess(At("file")));
  Put("file", "new");
  std::string read(3, '\0');
  ASSERT_OK(file->Read(0, absl::MakeSpan(&read[0], 3)));
  EXPECT_EQ(read, "old");
}

TEST_F(LocalFileSystem, ReplacesTargetOfLink) {
  Put("real", "old");
  stdfs::create_symlink("real", At("link"));
  Put("link", "new");
  EXPECT_TRUE(stdfs::is_symlink(At("link")));
  EXPECT_EQ(Read("real"), "new");
}

TEST_F(LocalFileSystem, CreatesTargetOfLinkButNoFolderForUnmountedDisk) {
  stdfs::create_directory(At("folder"));
  stdfs::create_symlink("folder/new", At("link"));
  stdfs::create_symlink("link", At("twice"));
  Put("twice", "x");
  EXPECT_EQ(Read("folder/new"), "x");
  EXPECT_TRUE(stdfs::is_symlink(At("link")) && stdfs::is_symlink(At("twice")));
  stdfs::create_symlink("mount/new", At("away"));
  EXPECT_THAT(WriteFile(*fs_, At("away"), "x"),
              IsStatus(absl::StatusCode::kFailedPrecondition, "/away' is dangling"));
  EXPECT_TRUE(stdfs::is_symlink(At("away")));
  stdfs::create_symlink("circle", At("circle"));
  EXPECT_THAT(WriteFile(*fs_, At("circle"), "x"),
              IsStatus(absl::StatusCode::kInvalidArgument, "point at each other"));
}

TEST_F(LocalFileSystem, FollowsLinksWithoutCycles) {
  Put("real/file", "x");
  stdfs::create_directory_symlink(At("real"), At("link"));
  stdfs::create_directory_symlink(root_, At("real/up"));
  // "**" finds each folder once, under its real path; a pattern that names a link finds it under
  // the link.
  EXPECT_THAT(Glob(*fs_, At("**/file")).value(), ElementsAre(At("real/file")));
  EXPECT_THAT(Glob(*fs_, At("**/real/file")).value(), ElementsAre(At("real/file")));
  EXPECT_THAT(Glob(*fs_, At("**/link/file")).value(), ElementsAre(At("link/file")));
  EXPECT_THAT(Glob(*fs_, At("link/**")).value(), ElementsAre(At("link/file")));
  EXPECT_THAT(Glob(*fs_, At("*/file")).value(), ElementsAre(At("link/file"), At("real/file")));
  EXPECT_THAT(Glob(*fs_, At("**/")).value(), ElementsAre(At("real/")));
}

TEST_F(LocalFileSystem, ListsEachFileOnceWithCyclicLinks) {
  constexpr int kFolders = 8;
  std::vector<std::string> files;
  for (int i = 0; i < kFolders; ++i) {
    Put(absl::StrCat(i, "/file"), "x");
    files.push_back(At(absl::StrCat(i, "/file")));
    for (int k = 0; k < kFolders; ++k) {
      stdfs::create_directory_symlink(At(absl::StrCat(k)), At(absl::StrCat(i, "/to", k)));
    }
  }
  EXPECT_THAT(Glob(*fs_, At("**/file")).value(), testing::ElementsAreArray(files));
  EXPECT_THAT(Glob(*fs_, At("**/*/file")).value(), testing::ElementsAreArray(files));
  EXPECT_THAT(Glob(*fs_, At("**")).value(), testing::ElementsAreArray(files));
  EXPECT_THAT(AllFilesBelow(root_), testing::ElementsAreArray(files));
}

TEST_F(LocalFileSystem, ListsLinkedFoldersOutsideTree) {
  // Links to classes in another folder are a common way to build subsets of a dataset.
  Put("all/cat/1.jpg", "x");
  Put("all/dog/1.jpg", "x");
  Put("all/.hidden/1.jpg", "x");
  Put("subset/bird/1.jpg", "x");
  stdfs::create_directory_symlink(At("all/dog"), At("subset/dog"));
  stdfs::create_directory_symlink(At("all/dog"), At("subset/hound"));  // the first name wins
  stdfs::create_directory_symlink(At("all/.hidden"), At("subset/shown"));
  const auto expected =
      ElementsAre(At("subset/bird/1.jpg"), At("subset/dog/1.jpg"), At("subset/shown/1.jpg"));
  EXPECT_THAT(Glob(*fs_, At("subset/**/*.jpg")).value(), expected);
  EXPECT_THAT(AllFilesBelow(At("subset")), expected);
  // A hidden folder, which "**" does not enter, is found under the name of a visible link.
  EXPECT_THAT(Glob(*fs_, At("**/1.jpg")).value(),
              ElementsAre(At("all/cat/1.jpg"), At("all/dog/1.jpg"), At("subset/bird/1.jpg"),
                          At("subset/shown/1.jpg")));
}

TEST_F(LocalFileSystem, ReportsLinksAndTheIdentityOfFolders) {
  Put("real/file", "x");
  stdfs::create_directory_symlink("real", At("link"));
  const auto listed = fs_->List(root_).value();
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_TRUE(listed[0].is_link && listed[0].is_directory);
  EXPECT_FALSE(listed[1].is_link);
  EXPECT_EQ(listed[0].inode, listed[1].inode);
  EXPECT_NE(listed[0].inode, 0u);
}

TEST_F(LocalFileSystem, ReportsTruncationWhileReading) {
  const std::string bytes(1 << 20, 'x');
  for (const int64_t left : {0, 1, 4096, (1 << 20) - 1}) {
    SCOPED_TRACE(left);
    Put("file", bytes);
    ASSERT_OK_AND_ASSIGN(const auto stream, fs_->OpenInput(At("file")));
    ASSERT_OK_AND_ASSIGN(const auto file, fs_->OpenRandomAccess(At("file")));
    stdfs::resize_file(At("file"), left);
    EXPECT_THAT(ReadAll(*stream), IsStatus(absl::StatusCode::kAborted, "was truncated"));
    std::string read(bytes.size(), '\0');
    EXPECT_THAT(file->Read(0, absl::MakeSpan(&read[0], read.size())),
                IsStatus(absl::StatusCode::kAborted, absl::StrCat("ends at byte ", left)));
    EXPECT_THAT(file->Read(bytes.size() - 1, absl::MakeSpan(&read[0], 1)),
                IsStatus(absl::StatusCode::kAborted, At("file")));
    // The remaining bytes can be read; reads beyond the old end return no bytes, as usual.
    ASSERT_OK_AND_ASSIGN(const int64_t n, file->Read(0, absl::MakeSpan(&read[0], left)));
    EXPECT_EQ(n, left);
    ASSERT_OK_AND_ASSIGN(const int64_t beyond,
                         file->Read(bytes.size(), absl::MakeSpan(&read[0], 1)));
    EXPECT_EQ(beyond, 0);
  }
}

TEST_F(LocalFileSystem, ReadsGrowingFile) {
  Put("file", "abc");
  ASSERT_OK_AND_ASSIGN(const auto stream, fs_->OpenInput(At("file")));
  std::ofstream(At("file"), std::ios::app) << "def";
  EXPECT_EQ(ReadAll(*stream).value(), "abcdef");
}

TEST_F(LocalFileSystem, ReadsKernelFilesThatAreShorterThanTheirSize) {
  // st_size is 4096, but a read returns a few bytes.
  const std::string file = "/sys/kernel/mm/transparent_hugepage/enabled";
  if (!stdfs::exists(file)) GTEST_SKIP() << "this kernel has no " << file;
  ASSERT_OK_AND_ASSIGN(const std::string text, ReadFile(*fs_, file));
  EXPECT_THAT(text, testing::HasSubstr("never"));
  ASSERT_OK_AND_ASSIGN(const auto opened, fs_->OpenRandomAccess(file));
  std::string bytes(100, '\0');
  ASSERT_OK_AND_ASSIGN(const int64_t n, opened->Read(0, absl::MakeSpan(&bytes[0], 100)));
  EXPECT_EQ(bytes.substr(0, n), text);
}

TEST_F(LocalFileSystem, RejectsSpecialFilesWithoutBlocking) {
  ASSERT_EQ(::mkfifo(At("pipe").c_str(), 0600), 0);
  const FileDescriptor listening(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const std::string before = stdfs::current_path().string();
  stdfs::current_path(root_);  // a relative path, because sun_path is short
  std::strcpy(address.sun_path, "socket");
  const int bound =
      ::bind(listening.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  stdfs::current_path(before);
  ASSERT_EQ(bound, 0);
  struct Case {
    std::string uri;
    const char* type;
  };
  for (const Case& c : {Case{At("pipe"), "a pipe (FIFO)"},
                        {At("socket"), "a socket"},
                        {"/dev/zero", "a character device"},
                        {"/dev/urandom", "a character device"},
                        {"/dev/full", "a character device"}}) {
    SCOPED_TRACE(c.uri);
    const auto expected = IsStatus(absl::StatusCode::kFailedPrecondition, c.type);
    EXPECT_THAT(fs_->OpenRandomAccess(c.uri), expected);
    EXPECT_THAT(fs_->OpenInput(c.uri), expected);
    EXPECT_THAT(MappedFile::Open(c.uri).status(), expected);
    // Creating would block, because no process reads the pipe.
    if (!absl::StartsWith(c.uri, "/dev")) {
      EXPECT_THAT(fs_->Create(c.uri), expected);
    }
  }
  EXPECT_EQ(ReadFile(*fs_, "/dev/null").value(), "");
}

TEST_F(LocalFileSystem, ReadsPipeWithWriter) {
  const std::string bytes(300'000, 'y');  // exceeds a pipe's capacity
  ASSERT_EQ(::mkfifo(At("pipe").c_str(), 0600), 0);
  // Opening the pipe for reading and writing does not block. The child inherits this descriptor, so
  // the pipe always has both a reader and a writer.
  FileDescriptor to(::open(At("pipe").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(to.valid());
  const pid_t child = ::fork();
  if (child == 0) {
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t n = ::write(to.get(), bytes.data() + done, bytes.size() - done);
      if (n <= 0) ::_exit(1);
      done += n;
    }
    ::_exit(0);
  }
  to = FileDescriptor();
  absl::StatusOr<std::unique_ptr<InputStream>> in = fs_->OpenInput(At("pipe"));
  ASSERT_OK(in);
  EXPECT_EQ(ReadAll(**in).value(), bytes);
  int how = 0;
  ASSERT_EQ(::waitpid(child, &how, 0), child);
  EXPECT_EQ(how, 0);
}

TEST_F(LocalFileSystem, ReadsShellPipes) {
  // `<(command)` and /dev/stdin name an open pipe, whose writer may already have exited.
  for (const std::string& text : {std::string("text"), std::string()}) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    ASSERT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    ::close(ends[1]);
    EXPECT_EQ(ReadFile(*fs_, absl::StrCat("/dev/fd/", ends[0])).value(), text);
    ::close(ends[0]);
  }
}

TEST_F(LocalFileSystem, DistinguishesUnmountedDiskFromMissingFile) {
  stdfs::create_symlink(At("mount/data"), At("disk"));
  const auto expected = IsStatus(absl::StatusCode::kFailedPrecondition, "/disk' is dangling");
  EXPECT_THAT(fs_->OpenInput(At("disk/x")), expected);
  EXPECT_THAT(fs_->OpenRandomAccess(At("disk/x")), expected);
  EXPECT_THAT(fs_->Stat(At("disk")), expected);
  EXPECT_THAT(fs_->Exists(At("disk/x")), expected);
  EXPECT_THAT(fs_->List(At("disk")), expected);
  EXPECT_THAT(fs_->ListRecursive(At("disk/x")), expected);
  EXPECT_THAT(Glob(*fs_, At("disk/*")), expected);
  EXPECT_THAT(fs_->Remove(At("disk/x")), expected);
  EXPECT_THAT(fs_->CreateFolder(At("disk")), expected);
  EXPECT_THAT(WriteFile(*fs_, At("disk/x"), "x"), expected);
  EXPECT_THAT(MappedFile::Open(At("disk/x")).status(), expected);
  EXPECT_FALSE(stdfs::exists(At("mount")));
}

TEST_F(LocalFileSystem, ListsDanglingLinkAndCannotOpenIt) {
  stdfs::create_symlink("nowhere", At("link"));
  ASSERT_OK_AND_ASSIGN(const auto listed, fs_->List(root_));
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_FALSE(listed[0].is_directory);
  EXPECT_THAT(fs_->OpenInput(listed[0].uri),
              IsStatus(absl::StatusCode::kFailedPrecondition, "link"));
  ASSERT_OK(fs_->Remove(At("link")));
  EXPECT_THAT(RawNames(), IsEmpty());
}

TEST_F(LocalFileSystem, RemovesLinksNotTargets) {
  Put("real/file", "x");
  Put("tree/file", "x");
  stdfs::create_directory_symlink(At("real"), At("tree/link"));
  stdfs::create_directory_symlink(At("real"), At("link"));
  ASSERT_OK(fs_->RemoveRecursively(At("tree")));
  ASSERT_OK(fs_->RemoveRecursively(At("link/")));
  EXPECT_THAT(RawNames(), ElementsAre("real"));
  EXPECT_EQ(Read("real/file"), "x");
  EXPECT_THAT(fs_->RemoveRecursively("/"),
              IsStatus(absl::StatusCode::kInvalidArgument, "refusing"));
}

TEST_F(LocalFileSystem, SupportsEmptyFolders) {
  ASSERT_OK(fs_->CreateFolder(At("a/b")));
  ASSERT_OK_AND_ASSIGN(const auto listed, fs_->List(At("a/b")));
  EXPECT_THAT(listed, IsEmpty());
  EXPECT_THAT(Glob(*fs_, At("a/b/*")), IsStatus(absl::StatusCode::kNotFound, "is empty"));
}

TEST_F(LocalFileSystem, NamesPathComponentThatIsFile) {
  Put("file", "x");
  EXPECT_THAT(WriteFile(*fs_, At("file/x"), "x"),
              IsStatus(absl::StatusCode::kFailedPrecondition, "file/x"));
  EXPECT_THAT(fs_->OpenInput(At("file/x")),
              IsStatus(absl::StatusCode::kFailedPrecondition, "is a file"));
}

TEST_F(LocalFileSystem, SupportsRelativePaths) {
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
