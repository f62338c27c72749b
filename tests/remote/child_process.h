// Child processes of tests: any command, and `penstock worker`.
#pragma once

#include <algorithm>
#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace penstock::tests {

inline constexpr auto kProcessLimit = std::chrono::seconds(120);

// A child process. Its stderr and stdout are a pipe.
class Process {
 public:
  explicit Process(std::vector<std::string> command) {
    std::vector<char*> words;
    for (std::string& word : command) words.push_back(word.data());
    words.push_back(nullptr);
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    output_ = ends[0];
    process_ = ::fork();
    if (process_ == 0) {  // only async-signal-safe functions
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(ends[1], STDOUT_FILENO);
      ::dup2(ends[1], STDERR_FILENO);
      ::execv(words[0], words.data());
      ::_exit(127);
    }
    ::close(ends[1]);
  }
  ~Process() {
    Kill();
    ::close(output_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Waits for the end; its exit code, or 128 + the signal.
  int AwaitEnd() {
    char bytes[4096];
    for (ssize_t count; (count = ::read(output_, bytes, sizeof(bytes))) > 0;) {
      all_.append(bytes, static_cast<size_t>(count));
    }
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  pid_t id() const { return process_; }
  const std::string& output() const { return all_; }

  void Kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = -1;
  }

  // The next line of its output that contains `text`; empty when it has ended, or after kProcessLimit.
  std::string AwaitLine(const std::string& text) {
    const auto deadline = std::chrono::steady_clock::now() + kProcessLimit;
    for (;;) {
      for (size_t end; (end = pending_.find('\n')) != std::string::npos;) {
        const std::string line = pending_.substr(0, end);
        pending_.erase(0, end + 1);
        all_ += line + "\n";
        if (absl::StrContains(line, text)) return line;
      }
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          deadline - std::chrono::steady_clock::now());
      pollfd wait = {.fd = output_, .events = POLLIN, .revents = 0};
      char bytes[4096];
      ssize_t count = 0;
      if (::poll(&wait, 1, static_cast<int>(std::max<int64_t>(0, left.count()))) > 0) {
        count = ::read(output_, bytes, sizeof(bytes));
      }
      if (count <= 0) {
        ADD_FAILURE() << "no line with '" << text << "' in:\n" << all_ << pending_;
        return "";
      }
      pending_.append(bytes, static_cast<size_t>(count));
    }
  }

 private:
  pid_t process_ = -1;
  int output_ = -1;
  std::string pending_, all_;
};

// `penstock worker` on a CPU device; started again on the same port.
class WorkerProcess {
 public:
  explicit WorkerProcess(std::string log, int lease = 600, std::vector<std::string> more = {})
      : log_(std::move(log)), lease_(lease), more_(std::move(more)) {
    Start("127.0.0.1:0");
    const std::string before = "listening on ";
    const std::string line = process_->AwaitLine(before);
    if (line.empty()) return;
    const size_t begin = line.find(before) + before.size();
    address_ = line.substr(begin, line.find(',', begin) - begin);
  }

  // Does not wait until it listens: clients do.
  void KillAndStartAgain() {
    process_->Kill();
    Start(address_);
  }

  const std::string& address() const { return address_; }
  Process& process() { return *process_; }

 private:
  void Start(const std::string& listen) {
    std::vector<std::string> command = {PENSTOCK_PROGRAM, "worker",
                                        "--listen",       listen,
                                        "--device",       "cpu",
                                        "--log",          log_,
                                        "--lease",        absl::StrCat(lease_)};
    command.insert(command.end(), more_.begin(), more_.end());
    process_.emplace(command);
  }

  const std::string log_;
  const int lease_;
  const std::vector<std::string> more_;
  std::string address_;
  std::optional<Process> process_;
};

}  // namespace penstock::tests
