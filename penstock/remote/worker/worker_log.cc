#include "penstock/remote/worker/worker_log.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/base/json_dump.h"
#include "penstock/base/status.h"
#include "penstock/runtime/cache/user_cache.h"

namespace penstock::remote {
namespace {

// Beginnings of lines, after the time.
constexpr absl::string_view kStarted = "started: ", kEnded = "ended: ", kCrashed = "crashed: ";
constexpr absl::string_view kPreviousRun = "the worker's previous run was ";
constexpr size_t kTimeLength = 20;  // "2026-01-02T03:04:05 "
constexpr int64_t kTailBytes = 64 << 10;
constexpr size_t kMaxLine = 4096;
constexpr auto kLockPause = std::chrono::milliseconds(50);  // between two attempts
// Between two messages on stderr about a disk that fills up repeatedly.
constexpr double kTellSeconds = 600;

// One line without control characters; text in other languages, and quotes, stay readable. Messages
// hold lines as strings, which must be UTF-8: the cut may be within a character, and the names of
// files may be anything.
std::string OneLine(absl::string_view text) {
  const std::string line = base::ReplaceInvalidUtf8(std::string(text.substr(0, kMaxLine)));
  return absl::StrReplaceAll(absl::Utf8SafeCHexEscape(line), {{"\\'", "'"}, {"\\\"", "\""}});
}

std::string StampedLine(absl::string_view text, base::Clock& clock) {
  const auto now = static_cast<std::time_t>(clock.UnixSeconds());
  std::tm parts = {};
  localtime_r(&now, &parts);
  std::string line =
      absl::StrFormat("%04d-%02d-%02dT%02d:%02d:%02d ", parts.tm_year + 1900, parts.tm_mon + 1,
                      parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
  absl::StrAppend(&line, OneLine(text), text.size() > kMaxLine ? "..." : "", "\n");
  return line;
}

// If the log is a pipe without a reader, lines are dropped and the worker continues.
absl::StatusOr<io::FileDescriptor> OpenForAppending(const std::string& path) {
  io::FileDescriptor file(::open(
      path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (file.valid()) return file;
  return absl::FailedPreconditionError(absl::StrCat("cannot write the log ", path, ": ",
                                                    std::strerror(errno),
                                                    "; choose another file with --log"));
}

// Appends a line whole or not at all; returns 0 or an errno.
int AppendLine(const io::FileDescriptor& file, absl::string_view line) {
  struct stat before = {};
  const bool is_file = ::fstat(file.get(), &before) == 0 && S_ISREG(before.st_mode);
  const ssize_t written =
      io::RetryInterrupted([&] { return ::write(file.get(), line.data(), line.size()); });
  if (written == static_cast<ssize_t>(line.size())) return 0;
  const int error = written < 0 ? errno : ENOSPC;
  // What is left of a line that did not fit would be the beginning of the next one.
  if (written > 0 && is_file) (void)!::ftruncate(file.get(), before.st_size);
  return error;
}

// Whether no other worker writes the file, also after `patience_seconds`. A file system without locks has no others.
bool LockFile(const io::FileDescriptor& file, double patience_seconds) {
  base::Clock& clock = *base::Clock::Real();
  const double until = clock.Seconds() + patience_seconds;
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return true;
    if (clock.Seconds() >= until) return false;
    std::this_thread::sleep_for(kLockPause);
  }
  return true;
}

// The end of a file, from the beginning of a line.
std::string ReadTail(int file) {
  struct stat info = {};
  if (::fstat(file, &info) != 0) return "";
  const int64_t begin = std::max<int64_t>(0, info.st_size - kTailBytes);
  std::string tail(static_cast<size_t>(info.st_size - begin), '\0');
  const ssize_t read = ::pread(file, tail.data(), tail.size(), begin);
  tail.resize(read < 0 ? 0 : static_cast<size_t>(read));
  if (begin > 0) tail.erase(0, std::min(tail.find('\n'), tail.size() - 1) + 1);
  return base::ReplaceInvalidUtf8(tail);
}

absl::string_view TextOf(absl::string_view line) {
  return line.size() < kTimeLength ? "" : line.substr(kTimeLength);
}

std::vector<std::string> LinesOf(absl::string_view text) {
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

}  // namespace

std::string PreviousEnd(absl::string_view tail) {
  std::vector<std::string> lines = LinesOf(tail);
  // Of a worker that crashes repeatedly, each end would contain the one before, and those before that.
  std::erase_if(
      lines, [](absl::string_view line) { return absl::StartsWith(TextOf(line), kPreviousRun); });
  if (lines.empty()) return "";
  size_t begin = 0;  // of the last run
  std::string crash;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (absl::StartsWith(TextOf(lines[i]), kStarted)) begin = i;
  }
  for (size_t i = begin; i < lines.size(); ++i) {
    if (absl::StartsWith(TextOf(lines[i]), kEnded)) return "";
    if (absl::StartsWith(TextOf(lines[i]), kCrashed)) {
      crash = std::string(TextOf(lines[i]).substr(kCrashed.size()));
    }
  }
  const size_t kept = std::min<size_t>(lines.size() - begin, WorkerLog::kEndLines);
  return absl::StrCat(
      kPreviousRun,
      crash.empty() ? "killed or crashed, without a word (out of memory, or the machine stopped)"
                    : crash,
      "; the end of its log:\n  ",
      absl::StrJoin(lines.end() - static_cast<int64_t>(kept), lines.end(), "\n  "));
}

absl::StatusOr<std::unique_ptr<WorkerLog>> WorkerLog::Open(const WorkerLogOptions& options) {
  std::unique_ptr<WorkerLog> log(new WorkerLog(options));
  if (options.path.empty()) return log;
  if (const std::filesystem::path folder = std::filesystem::path(options.path).parent_path();
      !folder.empty()) {
    std::error_code ignored;  // opening the file reports it
    std::filesystem::create_directories(folder, ignored);
  }
  PENSTOCK_ASSIGN_OR_RETURN(log->file_, OpenForAppending(options.path));
  // Any number of workers may write to a device, such as /dev/null, or to a pipe; there is nothing to read back.
  struct stat info = {};
  if (::fstat(log->file_.get(), &info) == 0 && !S_ISREG(info.st_mode)) {
    PENSTOCK_RETURN_IF_ERROR(log->Begin());
    return log;
  }
  if (!LockFile(log->file_, options.patience_seconds)) {
    return absl::FailedPreconditionError(
        absl::StrCat("another worker writes the log ", options.path,
                     "; choose another file with --log, or another port with --listen"));
  }
  log->previous_end_ = PreviousEnd(ReadTail(log->file_.get()));
  PENSTOCK_RETURN_IF_ERROR(log->Begin());
  return log;
}

absl::Status WorkerLog::Begin() {
  const int error = AppendLine(
      file_, StampedLine(absl::StrCat(kStarted, "process ", ::getpid()), *options_.clock));
  if (error == 0 || error == EAGAIN) return absl::OkStatus();  // a pipe that is read later
  return absl::FailedPreconditionError(
      absl::StrCat("cannot write the log ", options_.path, ": ", std::strerror(error),
                   "; make room there, or choose another file with --log"));
}

WorkerLog::~WorkerLog() {
  if (lost_ > 0) {
    std::fprintf(stderr, "worker: %lld lines of the log %s were lost: %s\n",
                 static_cast<long long>(lost_), options_.path.c_str(), std::strerror(lost_error_));
  }
}

void WorkerLog::Line(absl::string_view text) {
  if (options_.to_stderr) {
    std::fprintf(stderr, "worker: %s\n", OneLine(text).c_str());
  }
  Write(text);
}

void WorkerLog::ClientLine(absl::string_view text) {
  int64_t left_out = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const double now = options_.clock->Seconds();
    lines_left_ = std::min(kBurst, lines_left_ + (now - counted_) * kPerSecond);
    counted_ = now;
    if (lines_left_ < 1) {
      ++left_out_;
      return;
    }
    lines_left_ -= 1;
    left_out = std::exchange(left_out_, 0);
  }
  Line(left_out == 0
           ? std::string(text)
           : absl::StrCat(text, " (", left_out, " lines about clients were left out before)"));
}

void WorkerLog::End(absl::string_view reason) { Write(absl::StrCat(kEnded, reason)); }

void WorkerLog::Write(absl::string_view text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!file_.valid()) return;
  struct stat info = {};
  if (::fstat(file_.get(), &info) == 0 && info.st_size > kMaxBytes) {
    ::rename(options_.path.c_str(), absl::StrCat(options_.path, ".1").c_str());
    absl::StatusOr<io::FileDescriptor> next = OpenForAppending(options_.path);
    if (next.ok()) {
      file_ = *std::move(next);
      ::flock(file_.get(), LOCK_EX | LOCK_NB);
      AppendLocked(
          absl::StrCat(kStarted, "process ", ::getpid(), ", continued from ", options_.path, ".1"));
    }
  }
  AppendLocked(text);
}

void WorkerLog::AppendLocked(absl::string_view text) {
  int error = 0;
  if (lost_ > 0) {
    error = AppendLine(
        file_,
        StampedLine(absl::StrCat(lost_, " lines were lost here: ", std::strerror(lost_error_)),
                    *options_.clock));
    if (error == 0 && std::exchange(told_, false)) {
      std::fprintf(stderr, "worker: the log %s can be written again; %lld lines were lost\n",
                   options_.path.c_str(), static_cast<long long>(lost_));
    }
    if (error == 0) lost_ = 0;
  }
  if (error == 0) error = AppendLine(file_, StampedLine(text, *options_.clock));
  if (error == 0) return;
  lost_error_ = error;
  const double now = options_.clock->Seconds();
  if (++lost_ > 1 || now < tell_after_) return;
  told_ = true;
  tell_after_ = now + kTellSeconds;
  std::fprintf(stderr,
               "worker: cannot write the log %s: %s; its lines are lost until that is possible "
               "again, and the worker goes on\n",
               options_.path.c_str(), std::strerror(error));
}

int64_t WorkerLog::lost() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return lost_;
}

std::vector<std::string> WorkerLog::Tail(size_t count) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!file_.valid()) return {};
  std::vector<std::string> lines = LinesOf(ReadTail(file_.get()));
  if (lines.size() > count) {
    lines.erase(lines.begin(), lines.end() - static_cast<int64_t>(count));
  }
  return lines;
}

int64_t WorkerLog::bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  struct stat info = {};
  return file_.valid() && ::fstat(file_.get(), &info) == 0 ? info.st_size : 0;
}

void NoteCrash(const std::string& path, absl::string_view what, base::Clock* clock) {
  if (path.empty()) return;
  const absl::StatusOr<io::FileDescriptor> file = OpenForAppending(path);
  const int error =
      file.ok() ? AppendLine(*file, StampedLine(absl::StrCat(kCrashed, what), *clock)) : 0;
  if (file.ok() && error == 0) return;
  std::fprintf(stderr, "worker: %s; %s\n", std::string(what).c_str(),
               file.ok()
                   ? absl::StrCat("cannot note it in ", path, ": ", std::strerror(error)).c_str()
                   : std::string(file.status().message()).c_str());
}

std::string DefaultLogPath(const std::string& listen) {
  if (absl::EndsWith(listen, ":0")) return "";
  std::string name = listen;
  for (char& c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-') c = '_';
  }
  return absl::StrCat(runtime::UserCacheFolder(), "/worker-", name, ".log");
}

}  // namespace penstock::remote
