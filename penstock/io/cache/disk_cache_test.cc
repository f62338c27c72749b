#include "penstock/io/cache/disk_cache.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/base/random.h"
#include "penstock/base/thread_pool.h"
#include "penstock/io/testing/status_assertions.h"
#include "penstock/io/testing/system_call_faults.h"

namespace penstock::io {
namespace disk_cache_test {

namespace fs = std::filesystem;

constexpr int64_t kBlock = DiskCache::kBlockBytes;

std::string Bytes(int64_t size, uint64_t seed) {
  base::Random random(seed);
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random.Next());
  return bytes;
}

class DiskCaches : public testing::Test {
 protected:
  DiskCaches() { fs::remove_all(folder_); }
  ~DiskCaches() override { fs::remove_all(folder_); }

  std::unique_ptr<DiskCache> Open(int64_t max_bytes = int64_t{1} << 40) {
    return DiskCache::Open({.folder = folder_, .max_bytes = max_bytes}).value();
  }

  // Returns the contents of a block, or "none".
  static std::string ReadAllOf(DiskCache& cache, absl::string_view file, int64_t block) {
    const auto kept = cache.Find(file, block);
    if (kept == nullptr) return "none";
    std::string bytes(kept->size(), '\0');
    return kept->Read(0, absl::MakeSpan(&bytes[0], bytes.size())) ? bytes : "none";
  }

  std::vector<fs::path> Files() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      if (entry.is_regular_file() && entry.path().filename() != "lock") {
        files.push_back(entry.path());
      }
    }
    return files;
  }
  int64_t BytesInFolder() const {
    int64_t bytes = 0;
    for (const fs::path& file : Files()) bytes += (fs::file_size(file) + 4095) / 4096 * 4096;
    return bytes;
  }

  const std::string folder_ =
      absl::StrCat(testing::TempDir(), "/disk_cache_", absl::Hex(base::EntropySeed()));
};

TEST_F(DiskCaches, ReturnsStoredBlocks) {
  const auto cache = Open();
  EXPECT_EQ(cache->Find("f", 0), nullptr);
  for (const int64_t size : {int64_t{1}, int64_t{65536}, int64_t{65537}, kBlock - 1, kBlock}) {
    SCOPED_TRACE(size);
    const std::string bytes = Bytes(size, size);
    cache->Store("f", 3, absl::StrCat("v", size), bytes);
    EXPECT_TRUE(ReadAllOf(*cache, "f", 3) == bytes);
    EXPECT_EQ(cache->Find("f", 3)->version(), absl::StrCat("v", size));
    // Any range of the block can be read.
    base::Random random(1);
    const auto kept = cache->Find("f", 3);
    for (int i = 0; i < 50; ++i) {
      const int64_t begin = random.Below(size);
      const int64_t n = random.Below(size - begin + 1);
      std::string part(n, '\0');
      ASSERT_TRUE(kept->Read(begin, absl::MakeSpan(part.data(), n)));
      ASSERT_TRUE(bytes.compare(begin, n, part) == 0);
    }
  }
  EXPECT_EQ(cache->Find("f", 2), nullptr);
  EXPECT_EQ(cache->Find("g", 3), nullptr);
  // Another process or a later run finds it, too.
  EXPECT_EQ(ReadAllOf(*Open(), "f", 3).size(), static_cast<size_t>(kBlock));
}

TEST_F(DiskCaches, RejectsNamesLongerThanHeader) {
  const auto cache = Open();
  const std::string name(5000, 'x');
  cache->Store(name, 0, "v", "bytes");
  EXPECT_EQ(cache->Find(name, 0), nullptr);
}

TEST_F(DiskCaches, DetectsCorruptBlocks) {
  const auto cache = Open();
  const std::string bytes = Bytes(100'000, 1);
  cache->Store("f", 0, "v", bytes);
  ASSERT_EQ(Files().size(), 1u);
  const fs::path file = Files()[0];
  const auto size = static_cast<int64_t>(fs::file_size(file));
  for (int64_t at : {int64_t{0}, int64_t{9}, int64_t{20}, int64_t{170}, int64_t{4095},
                     int64_t{4096}, int64_t{80'000}, size - 1}) {
    SCOPED_TRACE(at);
    std::fstream change(file, std::ios::in | std::ios::out | std::ios::binary);
    change.seekg(at);
    const char was = static_cast<char>(change.get());
    change.seekp(at);
    change.put(static_cast<char>(was ^ 1));
    change.flush();
    EXPECT_EQ(ReadAllOf(*cache, "f", 0), "none");
    change.seekp(at);
    change.put(was);
    change.flush();
    EXPECT_TRUE(ReadAllOf(*cache, "f", 0) == bytes);
  }
  for (int64_t length = 0; length < size; length += 1 + size / 40) {
    fs::resize_file(file, length);
    EXPECT_EQ(ReadAllOf(*cache, "f", 0), "none");
  }
  cache->Store("f", 0, "v", bytes);  // replaces the block
  EXPECT_TRUE(ReadAllOf(*cache, "f", 0) == bytes);
}

TEST_F(DiskCaches, DetectsBlocksOfOtherFiles) {
  const auto cache = Open();
  cache->Store("f", 0, "v", "of f");
  const fs::path of_f = Files()[0];
  cache->Store("g", 0, "v", "of g");
  for (const fs::path& file : Files()) {
    if (file != of_f) fs::copy_file(of_f, file, fs::copy_options::overwrite_existing);
  }
  EXPECT_EQ(ReadAllOf(*cache, "g", 0), "none");
  EXPECT_EQ(ReadAllOf(*cache, "f", 0), "of f");
}

TEST_F(DiskCaches, StaysWithinMaxBytes) {
  const int64_t max_bytes = 20 * kBlock;
  const auto cache = Open(max_bytes);
  const std::string bytes = Bytes(kBlock, 1);
  for (int64_t i = 0; i < 100; ++i) {
    cache->Store("f", i, "v", bytes);
    ASSERT_LE(BytesInFolder(), max_bytes);
    ASSERT_NE(cache->Find("f", i), nullptr);
  }
  EXPECT_GE(BytesInFolder(), max_bytes / 2);
  const auto tiny = DiskCache::Open({.folder = folder_ + "/tiny", .max_bytes = 1000}).value();
  tiny->Store("f", 0, "v", bytes);
  EXPECT_EQ(tiny->Find("f", 0), nullptr);
}

TEST_F(DiskCaches, EvictsLeastRecentlyRead) {
  const auto cache = Open(10 * (kBlock + 4096));
  const std::string bytes = Bytes(kBlock, 1);
  for (int64_t i = 0; i < 10; ++i) cache->Store("f", i, "v", bytes);
  // Sets the age of all blocks to an hour; then one is read.
  for (const fs::path& file : Files()) {
    fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(1));
  }
  ASSERT_NE(cache->Find("f", 4), nullptr);
  for (int64_t i = 10; i < 18; ++i) cache->Store("f", i, "v", bytes);
  EXPECT_NE(cache->Find("f", 4), nullptr);
  EXPECT_EQ(Files().size(), 10u);
}

TEST_F(DiskCaches, RecountsSizeIfLost) {
  const int64_t max_bytes = 10 * (kBlock + 4096);
  const std::string bytes = Bytes(kBlock, 1);
  for (int64_t i = 0; i < 10; ++i) Open(max_bytes)->Store("f", i, "v", bytes);
  fs::remove(fs::path(folder_) / "lock");
  for (int64_t i = 10; i < 13; ++i) Open(max_bytes)->Store("f", i, "v", bytes);
  EXPECT_LE(BytesInFolder(), max_bytes);
}

TEST_F(DiskCaches, RemovesOnlyLeftoversOfKilledProcesses) {
  const int64_t max_bytes = 4 * (kBlock + 4096);
  const auto cache = Open(max_bytes);
  const std::string bytes = Bytes(kBlock, 1);
  cache->Store("f", 0, "v", bytes);
  const std::string dead = Files()[0].string() + ".dead.part";
  const std::string alive = Files()[0].string() + ".a11fe.part";
  std::ofstream(dead) << "x";
  std::ofstream(alive) << "x";
  const FileDescriptor writing(::open(alive.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(writing.get(), LOCK_EX), 0);
  for (int64_t i = 1; i < 8; ++i) cache->Store("f", i, "v", bytes);
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(alive));
}

TEST_F(DiskCaches, KeepsFilesOfOtherPrograms) {
  const int64_t max_bytes = 4 * (kBlock + 4096);
  const auto cache = Open(max_bytes);
  const std::string bytes = Bytes(kBlock, 1);
  cache->Store("f", 0, "v", bytes);
  const fs::path folder = Files()[0].parent_path();
  const std::string digits = folder.filename().string();
  // Git uses similar folder names for its objects.
  const std::string names[] = {"thesis.txt",
                               "thesis.part",
                               digits + std::string(36, '0'),
                               digits + std::string(30, 'g'),
                               digits + std::string(30, '0') + ".x",
                               digits};
  for (const std::string& name : names) std::ofstream(folder / name) << "x";
  for (int64_t i = 1; i < 12; ++i) cache->Store("f", i, "v", bytes);
  for (const std::string& name : names) EXPECT_TRUE(fs::exists(folder / name)) << name;
}

// Several processes write and read the same blocks concurrently; each is killed at its own crash
// point.
TEST_F(DiskCaches, StaysConsistentWhenProcessesAreKilled) {
  const int64_t max_bytes =
      3 * kBlock;  // out of 7.5 blocks, so old blocks are evicted all the time
  const std::vector<SystemCallFault> crash_points = {
      {.call = "rename", .number = 20, .kill = true},   // after writing, before publishing
      {.call = "pwrite", .number = 50, .kill = true},   // before anything is written
      {.call = "flock", .number = 30, .kill = true},    // before a lock is acquired or released
      {.call = "unlink", .number = 10, .kill = true}};  // before an old block is evicted
  std::vector<pid_t> children;
  for (size_t child = 0; child < crash_points.size(); ++child) {
    const pid_t process = ::fork();
    ASSERT_GE(process, 0);
    if (process == 0) {
      const auto cache = Open(max_bytes);
      base::Random random(child);
      ArmSystemCalls(crash_points[child]);
      for (int i = 0; i < 10'000; ++i) {
        const int64_t block = random.Below(30);
        const std::string expected = Bytes(kBlock / 4, block);
        const auto kept = ReadAllOf(*cache, "f", block);
        if (kept != "none" && kept != expected) ::_exit(3);
        if (kept == "none") cache->Store("f", block, "v", expected);
      }
      ::_exit(4);
    }
    children.push_back(process);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 3)
        << "read bytes that were never written";
    EXPECT_TRUE(WIFSIGNALED(status)) << "its crash point was not reached";
  }
  EXPECT_LE(BytesInFolder(), max_bytes);
  const auto cache = Open(max_bytes);
  int found = 0;
  for (int64_t block = 0; block < 30; ++block) {
    const auto kept = ReadAllOf(*cache, "f", block);
    if (kept == "none") continue;
    ++found;
    EXPECT_TRUE(kept == Bytes(kBlock / 4, block));
  }
  EXPECT_GT(found, 0);
  // The cache remains usable.
  for (int64_t block = 0; block < 30; ++block) {
    cache->Store("f", block, "w", Bytes(kBlock / 4, block));
    EXPECT_NE(cache->Find("f", block), nullptr);
  }
  EXPECT_LE(BytesInFolder(), max_bytes);
}

TEST_F(DiskCaches, IsThreadSafe) {
  const auto cache = Open(8 * kBlock);
  std::vector<std::string> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(Bytes(kBlock / 2, i));
  base::ThreadPool pool(4);
  std::atomic<int> wrong = 0;
  base::ParallelFor(pool, 0, 200, [&](int64_t i) {
    const int64_t block = i * 7 % 16;
    const auto kept = ReadAllOf(*cache, "f", block);
    if (kept == "none") {
      cache->Store("f", block, "v", blocks[block]);
    } else if (kept != blocks[block]) {
      ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(BytesInFolder(), 8 * kBlock);
}

TEST_F(DiskCaches, DoesNotWriteIntoAFileOfAnotherProgram) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/foreign_lock_", ::getpid());
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/lock") << "a user's file";
  const auto cache = DiskCache::Open({.folder = folder, .max_bytes = 1 << 20});
  EXPECT_EQ(cache.status().code(), absl::StatusCode::kFailedPrecondition) << cache.status();
  std::filesystem::remove_all(folder);
}

TEST_F(DiskCaches, ReportsWhyItCannotBeOpened) {
  std::ofstream(folder_) << "a file";
  EXPECT_THAT(DiskCache::Open({.folder = folder_ + "/x"}),
              IsStatus(absl::StatusCode::kFailedPrecondition, "a component of its path is a file"));
  EXPECT_THAT(DiskCache::Open({.folder = folder_}),
              IsStatus(absl::StatusCode::kFailedPrecondition, folder_));
  EXPECT_FALSE(DiskCache::Open({}).ok());
  EXPECT_FALSE(DiskCache::Open({.folder = folder_, .max_bytes = 0}).ok());
}

}  // namespace disk_cache_test
}  // namespace penstock::io
