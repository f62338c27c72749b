#include "penstock/base/available_memory.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace penstock::base {
namespace available_memory_test {

// A temporary folder with files that stand for /proc and /sys.
class FakeRoot {
 public:
  explicit FakeRoot(const std::string& name)
      : path_(std::string(::testing::TempDir()) + "/available_memory_" + name) {
    std::filesystem::remove_all(path_);
  }
  ~FakeRoot() { std::filesystem::remove_all(path_); }

  FakeRoot& Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = path_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
    return *this;
  }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

constexpr char kMeminfo[] = "MemTotal:  2000 kB\nMemFree:  10 kB\nMemAvailable:    1000 kB\n";

TEST(AvailableMemory, MatchesMemAvailable) {
  FakeRoot root("machine");
  root.Write("/proc/meminfo", kMeminfo).Write("/proc/self/cgroup", "0::/\n");
  EXPECT_EQ(AvailableMemory(root.path()).bytes, 1'024'000);
  EXPECT_EQ(AvailableMemory(root.path()).limited_by, "this machine");
}

TEST(AvailableMemory, IsLimitedByAncestorCgroups) {
  FakeRoot root("v2");
  root.Write("/proc/meminfo", kMeminfo)
      .Write("/proc/self/cgroup", "0::/job/step\n")
      .Write("/sys/fs/cgroup/job/step/memory.max", "max\n")
      .Write("/sys/fs/cgroup/job/step/memory.current", "100\n")
      .Write("/sys/fs/cgroup/job/memory.max", "5000\n")
      .Write("/sys/fs/cgroup/job/memory.current", "4000\n")
      .Write("/sys/fs/cgroup/job/memory.stat", "anon 900\ninactive_file 300\nactive_file 200\n");
  EXPECT_EQ(AvailableMemory(root.path()).bytes, 5000 - (4000 - 300 - 200));
  EXPECT_EQ(AvailableMemory(root.path()).limited_by, "the cgroup '/job'");
}

TEST(AvailableMemory, SupportsCgroupVersion1) {
  FakeRoot root("v1");
  // The path belongs to the host and is not mounted in the container.
  root.Write("/proc/meminfo", kMeminfo)
      .Write("/proc/self/cgroup", "5:cpu,cpuacct:/docker/ab\n4:memory:/docker/ab\n")
      .Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9000\n")
      .Write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "9500\n")
      .Write("/sys/fs/cgroup/memory/memory.stat", "total_inactive_file 700\n");
  EXPECT_EQ(AvailableMemory(root.path()).bytes, 200);
  root.Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(AvailableMemory(root.path()).bytes, 1'024'000);
}

TEST(AvailableMemory, IsUnlimitedIfUnknown) {
  EXPECT_EQ(AvailableMemory(FakeRoot("empty").path()).bytes, INT64_MAX);
}

TEST(AvailableMemory, IsPositiveOnThisMachine) {
  EXPECT_GT(AvailableMemory().bytes, 0);
  EXPECT_FALSE(AvailableMemory().limited_by.empty());
}

TEST(PrintBytes, RoundsToReadableUnits) {
  EXPECT_EQ(PrintBytes(1023), "1023 bytes");
  EXPECT_EQ(PrintBytes(1536), "1.5 KiB");
  EXPECT_EQ(PrintBytes(int64_t{300} << 20), "300 MiB");
  EXPECT_EQ(PrintBytes(INT64_MAX), "8.0 EiB");
}

}  // namespace available_memory_test
}  // namespace penstock::base
