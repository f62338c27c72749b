#include "penstock/io/write_check.h"

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/base/random.h"
#include "penstock/io/forwarding_file_system.h"
#include "penstock/io/local/folder_lock.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/io/uri.h"

namespace penstock::io {
namespace write_check_test {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class WriteCheck : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  size_t Entries() const { return std::distance(std::filesystem::directory_iterator(folder_), {}); }
  static std::string Bytes(const std::string& path) {
    std::ostringstream out;
    out << std::ifstream(path, std::ios::binary).rdbuf();
    return out.str();
  }

  const std::string folder_ =
      ::testing::TempDir() + "/write_check_" + std::to_string(base::EntropySeed());
  const std::shared_ptr<FileSystem> default_ = FileSystem::Default();
  FileSystem& fs_ = *default_;
};

TEST_F(WriteCheck, LeavesNothingBehindAndExistingFilesUnchanged) {
  const std::string there = folder_ + "/there";
  std::ofstream(there) << "the model of last week";
  EXPECT_EQ(CheckWritableFile(fs_, there), absl::OkStatus());
  EXPECT_EQ(CheckWritableFile(fs_, folder_ + "/new"), absl::OkStatus());
  EXPECT_EQ(CheckWritableFolder(fs_, folder_), absl::OkStatus());
  EXPECT_EQ(Bytes(there), "the model of last week");
  EXPECT_EQ(Entries(), 1u);
}

// A process that is killed while it writes leaves a temporary file, which the next check removes. Those of processes that
// live, and others of which that is not certain, stay.
TEST_F(WriteCheck, RemovesWhatKilledProcessesHaveLeft) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto out = fs_.Create(folder_ + "/theirs");
    const bool begun = out.ok() && (*out)->Append(std::string(1 << 20, 'x')).ok();
    (void)!::write(ready[1], begun ? "y" : "n", 1);
    for (;;) ::pause();
  }
  char begun = 'n';
  ASSERT_EQ(::read(ready[0], &begun, 1), 1);
  ASSERT_EQ(begun, 'y');
  const auto out = fs_.Create(folder_ + "/ours");
  ASSERT_TRUE(out.ok() && (*out)->Append("ours").ok());
  const std::vector<std::string> others = {
      folder_ + "/.penstock-1234abcd.part",              // an earlier version's
      folder_ + "/.penstock-0123456789abcdef-77.part"};  // a boot's
  for (const std::string& other : others) std::ofstream(other) << "x";
  EXPECT_EQ(Entries(), 4u);

  EXPECT_EQ(CheckWritableFolder(fs_, folder_), absl::OkStatus());
  EXPECT_EQ(Entries(), 4u) << "both processes live";
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(CheckWritableFile(fs_, folder_ + "/new"), absl::OkStatus());
  EXPECT_EQ(Entries(), 3u);
  EXPECT_EQ((*out)->Close(), absl::OkStatus());
  EXPECT_EQ(Bytes(folder_ + "/ours"), "ours");
  for (const std::string& other : others) EXPECT_TRUE(std::filesystem::exists(other)) << other;
  ::close(ready[0]);
  ::close(ready[1]);
}

// Files that are written, closed and renamed are never abandoned, whenever a check comes.
TEST_F(WriteCheck, ChecksBesideWritersRemoveNothingOfTheirs) {
  std::atomic<bool> done = false;
  std::thread checks([&] {
    while (!done) EXPECT_EQ(CheckWritableFolder(fs_, folder_), absl::OkStatus());
  });
  for (int i = 0; i < 200; ++i) {
    const std::string file = folder_ + "/" + std::to_string(i);
    EXPECT_EQ(WriteFile(fs_, file, file), absl::OkStatus());
    EXPECT_EQ(Bytes(file), file);
  }
  done = true;
  checks.join();
  EXPECT_EQ(Entries(), 200u);
}

TEST_F(WriteCheck, TextReplacesTextsOnly) {
  const std::string file = folder_ + "/file";
  EXPECT_EQ(CheckWritableText(fs_, file), absl::OkStatus());
  for (const char* text : {"", "id,label\r\n1,\xc3\xbc\n", "<html>\n\t<body>"}) {
    std::ofstream(file) << text;
    EXPECT_EQ(CheckWritableText(fs_, file), absl::OkStatus()) << text;
  }
  // A TFRecord, a zip archive (.npz, .keras), an image.
  for (const std::string& bytes : {std::string("\x20\0\0\0\0\0\0\0", 8), std::string("PK\3\4"),
                                   std::string("\x89PNG\r\n\x1a\n")}) {
    std::ofstream(file) << bytes;
    const absl::Status status = CheckWritableText(fs_, file);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << bytes;
    EXPECT_THAT(std::string(status.message()), HasSubstr("/file' exists and is not a text"));
    EXPECT_EQ(Bytes(file), bytes);
  }
}

TEST_F(WriteCheck, AcceptsMissingFoldersAndLeavesNoneBehind) {
  EXPECT_EQ(CheckWritableFile(fs_, folder_ + "/a/b/file"), absl::OkStatus());
  EXPECT_EQ(CheckWritableFolder(fs_, folder_ + "/c/d"), absl::OkStatus());
  EXPECT_EQ(Entries(), 0u);
}

TEST_F(WriteCheck, RejectsFoldersFifosDevicesAndFilesInPlaceOfFolders) {
  const std::string fifo = folder_ + "/fifo", file = folder_ + "/file";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  std::ofstream(file) << "x";
  EXPECT_THAT(std::string(CheckWritableFile(fs_, folder_).message()), HasSubstr("is a folder"));
  EXPECT_THAT(std::string(CheckWritableFile(fs_, fifo).message()), HasSubstr("is a FIFO"));
  EXPECT_THAT(std::string(CheckWritableFile(fs_, "/dev/null").message()), HasSubstr("a device"));
  EXPECT_FALSE(CheckWritableFile(fs_, folder_ + "/new/").ok());
  EXPECT_FALSE(CheckWritableFile(fs_, file + "/below").ok());
  EXPECT_THAT(std::string(CheckWritableFolder(fs_, file).message()),
              StartsWith(absl::StrCat("cannot create files in '", file, "', which is a regular")));
  EXPECT_FALSE(CheckWritableFile(fs_, "/proc/no-such-folder/file").ok());
  EXPECT_FALSE(CheckWritableFile(fs_, "ftp://host/file").ok());
  EXPECT_TRUE(std::filesystem::is_fifo(fifo));
  EXPECT_EQ(Bytes(file), "x");
}

// Another process begins to use the folder while the check has a file in it.
class LocksMeanwhile : public ForwardingFileSystem {
 public:
  explicit LocksMeanwhile(std::shared_ptr<FileSystem> next)
      : ForwardingFileSystem(std::move(next)) {}
  absl::StatusOr<std::unique_ptr<OutputStream>> Create(absl::string_view uri) override {
    auto out = next().Create(uri);
    auto lock = FolderLock::Acquire(Dirname(uri), "held");
    if (lock.ok()) lock_ = *std::move(lock);
    return out;
  }
  FolderLock lock_;
};

TEST_F(WriteCheck, LeavesAFolderThatAnotherProcessHasLocked) {
  LocksMeanwhile fs(default_);
  const std::string folder = folder_ + "/run";
  EXPECT_EQ(CheckWritableFolder(fs, folder), absl::OkStatus());
  EXPECT_TRUE(fs.lock_.holds());
  EXPECT_TRUE(std::filesystem::is_directory(folder));
  EXPECT_TRUE(absl::IsFailedPrecondition(FolderLock::Acquire(folder, "held").status()));
  // The lock is of the folder, not of its name.
  std::filesystem::rename(folder, folder_ + "/moved");
  std::filesystem::create_directory(folder);
  EXPECT_TRUE(FolderLock::Acquire(folder, "held")->holds());
  EXPECT_FALSE(FolderLock::Acquire(folder_ + "/missing", "held")->holds());
}

TEST_F(WriteCheck, WritesAndRemovesATemporaryObjectOnOtherFileSystems) {
  const auto memory = MakeMemoryFileSystem();
  ASSERT_TRUE(WriteFile(*memory, "memory://run/there", "x").ok());
  EXPECT_EQ(CheckWritableFile(*memory, "memory://run/there"), absl::OkStatus());
  EXPECT_EQ(CheckWritableFolder(*memory, "memory://run/checkpoints"), absl::OkStatus());
  const auto files = memory->ListRecursive("memory://run");
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->size(), 1u);
}

}  // namespace write_check_test
}  // namespace penstock::io
