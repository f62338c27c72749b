#include "penstock/runtime/pjrt/plugin_log.h"

#include <cstdio>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include <gtest/gtest.h>
#include <unistd.h>

namespace penstock::runtime {
namespace plugin_log_test {

std::string FileOf(const char* test) {
  const std::string path = absl::StrCat(testing::TempDir(), "/", test, ".", ::getpid(), ".log");
  ::unlink(path.c_str());
  return path;
}

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

TEST(StderrToLog, CapturesStderrOnlyDuringScope) {
  const std::string path = FileOf("meanwhile");
  testing::internal::CaptureStderr();
  std::fprintf(stderr, "before ");
  {
    const StderrToLog redirected(path);
    std::fprintf(stderr, "during");
  }
  std::fprintf(stderr, "after");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "before after");
  EXPECT_EQ(Contents(path), "during");
}

TEST(StderrToLog, AppendsUntilLogIsLong) {
  const std::string path = FileOf("long");
  std::ofstream(path) << "earlier ";
  {
    const StderrToLog redirected(path);
    std::fprintf(stderr, "later");
  }
  EXPECT_EQ(Contents(path), "earlier later");
  std::ofstream(path) << std::string(2 << 20, 'x');
  {
    const StderrToLog redirected(path);
    std::fprintf(stderr, "new");
  }
  EXPECT_EQ(Contents(path), "new");
}

TEST(StderrToLog, WithoutLogStderrIsUnchanged) {
  testing::internal::CaptureStderr();
  {
    const StderrToLog redirected("/nonexistent/folder/plugins.log");
    std::fprintf(stderr, "seen");
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "seen");
}

TEST(LogPath, IsInUserCacheByDefault) {
  EXPECT_EQ(LogPath("/some/where.log"), "/some/where.log");
  const std::string cache = testing::TempDir() + "/cache";
  const char* old = std::getenv("XDG_CACHE_HOME");
  const std::string saved = old == nullptr ? "" : old;
  ::setenv("XDG_CACHE_HOME", cache.c_str(), 1);
  EXPECT_EQ(LogPath(""), cache + "/penstock/plugins.log");
  EXPECT_EQ(::access((cache + "/penstock").c_str(), W_OK), 0);
  old == nullptr ? ::unsetenv("XDG_CACHE_HOME") : ::setenv("XDG_CACHE_HOME", saved.c_str(), 1);
}

}  // namespace plugin_log_test
}  // namespace penstock::runtime
