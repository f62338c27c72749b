#include "penstock/remote/training/training_process.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/base/status.h"
#include "penstock/io/local/file_descriptor.h"

extern char** environ;

namespace penstock::remote {
namespace {

std::vector<std::string> MergedEnvironment(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (changes.count(text.substr(0, text.find('='))) == 0) out.push_back(text);
  }
  for (const auto& [name, value] : changes) {
    if (!value.empty()) out.push_back(absl::StrCat(name, "=", value));
  }
  return out;
}

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

// In the child: async-signal-safe functions only.
[[noreturn]] void ExecTraining(pid_t parent, int output, char* const* command,
                               char* const* environment) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  ::setsid();  // Ctrl-C in the worker's terminal is for the worker
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGCHLD}) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null = ::open("/dev/null", O_RDONLY);
  if (null >= 0) ::dup2(null, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
#ifdef SYS_close_range
  // What libraries of the worker hold open, an accelerator for example, is not the training's.
  ::syscall(SYS_close_range, 3U, ~0U, 0U);
#endif
  ::execve(command[0], command, environment);
  const char* const error = std::strerror(errno);
  (void)!::write(STDERR_FILENO, error, std::strlen(error));
  (void)!::write(STDERR_FILENO, "\n", 1);
  ::_exit(127);
}

}  // namespace

absl::Status TrainingProcess::Start() {
  const io::FileDescriptor output(
      ::open(options_.output.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  if (!output.valid()) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot write ", options_.output, ": ", std::strerror(errno)));
  }
  std::vector<std::string> command = options_.command;
  std::vector<std::string> environment = MergedEnvironment(options_.environment);
  const std::vector<char*> command_words = Pointers(command);
  const std::vector<char*> environment_words = Pointers(environment);
  const pid_t parent = ::getpid();
  const std::lock_guard<std::mutex> lock(mutex_);
  process_ = ::fork();
  if (process_ < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot start a process: ", std::strerror(errno)));
  }
  if (process_ == 0) {
    ExecTraining(parent, output.get(), command_words.data(), environment_words.data());
  }
  if (pending_ != 0) ::kill(process_, pending_);
  return absl::OkStatus();
}

absl::StatusOr<int> TrainingProcess::Run() {
  PENSTOCK_RETURN_IF_ERROR(Start());
  siginfo_t info;
  // Leaves the id in use, so that Signal cannot meet another process.
  while (::waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOWAIT) != 0 &&
         errno == EINTR) {
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  int status = 0;
  ::waitpid(std::exchange(process_, -1), &status, 0);
  ended_ = true;
  return status;
}

void TrainingProcess::Signal(int signal) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (process_ > 0) {
    ::kill(process_, signal);
  } else if (!ended_) {
    pending_ = signal;
  }
}

}  // namespace penstock::remote
