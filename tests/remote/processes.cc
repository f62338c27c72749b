#include "tests/remote/processes.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace penstock::tests {

Process::Process(std::vector<std::string> command, std::vector<std::string> variables) {
  std::vector<char*> words, environment;
  variables.push_back(
      "GTEST_OUTPUT=");  // a test program's child is not a test of its own in the report
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  for (std::string& variable : variables) environment.push_back(variable.data());
  for (char** variable = environ; *variable != nullptr; ++variable) {
    environment.push_back(*variable);
  }
  environment.push_back(nullptr);
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  output_ = ends[0];
  process_ = ::fork();
  if (process_ == 0) {  // only async-signal-safe functions
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(ends[1], STDOUT_FILENO);
    ::dup2(ends[1], STDERR_FILENO);
    ::execve(words[0], words.data(), environment.data());
    ::_exit(127);
  }
  ::close(ends[1]);
}

Process::~Process() {
  Kill();
  if (reader_.joinable()) reader_.join();
  ::close(output_);
}

void Process::DropOutput() {
  reader_ = std::thread([this] {
    char bytes[4096];
    while (::read(output_, bytes, sizeof(bytes)) > 0) continue;
  });
}

bool Process::running() const { return process_ > 0 && ::kill(process_, 0) == 0; }

void Process::Kill() {
  if (process_ <= 0) return;
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
  process_ = -1;
}

int Process::AwaitEnd() {
  char bytes[4096];
  for (ssize_t count; !reader_.joinable() && (count = ::read(output_, bytes, sizeof(bytes))) > 0;) {
    pending_.append(bytes, static_cast<size_t>(count));
  }
  all_ += pending_;
  pending_.clear();
  int status = 0;
  ::waitpid(process_, &status, 0);
  process_ = -1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string Process::AwaitLine(const std::string& text) {
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

WorkerProcess::WorkerProcess(const WorkerProcessOptions& options)
    : options_(options), log_(options.folder + "/log"), temporary_(options.folder + "/temporary") {
  std::filesystem::create_directory(temporary_);
  Start("127.0.0.1:0");
  const std::string before = "listening on ";
  // Not the line about the end of the last run, which may quote what that one said.
  const std::string line = process_->AwaitLine("worker: cpu, ");
  if (line.empty()) return;
  const size_t begin = line.find(before) + before.size();
  address_ = absl::StrCat(options.tls ? "grpcs://" : "grpc://",
                          line.substr(begin, line.find(',', begin) - begin));
  if (options_.drop_output) process_->DropOutput();
}

WorkerProcess::~WorkerProcess() {
  process_.reset();
  if (kept_port_ >= 0) ::close(kept_port_);
}

void WorkerProcess::Kill() {
  process_->Kill();
  if (kept_port_ >= 0) return;
  // Bound, not listening: connections are refused, and a worker that allows it, as ours do, can bind to it, too.
  kept_port_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  ::setsockopt(kept_port_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<uint16_t>(port()));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::bind(kept_port_, reinterpret_cast<const sockaddr*>(&at), sizeof(at)), 0)
      << address_ << ": " << std::strerror(errno);
}

void WorkerProcess::KillAndStartAgain() {
  Kill();
  StartAgain();
}

void WorkerProcess::StartAgain() {
  Start(address_.substr(address_.rfind('/') + 1));
  if (options_.drop_output) process_->DropOutput();
}

void WorkerProcess::Start(const std::string& listen) {
  std::vector<std::string> command = {PENSTOCK_PROGRAM, "worker",
                                      "--listen",       listen,
                                      "--device",       "cpu",
                                      "--log",          log_,
                                      "--lease",        absl::StrCat(options_.lease)};
  command.insert(command.end(), options_.arguments.begin(), options_.arguments.end());
  std::vector<std::string> variables = options_.variables;
  variables.push_back(absl::StrCat("TMPDIR=", temporary_));
  variables.push_back("GCE_METADATA_HOST=off");
  process_ = std::make_unique<Process>(std::move(command), std::move(variables));
}

int WorkerProcess::port() const { return std::atoi(address_.c_str() + address_.rfind(':') + 1); }

std::vector<std::string> WorkerProcess::LogLines() const {
  std::vector<std::string> lines;
  std::ifstream in(log_);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> WorkerProcess::TemporaryFiles() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(temporary_)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

Held HeldBy(pid_t process) {
  const std::string folder = absl::StrCat("/proc/", process);
  Held held;
  std::ifstream in(folder + "/status");
  for (std::string word; in >> word;) {
    if (word == "VmRSS:") {
      in >> held.megabytes;
      held.megabytes /= 1024;
    } else if (word == "Threads:") {
      in >> held.threads;
    }
  }
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder + "/fd", error), end; it != end;
       it.increment(error)) {
    ++held.descriptors;
  }
  return held;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = testing::TempDir() + "remote_test_XXXXXX";
  path_ = ::mkdtemp(pattern.data());
}
TemporaryFolder::~TemporaryFolder() { std::filesystem::remove_all(path_); }

}  // namespace penstock::tests
