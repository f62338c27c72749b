#include "penstock/remote/worker/supervisor.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/base/status.h"
#include "penstock/io/local/file_descriptor.h"
#include "penstock/remote/worker/worker_log.h"

namespace penstock::remote {
namespace {

constexpr size_t kKeptMessages = 20, kMaxMessage = 1000;

absl::Status SystemError(absl::string_view what) {
  return absl::InternalError(absl::StrCat(what, ": ", std::strerror(errno)));
}

// Blocks the signals that a supervisor reads, until it is destroyed.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigemptyset(&signals_);
    for (const int signal : {SIGTERM, SIGINT, SIGCHLD}) sigaddset(&signals_, signal);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  const sigset_t& signals() const { return signals_; }
  const sigset_t& before() const { return before_; }

 private:
  sigset_t signals_ = {}, before_ = {};
};

// The last messages of a child that are no lines of its log.
class LastMessages {
 public:
  void Add(absl::string_view bytes) {
    for (const char c : bytes) {
      if (c == '\n') {
        EndLine();
      } else if (line_.size() < kMaxMessage) {
        line_ += c;
      }
    }
  }
  std::string Take() {
    EndLine();
    std::string all = absl::StrJoin(messages_, " | ");
    messages_.clear();
    return all;
  }

 private:
  void EndLine() {
    if (!line_.empty() && !absl::StartsWith(line_, "worker: ")) messages_.push_back(line_);
    if (messages_.size() > kKeptMessages) messages_.pop_front();
    line_.clear();
  }
  std::string line_;
  std::deque<std::string> messages_;
};

class Supervisor {
 public:
  explicit Supervisor(const SupervisorOptions& options) : options_(options) {}

  absl::StatusOr<int> Run() {
    signals_ = io::FileDescriptor(::signalfd(-1, &blocked_.signals(), SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_.valid()) return SystemError("signalfd");
    double delay = options_.first_delay_seconds;
    for (int crashes = 0;; ++crashes) {
      const double begin = base::Clock::Real()->Seconds();
      PENSTOCK_ASSIGN_OR_RETURN(const int status, RunOnce());
      const bool crashed = WIFSIGNALED(status) || WEXITSTATUS(status) != 0;
      const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      if (!crashed || (stopping_ && WIFEXITED(status))) return code;
      const std::string what = Describe(status);
      NoteCrash(options_.log_file, what);
      if (stopping_ || (crashes == 0 && WIFEXITED(status))) return code;
      if (options_.max_restarts > 0 && crashes >= options_.max_restarts) return code;
      if (base::Clock::Real()->Seconds() - begin > 60) delay = options_.first_delay_seconds;
      Say(absl::StrCat("the worker was ", what, "; starting it again in ", LegibleDelay(delay)));
      if (Pause(delay)) return code;
      delay = std::min(2 * delay, options_.max_delay_seconds);
    }
  }

 private:
  static std::string LegibleDelay(double seconds) {
    return absl::StrCat(static_cast<int64_t>(seconds), " s");
  }
  static void Say(const std::string& line) {
    const std::string text = absl::StrCat("supervisor: ", line, "\n");
    (void)!::write(STDERR_FILENO, text.data(), text.size());
  }

  // Starts the command; its stderr is a pipe.
  absl::StatusOr<io::FileDescriptor> Start() {
    std::vector<char*> arguments;
    for (const std::string& word : options_.command) {
      arguments.push_back(const_cast<char*>(word.c_str()));
    }
    arguments.push_back(nullptr);
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return SystemError("pipe");
    io::FileDescriptor read(ends[0]), write(ends[1]);
    const pid_t parent = ::getpid();
    child_ = ::fork();
    if (child_ < 0) return SystemError("fork");
    if (child_ == 0) {  // only async-signal-safe functions
      ::prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (::getppid() != parent) ::_exit(1);
      ::dup2(write.get(), STDERR_FILENO);
      pthread_sigmask(SIG_SETMASK, &blocked_.before(), nullptr);
      ::execv(arguments[0], arguments.data());
      const char* const error = std::strerror(errno);
      (void)!::write(STDERR_FILENO, error, std::strlen(error));
      ::_exit(127);
    }
    return read;
  }

  // Runs the command once; its wait status.
  absl::StatusOr<int> RunOnce() {
    PENSTOCK_ASSIGN_OR_RETURN(io::FileDescriptor messages, Start());
    for (;;) {
      pollfd waits[2] = {{.fd = messages.get(), .events = POLLIN, .revents = 0},
                         {.fd = signals_.get(), .events = POLLIN, .revents = 0}};
      if (::poll(waits, 2, -1) < 0 && errno != EINTR) return SystemError("poll");
      if ((waits[0].revents & POLLIN) != 0) Copy(messages.get());
      ReadSignals();
      int status = 0;
      const pid_t ended = ::waitpid(child_, &status, WNOHANG);
      if (ended == child_) {
        child_ = -1;
        ::fcntl(messages.get(), F_SETFL, O_NONBLOCK);
        while (Copy(messages.get())) {
        }
        return status;
      }
      // Its descendants may hold the pipe; or it closed stderr itself, and only its end matters.
      if ((waits[0].revents & (POLLHUP | POLLERR)) != 0 && (waits[0].revents & POLLIN) == 0) {
        messages = io::FileDescriptor();
      }
    }
  }

  bool Copy(int from) {
    char bytes[4096];
    const ssize_t count = ::read(from, bytes, sizeof(bytes));
    if (count <= 0) return false;
    (void)!::write(STDERR_FILENO, bytes, static_cast<size_t>(count));
    last_.Add(absl::string_view(bytes, static_cast<size_t>(count)));
    return true;
  }

  void ReadSignals() {
    signalfd_siginfo info;
    while (::read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
      if (info.ssi_signo == SIGCHLD) continue;
      stopping_ = true;
      if (child_ > 0) ::kill(child_, static_cast<int>(info.ssi_signo));
    }
  }

  // Returns whether to stop.
  bool Pause(double seconds) {
    const double end = base::Clock::Real()->Seconds() + seconds;
    for (;;) {
      const double left = end - base::Clock::Real()->Seconds();
      if (left <= 0 || stopping_) return stopping_;
      pollfd wait = {.fd = signals_.get(), .events = POLLIN, .revents = 0};
      ::poll(&wait, 1, static_cast<int>(left * 1000) + 1);
      ReadSignals();
    }
  }

  std::string Describe(int status) {
    std::string what = WIFSIGNALED(status)
                           ? absl::StrCat("killed by signal ", WTERMSIG(status), " (",
                                          SignalName(WTERMSIG(status)), ")")
                           : absl::StrCat("ended with exit code ", WEXITSTATUS(status));
    if (const std::string last = last_.Take(); !last.empty()) {
      absl::StrAppend(&what, ", after: ", last);
    }
    return what;
  }

  const SupervisorOptions& options_;
  const BlockedSignals blocked_;
  io::FileDescriptor signals_;
  pid_t child_ = -1;
  bool stopping_ = false;
  LastMessages last_;
};

}  // namespace

std::string SignalName(int signal) {
  const char* const name = ::sigabbrev_np(signal);
  return name == nullptr ? absl::StrCat("signal ", signal) : absl::StrCat("SIG", name);
}

absl::StatusOr<int> Supervise(const SupervisorOptions& options) {
  if (options.command.empty()) return absl::InvalidArgumentError("no command to supervise");
  return Supervisor(options).Run();
}

}  // namespace penstock::remote
