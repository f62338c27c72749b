#include "penstock/io/cache/caching_file_system.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "penstock/base/clock.h"
#include "penstock/base/random.h"
#include "penstock/base/thread_pool.h"
#include "penstock/io/forwarding_file_system.h"
#include "penstock/io/gcs/gcs_file_system.h"
#include "penstock/io/local/file_descriptor.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/io/testing/fake_time.h"
#include "penstock/io/testing/file_system_conformance.h"
#include "penstock/io/testing/random_bytes.h"
#include "penstock/io/testing/scripted_gcs.h"
#include "penstock/io/testing/status_assertions.h"

namespace penstock::io {
namespace caching_file_system_test {

using Fault = ScriptedGcs::Fault;
using Request = ScriptedGcs::Request;

constexpr int64_t kMiB = 1 << 20;

// Returns a new folder name on each call; all folders are removed when the program exits.
std::string NewFolder() {
  static const std::string all =
      absl::StrCat(testing::TempDir(), "/caching_", absl::Hex(base::EntropySeed()));
  static const auto removed =
      std::shared_ptr<void>(nullptr, [](void*) { std::filesystem::remove_all(all); });
  static std::atomic<int> count = 0;
  return absl::StrCat(all, "/", count++);
}

INSTANTIATE_TEST_SUITE_P(Cached, FileSystemConformance,
                         ConformanceOf([]() -> absl::StatusOr<FileSystemUnderTest> {
                           return FileSystemUnderTest{
                               WithDiskCache(MakeMemoryFileSystem(), {.folder = NewFolder()}),
                               "memory://root"};
                         }));

class CachedGcs : public testing::Test {
 protected:
  std::shared_ptr<FileSystem> Make(int64_t max_bytes = int64_t{1} << 40) {
    return WithDiskCache(MakeGcsFileSystem(MakeMemoryFileSystem(), {.http = time_.Http()}),
                         {.folder = folder_, .max_bytes = max_bytes});
  }

  void ExpectReads(const std::string& bytes) {
    ASSERT_OK_AND_ASSIGN(const std::string read, ReadFile(*fs_, gcs_.Uri("file")));
    EXPECT_TRUE(read == bytes);
  }

  // Number of bytes requested, over all requests from number `first` on.
  int64_t RequestedBytes(size_t first) const {
    int64_t bytes = 0;
    const auto requests = gcs_.requests();
    for (size_t i = first; i < requests.size(); ++i) {
      if (requests[i].is_media) bytes += requests[i].end - requests[i].begin;
    }
    return bytes;
  }

  std::vector<std::filesystem::path> Blocks() const {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
      if (entry.is_regular_file() && entry.path().filename() != "lock") {
        files.push_back(entry.path());
      }
    }
    std::sort(files.begin(), files.end());
    return files;
  }

  FakeTime time_{[this] { return gcs_.hung(); }};
  ScriptedGcs gcs_;
  const std::string folder_ = NewFolder();
  const std::shared_ptr<FileSystem> fs_ = Make();
};

TEST_F(CachedGcs, RequestsEachByteOnce) {
  for (const int64_t size : {int64_t{1}, int64_t{36000}, kMiB - 1, kMiB, 5 * kMiB + 17}) {
    SCOPED_TRACE(size);
    gcs_.Put("file", RandomBytes(size));
    ExpectReads(RandomBytes(size));
    const size_t before = gcs_.requests().size();
    ExpectReads(RandomBytes(size));
    ASSERT_EQ(gcs_.requests().size(), before + 1);
    EXPECT_FALSE(gcs_.requests().back().is_media);
  }
}

TEST_F(CachedGcs, ReadsUncachedSmallFileInOneRequest) {
  gcs_.Put("file", "text");
  ExpectReads("text");
  EXPECT_EQ(gcs_.requests().size(), 1u);
}

TEST_F(CachedGcs, ReadsAnEmptyFile) {
  gcs_.Put("file", "");
  for (int i = 0; i < 3; ++i) ExpectReads("");
}

TEST_F(CachedGcs, CachesRandomReads) {
  const std::string bytes = RandomBytes(4 * kMiB + 99);
  gcs_.Put("file", bytes);
  ASSERT_OK_AND_ASSIGN(const auto file, fs_->OpenRandomAccess(gcs_.Uri("file")));
  EXPECT_EQ(file->size(), 4 * kMiB + 99);
  base::Random random(1);
  for (int i = 0; i < 100; ++i) {
    const int64_t begin = random.Below(bytes.size());
    std::string part(random.Below(i % 10 == 0 ? 3 * kMiB : 40000), '\0');
    ASSERT_OK_AND_ASSIGN(const int64_t n,
                         file->Read(begin, absl::MakeSpan(part.data(), part.size())));
    ASSERT_EQ(n, std::min<int64_t>(part.size(), bytes.size() - begin));
    ASSERT_TRUE(bytes.compare(begin, n, part, 0, n) == 0);
  }
  EXPECT_LE(RequestedBytes(0), static_cast<int64_t>(bytes.size()));
  // The cache also serves streams and other processes.
  const size_t before = gcs_.requests().size();
  ASSERT_OK_AND_ASSIGN(const std::string read, ReadFile(*Make(), gcs_.Uri("file")));
  EXPECT_TRUE(read == bytes);
  EXPECT_EQ(RequestedBytes(before), 0);
}

TEST_F(CachedGcs, RereadsReplacedFile) {
  for (uint64_t version = 0; version < 3; ++version) {
    gcs_.Put("file", RandomBytes(2 * kMiB + 5, version));
    ExpectReads(RandomBytes(2 * kMiB + 5, version));
    ExpectReads(RandomBytes(2 * kMiB + 5, version));
  }
  gcs_.Put("file", "short");
  ExpectReads("short");
  gcs_.Remove("file");
  EXPECT_THAT(ReadFile(*fs_, gcs_.Uri("file")), IsStatus(absl::StatusCode::kNotFound, "file"));
}

TEST_F(CachedGcs, DoesNotMixVersionsIfReplacedWhileReading) {
  const std::string bytes = RandomBytes(4 * kMiB);
  gcs_.Put("file", bytes);
  ASSERT_OK_AND_ASSIGN(const auto warm, fs_->OpenRandomAccess(gcs_.Uri("file")));
  std::string part(kMiB, '\0');
  ASSERT_OK(warm->Read(0, absl::MakeSpan(part.data(), part.size())));
  ASSERT_OK_AND_ASSIGN(const auto stream, fs_->OpenInput(gcs_.Uri("file")));
  gcs_.Put("file", RandomBytes(4 * kMiB, 1));
  ExpectReads(RandomBytes(4 * kMiB, 1));  // its blocks are now cached
  std::string read(4 * kMiB, '\0');
  EXPECT_THAT(stream->Read(absl::MakeSpan(read.data(), read.size())),
              IsStatus(absl::StatusCode::kAborted, "replaced or removed"));
  EXPECT_THAT(warm->Read(kMiB, absl::MakeSpan(read.data(), 100)),
              IsStatus(absl::StatusCode::kAborted, "replaced or removed"));
}

TEST_F(CachedGcs, RefetchesCorruptAndMissingBlocks) {
  const std::string bytes = RandomBytes(20 * kMiB + 5);
  gcs_.Put("file", bytes);
  ExpectReads(bytes);
  base::Random random(2);
  for (int round = 0; round < 10; ++round) {
    int64_t lost = 0;
    for (const auto& block : Blocks()) {
      if (random.Below(3) == 0) {
        std::filesystem::remove(block);
        ++lost;
      } else if (random.Below(6) == 0) {
        std::fstream change(block, std::ios::in | std::ios::out | std::ios::binary);
        change.seekp(4096 + 4);  // the shortest block has 5 bytes
        change.put('!');
        ++lost;
      }
    }
    const size_t before = gcs_.requests().size();
    ExpectReads(bytes);
    EXPECT_LE(RequestedBytes(before), 21 * kMiB);
    const size_t after = gcs_.requests().size();
    ExpectReads(bytes);
    EXPECT_EQ(RequestedBytes(after), 0) << lost << " of round " << round;
  }
}

TEST_F(CachedGcs, ReadsCorrectlyWithoutCacheSpace) {
  const std::string bytes = RandomBytes(9 * kMiB + 5);
  gcs_.Put("file", bytes);
  for (const int64_t max_bytes : {int64_t{1}, 3 * kMiB}) {
    const auto fs = Make(max_bytes);
    for (int i = 0; i < 3; ++i) {
      const size_t before = gcs_.requests().size();
      ASSERT_OK_AND_ASSIGN(const std::string read, ReadFile(*fs, gcs_.Uri("file")));
      EXPECT_TRUE(read == bytes);
      EXPECT_LE(RequestedBytes(before), 11 * kMiB);  // no block is requested repeatedly
    }
  }
}

TEST_F(CachedGcs, DoesNotCacheFailedResponses) {
  const std::string bytes = RandomBytes(6 * kMiB);
  gcs_.Put("file", bytes);
  gcs_.SetScript(
      [](const Request& request) { return Fault{.status = request.begin >= 3 * kMiB ? 403 : 0}; });
  EXPECT_THAT(ReadFile(*fs_, gcs_.Uri("file")), IsStatus(absl::StatusCode::kPermissionDenied, ""));
  gcs_.SetScript(nullptr);
  ExpectReads(bytes);
  ExpectReads(bytes);
}

TEST_F(CachedGcs, SurvivesAllFaultsWithManyReaders) {
  std::vector<std::string> files;
  for (int i = 0; i < 4; ++i) {
    files.push_back(RandomBytes(2 * kMiB + 111111 * i));
    gcs_.Put(absl::StrCat(i), files.back());
  }
  gcs_.SetScript(ScriptedGcs::RandomFault);
  const auto fs = Make(5 * kMiB);
  base::ThreadPool pool(4);
  std::atomic<int> wrong = 0;
  base::ParallelFor(pool, 0, 24, [&](int64_t i) {
    const auto read = ReadFile(*fs, gcs_.Uri(absl::StrCat(i % 4), "&retry_limit_seconds=100000"));
    if (!read.ok() || *read != files[i % 4]) ++wrong;
  });
  EXPECT_EQ(wrong, 0);
}

TEST(CachedFiles, WithoutVersionsAreDistinguishedBySizeAndTime) {
  const auto memory = MakeMemoryFileSystem();
  const auto fs = WithDiskCache(memory, {.folder = NewFolder()});
  for (const char* text : {"one", "two", "three", ""}) {
    ASSERT_OK(WriteFile(*memory, "memory://x", text));
    for (int i = 0; i < 2; ++i) {
      ASSERT_OK_AND_ASSIGN(const std::string read, ReadFile(*fs, "memory://x"));
      EXPECT_EQ(read, text);
    }
  }
}

// Replaces the file after it was opened for the first time, and has times in whole seconds if
// `whole_seconds`.
class ReplacesAfterOpening : public ForwardingFileSystem {
 public:
  ReplacesAfterOpening(std::shared_ptr<FileSystem> fs, std::string text, bool whole_seconds)
      : ForwardingFileSystem(std::move(fs)),
        text_(std::move(text)),
        whole_seconds_(whole_seconds) {}
  absl::StatusOr<std::unique_ptr<InputStream>> OpenInput(absl::string_view uri) override {
    auto in = next().OpenInput(uri);
    if (!std::exchange(opened_, true)) {
      EXPECT_OK(WriteFile(next(), uri, text_));
    }
    return in;
  }
  absl::StatusOr<FileInfo> Stat(absl::string_view uri) override {
    auto info = next().Stat(uri);
    if (info.ok() && whole_seconds_) {
      info->modified_unix_seconds = std::floor(base::Clock::Real()->UnixSeconds());
    }
    return info;
  }

 private:
  const std::string text_;
  const bool whole_seconds_;
  bool opened_ = false;
};

TEST(CachedFiles, WithoutVersionsMayBeReplacedWhileTheyAreOpened) {
  for (const bool whole_seconds : {false, true}) {
    SCOPED_TRACE(whole_seconds);
    const auto memory = MakeMemoryFileSystem();
    ASSERT_OK(WriteFile(*memory, "memory://x", "one"));
    const auto fs =
        WithDiskCache(std::make_shared<ReplacesAfterOpening>(memory, "two", whole_seconds),
                      {.folder = NewFolder()});
    ASSERT_OK(ReadFile(*fs, "memory://x").status());
    ASSERT_OK_AND_ASSIGN(const std::string second, ReadFile(*fs, "memory://x"));
    EXPECT_EQ(second, "two");
    if (!whole_seconds) continue;
    ASSERT_OK(WriteFile(*memory, "memory://x", "six"));  // of the same size, within a second
    ASSERT_OK_AND_ASSIGN(const std::string third, ReadFile(*fs, "memory://x"));
    EXPECT_EQ(third, "six");
  }
}

TEST(CacheFromEnvironment, IsConfiguredByEnvironment) {
  const auto memory = MakeMemoryFileSystem();
  ASSERT_OK(WriteFile(*memory, "memory://x", "text"));
  ::unsetenv("PENSTOCK_CACHE_DIR");
  EXPECT_EQ(WithDiskCache(memory, CacheFromEnvironment()), memory);
  const std::string folder = NewFolder();
  ::setenv("PENSTOCK_CACHE_DIR", folder.c_str(), 1);
  ::setenv("PENSTOCK_CACHE_GB", "0.5", 1);
  ASSERT_OK(ReadFile(*WithDiskCache(memory, CacheFromEnvironment()), "memory://x"));
  EXPECT_TRUE(std::filesystem::exists(folder + "/lock"));
  for (const char* wrong : {"-1", "much", "0"}) {
    ::setenv("PENSTOCK_CACHE_GB", wrong, 1);
    EXPECT_THAT(ReadFile(*WithDiskCache(memory, CacheFromEnvironment()), "memory://x"),
                IsStatus(absl::StatusCode::kInvalidArgument, "PENSTOCK_CACHE_GB"));
  }
  ::unsetenv("PENSTOCK_CACHE_GB");
  ::unsetenv("PENSTOCK_CACHE_DIR");
}

// Caches with an unusable folder, for every cause that does not require a failing disk (see
// local_faults_test.cc for those).
class BrokenCaches : public testing::Test {
 protected:
  BrokenCaches() { std::filesystem::create_directories(root_); }
  ~BrokenCaches() override { std::filesystem::remove_all(root_); }

  // Reads an existing and a missing file, twice through each interface.
  void ExpectReadsWithOneWarning(const std::string& folder, const std::string& why) {
    SCOPED_TRACE(folder);
    warnings_.clear();
    const auto memory = MakeMemoryFileSystem();
    const std::string bytes = RandomBytes(2 * kMiB + 5);
    ASSERT_OK(WriteFile(*memory, "memory://x", bytes));
    const auto shared = std::make_shared<SharedDiskCache>(
        DiskCacheOptions{.folder = folder,
                         .warn = [this](const std::string& line) { warnings_.push_back(line); },
                         .clock = &clock_});
    // Two file systems share one cache, as in FileSystem::Default.
    for (const auto& fs : {WithDiskCache(memory, shared), WithDiskCache(memory, shared)}) {
      for (int i = 0; i < 2; ++i) {
        EXPECT_TRUE(ReadFile(*fs, "memory://x").value() == bytes);
        ASSERT_OK_AND_ASSIGN(const auto file, fs->OpenRandomAccess("memory://x"));
        std::string part(kMiB, '\0');
        ASSERT_OK_AND_ASSIGN(const int64_t n, file->Read(kMiB, absl::MakeSpan(&part[0], kMiB)));
        EXPECT_TRUE(n == kMiB && bytes.compare(kMiB, n, part) == 0);
        EXPECT_THAT(fs->OpenInput("memory://y"), IsStatus(absl::StatusCode::kNotFound, "y"));
        clock_.Advance(61);
      }
    }
    ASSERT_EQ(warnings_.size(), 1u);
    EXPECT_THAT(warnings_[0], testing::HasSubstr(why));
    EXPECT_THAT(warnings_[0], testing::HasSubstr("reading files directly from their storage"));
  }

  const std::string root_ = NewFolder();
  std::vector<std::string> warnings_;
  base::FakeClock clock_;
};

TEST_F(BrokenCaches, WarnAndReturnNoError) {
  // The folder is on a disk that is not mounted.
  std::filesystem::create_symlink("/nowhere/disk", root_ + "/link");
  ExpectReadsWithOneWarning(root_ + "/link", "is the disk that it points to mounted?");
  ExpectReadsWithOneWarning(root_ + "/link/cache", "is the disk that it points to mounted?");
  EXPECT_FALSE(std::filesystem::exists("/nowhere"));
  // The folder cannot be created.
  ExpectReadsWithOneWarning("/proc/nowhere", "/proc/nowhere");
  std::ofstream(root_ + "/file") << "x";
  ExpectReadsWithOneWarning(root_ + "/file", "is a file");
  ExpectReadsWithOneWarning(root_ + "/file/cache", "is a file");
  // The lock's path is not a regular file.
  std::filesystem::create_directories(root_ + "/a/lock");
  ExpectReadsWithOneWarning(root_ + "/a", "lock");
  std::filesystem::create_directories(root_ + "/b");
  ASSERT_EQ(::mkfifo((root_ + "/b/lock").c_str(), 0600), 0);
  ExpectReadsWithOneWarning(root_ + "/b", "is a pipe (FIFO)");
}

TEST_F(BrokenCaches, WithoutBlockFoldersWarn) {
  // Files occupy the paths of the folders for blocks.
  for (int i = 0; i < 256; ++i) std::ofstream(root_ + absl::StrFormat("/%02x", i)) << "x";
  ExpectReadsWithOneWarning(root_, "is a file, not a folder");
}

TEST_F(BrokenCaches, WithLockHeldByAnotherProcessWarn) {
  std::ofstream(root_ + "/lock") << "";
  const FileDescriptor held(::open((root_ + "/lock").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(held.get(), LOCK_EX), 0);
  const auto memory = MakeMemoryFileSystem();
  const std::string bytes = RandomBytes(5 * kMiB);
  ASSERT_OK(WriteFile(*memory, "memory://x", bytes));
  const auto fs =
      WithDiskCache(memory, {.folder = root_,
                             .warn = [this](const std::string& line) { warnings_.push_back(line); },
                             .clock = &clock_});
  EXPECT_TRUE(ReadFile(*fs, "memory://x").value() == bytes);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], testing::HasSubstr("another process has held"));
  // The cache works again after that process has exited.
  ::flock(held.get(), LOCK_UN);
  clock_.Advance(61);
  EXPECT_TRUE(ReadFile(*fs, "memory://x").value() == bytes);
  EXPECT_TRUE(std::filesystem::recursive_directory_iterator(root_) !=
              std::filesystem::recursive_directory_iterator());
  EXPECT_GE(std::distance(std::filesystem::recursive_directory_iterator(root_),
                          std::filesystem::recursive_directory_iterator()),
            6);
}

TEST_F(BrokenCaches, WithCorruptBlocksWarn) {
  const auto memory = MakeMemoryFileSystem();
  const std::string bytes = RandomBytes(5 * kMiB);
  ASSERT_OK(WriteFile(*memory, "memory://x", bytes));
  const auto fs =
      WithDiskCache(memory, {.folder = root_,
                             .warn = [this](const std::string& line) { warnings_.push_back(line); },
                             .clock = &clock_});
  for (int round = 0; round < 4; ++round) {
    EXPECT_TRUE(ReadFile(*fs, "memory://x").value() == bytes);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root_)) {
      if (!entry.is_regular_file() || entry.path().filename() == "lock") continue;
      if (round == 2) {  // a FIFO, which must be opened without blocking
        std::filesystem::remove(entry.path());
        ASSERT_EQ(::mkfifo(entry.path().c_str(), 0600), 0);
        continue;
      }
      std::fstream change(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      change.seekp(round == 0 ? 20 : 5000);
      change.put('!').put('?');
    }
  }
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], testing::HasSubstr("corrupt block"));
}

TEST(CachedFiles, TruncatedWhileReadingAreErrors) {
  // A file whose size is 3 MiB, but whose last MiB cannot be read.
  class Short : public RandomAccessFile {
   public:
    Short() : RandomAccessFile("memory://short", 3 * kMiB) {}
    absl::StatusOr<int64_t> Read(int64_t offset, absl::Span<char> out) override {
      const auto n = std::max<int64_t>(std::min<int64_t>(out.size(), 2 * kMiB - offset), 0);
      std::fill_n(out.data(), n, 'x');
      return n;
    }
    std::string version() const override { return "1"; }
  };
  class OneFile : public ForwardingFileSystem {
   public:
    OneFile() : ForwardingFileSystem(MakeMemoryFileSystem()) {}
    absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenRandomAccess(absl::string_view) override {
      return std::make_unique<Short>();
    }
  };
  const auto fs = WithDiskCache(std::make_shared<OneFile>(), {.folder = NewFolder()});
  ASSERT_OK_AND_ASSIGN(const auto file, fs->OpenRandomAccess("memory://short"));
  std::string bytes(3 * kMiB, '\0');
  EXPECT_THAT(file->Read(0, absl::MakeSpan(&bytes[0], bytes.size())),
              IsStatus(absl::StatusCode::kAborted, "was truncated"));
}

}  // namespace caching_file_system_test
}  // namespace penstock::io
