#include "penstock/remote/training/training_process.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/base/status.h"
#include "penstock/io/local/file_descriptor.h"

extern char** environ;

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

namespace penstock::remote {
namespace {

// Between looks at a training's process where the kernel has no pidfd_open (before Linux 5.3).
constexpr int kPollMilliseconds = 200;
constexpr size_t kReadBytes = size_t{16} << 10;
constexpr int kLastReads = 64;  // more than a pipe holds

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

absl::StatusOr<io::FileDescriptor> TrainingProcess::Start() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot make a pipe: ", std::strerror(errno)));
  }
  io::FileDescriptor read(ends[0]);
  const io::FileDescriptor write(ends[1]);
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
    ExecTraining(parent, write.get(), command_words.data(), environment_words.data());
  }
  if (pending_ != 0) ::kill(process_, pending_);
  return read;
}

void TrainingProcess::CopyUntilItEnds(io::FileDescriptor output) {
  const auto copy = [&] {
    char bytes[kReadBytes];
    const ssize_t got =
        io::RetryInterrupted([&] { return ::read(output.get(), bytes, sizeof(bytes)); });
    if (got > 0) options_.output(absl::string_view(bytes, static_cast<size_t>(got)));
    return got > 0;
  };
  // A process of its own may hold the pipe after the training's end.
  const io::FileDescriptor process(static_cast<int>(::syscall(SYS_pidfd_open, process_, 0U)));
  for (bool ended = false; !ended;) {
    pollfd waits[2] = {{.fd = output.get(), .events = POLLIN, .revents = 0},
                       {.fd = process.get(), .events = POLLIN, .revents = 0}};
    if (::poll(waits, 2, process.valid() ? -1 : kPollMilliseconds) < 0 && errno != EINTR) break;
    const bool copied = (waits[0].revents & POLLIN) != 0 && copy();
    if (copied && process.valid() && waits[1].revents == 0) continue;
    siginfo_t info = {};
    ended = ::waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOWAIT | WNOHANG) == 0 &&
            info.si_pid == process_;
    if (!copied && waits[0].revents != 0) break;  // it has closed both; only its end matters
  }
  // What it printed last, but not what others print on and on.
  ::fcntl(output.get(), F_SETFL, O_NONBLOCK);
  for (int i = 0; i < kLastReads && copy(); ++i) {
  }
}

absl::StatusOr<int> TrainingProcess::Run() {
  PENSTOCK_ASSIGN_OR_RETURN(io::FileDescriptor output, Start());
  CopyUntilItEnds(std::move(output));
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
