#include "penstock/runtime/cache/compile_cache.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/runtime/cache/cache_key.h"
#include "penstock/runtime/testing/cache_folder.h"

namespace penstock::runtime {
namespace compile_cache_test {

namespace fs = std::filesystem;

constexpr int64_t kHeaderBytes = 144;

class Cache : public testing::Test {
 protected:
  std::unique_ptr<CompileCache> Open(int64_t max_bytes = 1 << 20) {
    auto cache = CompileCache::Open({.folder = folder_.path(), .max_bytes = max_bytes});
    EXPECT_TRUE(cache.ok()) << cache.status();
    return *std::move(cache);
  }
  // Key of an entry, different for each name.
  static std::string Key(const std::string& name) { return CacheKey({name}); }
  std::string PathOf(const std::string& key) const {
    return absl::StrCat(folder_.path(), "/", key, ".program");
  }
  int64_t BytesInFolder() const {
    int64_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(folder_.path())) bytes += entry.file_size();
    return bytes;
  }
  void UsedMinutesAgo(const std::string& key, int minutes) const {
    fs::last_write_time(PathOf(key),
                        fs::file_time_type::clock::now() - std::chrono::minutes(minutes));
  }

  const CacheFolder folder_;
};

TEST_F(Cache, FindsStoredEntriesAcrossInstances) {
  const std::string bytes("any\0bytes", 9);
  Open()->Store(Key("a"), bytes);
  EXPECT_EQ(Open()->Find(Key("a")), bytes);
  EXPECT_EQ(Open()->Find(Key("b")), std::nullopt);
  Open()->Store(Key("a"), "newer");
  EXPECT_EQ(Open()->Find(Key("a")), "newer");
}

TEST_F(Cache, CorruptEntryIsRemoved) {
  const std::string key = Key("a"), bytes = "executable";
  const auto cache = Open();
  for (size_t at = 0; at < kHeaderBytes + bytes.size(); ++at) {
    cache->Store(key, bytes);
    {
      std::fstream file(PathOf(key), std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(at);
      const char byte = static_cast<char>(file.get() ^ 1);
      file.seekp(at);
      file.put(byte);
    }
    EXPECT_EQ(cache->Find(key), std::nullopt) << at;
    EXPECT_FALSE(fs::exists(PathOf(key))) << at;
  }
}

TEST_F(Cache, TruncatedOrExtendedEntryIsRemoved) {
  const std::string key = Key("a"), bytes = "executable";
  const auto cache = Open();
  for (size_t size = 0; size <= kHeaderBytes + bytes.size() + 1; ++size) {
    if (size == kHeaderBytes + bytes.size()) continue;
    cache->Store(key, bytes);
    fs::resize_file(PathOf(key), size);
    EXPECT_EQ(cache->Find(key), std::nullopt) << size;
    EXPECT_FALSE(fs::exists(PathOf(key))) << size;
  }
}

TEST_F(Cache, EntryUnderAnotherKeyIsCacheMiss) {
  const auto cache = Open();
  cache->Store(Key("a"), "of a");
  fs::rename(PathOf(Key("a")), PathOf(Key("b")));
  EXPECT_EQ(cache->Find(Key("b")), std::nullopt);
}

TEST_F(Cache, FileWritableByOthersIsCacheMiss) {
  const std::string key = Key("a");
  const auto cache = Open();
  cache->Store(Key("other"), "bytes");
  fs::create_symlink(PathOf(Key("other")), PathOf(key));
  EXPECT_EQ(cache->Find(key), std::nullopt) << "a link";
  EXPECT_FALSE(fs::is_symlink(PathOf(key)));

  ASSERT_EQ(::mkfifo(PathOf(key).c_str(), 0600), 0);
  EXPECT_EQ(cache->Find(key), std::nullopt) << "a pipe";

  cache->Store(key, "bytes");
  ASSERT_EQ(::chmod(PathOf(key).c_str(), 0666), 0);
  EXPECT_EQ(cache->Find(key), std::nullopt) << "others may write it";

  fs::create_directory(PathOf(key));
  EXPECT_EQ(cache->Find(key), std::nullopt) << "a folder";
  cache->Store(key, "bytes");  // cannot be stored, which is not an error
  EXPECT_EQ(cache->Find(key), std::nullopt);
}

TEST_F(Cache, EvictsLeastRecentlyUsed) {
  const std::string bytes(1000, 'x');
  const int64_t entry = kHeaderBytes + 1000;
  const auto cache = Open(3 * entry);
  for (const char* name : {"a", "b", "c"}) cache->Store(Key(name), bytes);
  UsedMinutesAgo(Key("a"), 30);
  UsedMinutesAgo(Key("b"), 20);
  UsedMinutesAgo(Key("c"), 10);
  EXPECT_TRUE(cache->Find(Key("a")).has_value());  // now the most recent
  cache->Store(Key("d"), bytes);
  EXPECT_FALSE(fs::exists(PathOf(Key("b"))));
  for (const char* name : {"a", "c", "d"}) EXPECT_TRUE(cache->Find(Key(name)).has_value()) << name;
  EXPECT_EQ(BytesInFolder(), 3 * entry);
}

TEST_F(Cache, DoesNotStoreEntriesBeyondItsSize) {
  const auto cache = Open(kHeaderBytes + 10);
  cache->Store(Key("fits"), "0123456789");
  cache->Store(Key("does not"), "0123456789a");
  EXPECT_TRUE(cache->Find(Key("fits")).has_value());
  EXPECT_EQ(cache->Find(Key("does not")), std::nullopt);
}

TEST_F(Cache, KeepsForeignFilesAndRemovesAbandonedParts) {
  const auto cache = Open(kHeaderBytes + 10);
  const std::string notes = folder_.path() + "/notes.program";
  std::ofstream(notes) << std::string(1000, 'x');
  const std::string old_part = absl::StrCat(folder_.path(), "/", Key("a"), ".1.part"),
                    new_part = absl::StrCat(folder_.path(), "/", Key("a"), ".2.part");
  std::ofstream(old_part) << "x";
  std::ofstream(new_part) << "x";
  fs::last_write_time(old_part, fs::file_time_type::clock::now() - std::chrono::hours(2));
  cache->Store(Key("a"), "0123456789");
  EXPECT_TRUE(cache->Find(Key("a")).has_value());
  EXPECT_TRUE(fs::exists(notes));
  EXPECT_FALSE(fs::exists(old_part));
  EXPECT_TRUE(fs::exists(new_part));
}

TEST_F(Cache, FullDiskIsNotAnError) {
  const auto cache = Open();
  const std::string key = Key("a");
  // Simulates a full disk in a child process, whose files are limited to 1000 bytes.
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    cache->Store(key, std::string(100000, 'x'));
    ::_exit(cache->Find(key).has_value() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(BytesInFolder(), 0);
}

// Several processes and threads write and read a few entries of a folder that is always too small:
// an entry that is found is always complete.
TEST_F(Cache, ManyProcessesAndThreadsShareFolder) {
  constexpr int kProcesses = 4, kThreads = 2, kRounds = 60, kKeys = 6;
  const int64_t max_bytes = 4 * (kHeaderBytes + 20000);
  const auto work = [&](int seed) {
    const auto cache = *CompileCache::Open({.folder = folder_.path(), .max_bytes = max_bytes});
    for (int round = 0; round < kRounds; ++round) {
      const int which = (seed * 7 + round * 5) % kKeys;
      const std::string bytes(20000, static_cast<char>('a' + which));
      const std::string key = Key(absl::StrCat(which));
      if (round % 2 == 0) cache->Store(key, bytes);
      const std::optional<std::string> found = cache->Find(key);
      if (found.has_value() && *found != bytes) return false;
    }
    return true;
  };
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      bool good[kThreads];
      std::vector<std::thread> threads;
      for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] { good[t] = work(process * kThreads + t); });
      }
      for (std::thread& thread : threads) thread.join();
      ::_exit(good[0] && good[1] ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  Open(max_bytes)->Store(Key("last"), "x");
  EXPECT_LE(BytesInFolder(), max_bytes);
}

TEST(CompileCacheFolder, IsOptionThenEnvironmentThenUserFolder) {
  const char* old = std::getenv("PENSTOCK_COMPILE_CACHE");
  const std::string saved = old == nullptr ? "" : old;
  ::setenv("PENSTOCK_COMPILE_CACHE", "/from/environment", 1);
  EXPECT_EQ(CompileCacheFolder("/asked"), "/asked");
  EXPECT_EQ(CompileCacheFolder("0"), "");
  EXPECT_EQ(CompileCacheFolder(""), "/from/environment");
  ::setenv("PENSTOCK_COMPILE_CACHE", "0", 1);
  EXPECT_EQ(CompileCacheFolder(""), "");
  ::unsetenv("PENSTOCK_COMPILE_CACHE");
  EXPECT_THAT(CompileCacheFolder(""), testing::EndsWith("/penstock/programs"));
  if (old != nullptr) ::setenv("PENSTOCK_COMPILE_CACHE", saved.c_str(), 1);
}

TEST(CompileCache, RejectsFolderThatCannotBeCreated) {
  EXPECT_FALSE(CompileCache::Open({.folder = "/proc/none/here"}).ok());
  EXPECT_FALSE(CompileCache::Open({.folder = ""}).ok());
}

}  // namespace compile_cache_test
}  // namespace penstock::runtime
