#include "penstock/runtime/pjrt/plugin_log.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <system_error>

#include "absl/strings/str_cat.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/runtime/cache/user_cache.h"

namespace penstock::runtime {
namespace {

// Size beyond which the log is truncated.
constexpr off_t kMaxLogBytes = 1 << 20;

std::mutex& RedirectionMutex() {
  static auto& mutex = *new std::mutex;
  return mutex;
}

int OpenLog(const std::string& path) {
  const int log = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  struct stat status;
  if (log >= 0 && ::fstat(log, &status) == 0 && status.st_size > kMaxLogBytes) {
    // If this fails, the file is only longer than intended.
    [[maybe_unused]] const int result = ::ftruncate(log, 0);
  }
  return log;
}

}  // namespace

std::string LogPath(const std::string& asked) {
  if (!asked.empty()) return asked;
  const std::string folder = UserCacheFolder();
  std::error_code error;  // seen again, and handled, when the log is opened
  std::filesystem::create_directories(folder, error);
  return folder + "/plugins.log";
}

void WriteToLog(const std::string& path, absl::string_view line) {
  const int log = OpenLog(path);
  if (log < 0) return;
  const std::string text = absl::StrCat("penstock: ", line, "\n");
  [[maybe_unused]] const ssize_t written = ::write(log, text.data(), text.size());
  ::close(log);
}

StderrToLog::StderrToLog(const std::string& path) {
  RedirectionMutex().lock();
  const int log = OpenLog(path);
  if (log < 0) return;
  std::fflush(stderr);
  saved_ = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
  if (saved_ >= 0) ::dup2(log, STDERR_FILENO);
  ::close(log);
}

StderrToLog::~StderrToLog() {
  if (saved_ >= 0) {
    std::fflush(stderr);
    ::dup2(saved_, STDERR_FILENO);
    ::close(saved_);
  }
  RedirectionMutex().unlock();
}

}  // namespace penstock::runtime
