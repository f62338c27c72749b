// `penstock worker` as a process of its own, with its own environment, for tests.
#pragma once

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace penstock::tests {

class WorkerProcess {
 public:
  // `arguments` follow "worker --device cpu"; `environment`: "NAME=VALUE", in addition to the test's.
  explicit WorkerProcess(const std::vector<std::string>& arguments,
                         const std::vector<std::string>& environment = {})
      : arguments_(arguments), environment_(environment) {
    Start("127.0.0.1:0");
    const std::string before = "listening on ";
    std::string text;
    char byte = 0;
    // The pipe ends with the process, and ctest ends a test that hangs.
    while (::read(output_, &byte, 1) == 1) {
      text += byte;
      const size_t begin = text.find(before);
      if (begin == std::string::npos || byte != ',') continue;
      address_ = text.substr(begin + before.size(), text.size() - begin - before.size() - 1);
      break;
    }
    EXPECT_FALSE(address_.empty()) << text;
  }
  ~WorkerProcess() { Kill(); }
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  const std::string& address() const { return address_; }

  // SIGKILL. Returns when the process has ended.
  void Kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    ::close(output_);
    process_ = -1;
  }
  // Starts it again at the same address, after Kill. Does not wait until it listens: clients do.
  void StartAgain() { Start(address_); }

 private:
  void Start(const std::string& listen) {
    std::vector<std::string> command = {PENSTOCK_PROGRAM, "worker", "--device", "cpu",
                                        "--listen",       listen};
    command.insert(command.end(), arguments_.begin(), arguments_.end());
    std::vector<std::string> variables = environment_;
    variables.push_back("GCE_METADATA_HOST=off");
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string variable = *entry;
      const std::string name = variable.substr(0, variable.find('=') + 1);
      bool replaced = false;
      for (const std::string& own : variables) replaced = replaced || own.rfind(name, 0) == 0;
      if (!replaced) variables.push_back(variable);
    }
    std::vector<char*> words, values;
    for (std::string& word : command) words.push_back(word.data());
    for (std::string& value : variables) values.push_back(value.data());
    words.push_back(nullptr);
    values.push_back(nullptr);
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    output_ = ends[0];
    process_ = ::fork();
    if (process_ == 0) {  // only async-signal-safe functions
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(ends[1], STDOUT_FILENO);
      ::dup2(ends[1], STDERR_FILENO);
      ::execve(words[0], words.data(), values.data());
      ::_exit(127);
    }
    ::close(ends[1]);
  }

  const std::vector<std::string> arguments_, environment_;
  std::string address_;
  pid_t process_ = -1;
  int output_ = -1;
};

}  // namespace penstock::tests
