#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/base/status.h"
#include "penstock/remote/client.h"

#include "bench/remote/remote.h"

extern char** environ;

namespace penstock::remote {
namespace {

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

std::string ReadLine(int file) {
  std::string line;
  for (char c; ::read(file, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

}  // namespace

double OwnCpuSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
}

absl::StatusOr<std::string> OwnPath() {
  std::string path(4096, '\0');
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0) return absl::InternalError("/proc/self/exe cannot be read");
  path.resize(static_cast<size_t>(length));
  return path;
}

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(
    const std::vector<std::string>& command) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return absl::InternalError("pipe2 failed");
  auto child = std::unique_ptr<ChildProcess>(new ChildProcess());
  child->output_ = ends[0];
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  const int error =
      posix_spawn(&child->process_, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (error != 0) {
    child->process_ = -1;
    return absl::NotFoundError(absl::StrCat(command[0], ": ", std::strerror(error)));
  }
  child->line_ = ReadLine(child->output_);
  if (child->line_.empty()) {
    return absl::InternalError(absl::StrCat(command[0], " ended without a line of output"));
  }
  return child;
}

ChildProcess::~ChildProcess() {
  if (process_ > 0) {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  ::close(output_);
}

double ChildProcess::CpuSeconds() const {
  const int file = ::open(absl::StrCat("/proc/", process_, "/stat").c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const std::string line = ReadLine(file);
  ::close(file);
  // utime and stime are fields 14 and 15; the second field, in parentheses, may contain spaces.
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::string_view(line).substr(line.rfind(')') + 1), ' ');
  double ticks = 0;
  for (const size_t i : {size_t{12}, size_t{13}}) {
    double value = 0;
    if (i < fields.size() && absl::SimpleAtod(fields[i], &value)) ticks += value;
  }
  return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

absl::StatusOr<std::unique_ptr<BenchWorker>> BenchWorker::Start(const Options& options) {
  std::vector<std::string> command = {options.program, "worker",      "--device", "cpu",
                                      "--listen",      "127.0.0.1:0", "--log",    "/dev/null"};
  if (!options.readable.empty()) command.insert(command.end(), {"--read", options.readable + "/"});
  auto worker = std::unique_ptr<BenchWorker>(new BenchWorker());
  ::setenv("GCE_METADATA_HOST", "off", 1);  // nobody announces maintenance
  PENSTOCK_ASSIGN_OR_RETURN(worker->process_, ChildProcess::Start(command));
  const std::string& line = worker->process_->line();
  constexpr absl::string_view kBefore = "listening on ";
  const size_t found = line.find(kBefore.data());
  if (found == std::string::npos) return absl::InternalError(absl::StrCat("worker: ", line));
  const size_t begin = found + kBefore.size();
  const std::string address = line.substr(begin, line.find(',', begin) - begin);
  worker->address_ = absl::StrCat("grpc://", address);
  if (options.delay_ms == 0 && !options.count_bytes) return worker;
  int port = 0;
  if (!absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port)) {
    return absl::InternalError(absl::StrCat("worker: ", line));
  }
  worker->proxy_ = std::make_unique<FaultProxy>(port);
  const double one_way = options.delay_ms / 2000;
  worker->proxy_->set_faults([one_way](int) { return Fault{.delay_seconds = one_way}; });
  worker->address_ = worker->proxy_->address();
  return worker;
}

absl::StatusOr<std::shared_ptr<runtime::Client>> BenchWorker::Connect() const {
  return OpenRemoteClient({.address = address_});
}

int64_t BenchWorker::Bytes() const {
  int64_t bytes = 0;
  for (int i = 0; proxy_ != nullptr && i < proxy_->connections(); ++i) {
    bytes += proxy_->bytes_to_server(i) + proxy_->bytes_to_client(i);
  }
  return bytes;
}

}  // namespace penstock::remote
