// Processes for tests of room remote: `penstock worker`, and what it holds.
//
//   WorkerProcess worker({.folder = folder, .lease = 2});
//   ... OpenRemoteClient({.address = worker.address()}) ...
//   const Held held = HeldBy(worker.process().id());
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <sys/types.h>

namespace penstock::tests {

// For how long a test waits for a process.
inline constexpr auto kProcessLimit = std::chrono::seconds(120);

// In the environment of a client's process that a test starts: the address of its worker, and its folder of checkpoints.
inline constexpr char kWorkerVariable[] = "PENSTOCK_TEST_WORKER";
inline constexpr char kFolderVariable[] = "PENSTOCK_TEST_FOLDER";

// A child process, killed with this object. Its stderr and stdout are a pipe.
class Process {
 public:
  // `variables`: "NAME=value", in addition to those of this process.
  explicit Process(std::vector<std::string> command, std::vector<std::string> variables = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t id() const { return process_; }
  bool running() const;
  void Kill();
  // Waits for the end; its exit code, or 128 + the signal.
  int AwaitEnd();
  // What it has printed, as far as AwaitLine and AwaitEnd have read it.
  const std::string& output() const { return all_; }
  // The next line of its output that contains `text`; empty, and a failure of the test, when it has ended or after
  // kProcessLimit.
  std::string AwaitLine(const std::string& text);
  // Reads and drops what it prints from now on. Otherwise it blocks once the pipe holds 64 KiB.
  void DropOutput();

 private:
  std::thread reader_;
  pid_t process_ = -1;
  int output_ = -1;
  std::string pending_, all_;
};

struct WorkerProcessOptions {
  std::string folder;  // for its log and its temporary files
  int lease = 600;     // seconds
  std::vector<std::string> arguments = {};
  std::vector<std::string> variables = {};  // of its environment, "NAME=value"
  bool drop_output = true;                  // false: the test reads it by AwaitLine
  bool tls = false;                         // only for the address: the arguments say it, too
};

// `penstock worker` on a CPU device.
class WorkerProcess {
 public:
  explicit WorkerProcess(const WorkerProcessOptions& options);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // Keeps its port reserved: tests that run in parallel listen on random ports, too.
  void Kill();
  // Starts it again on the same port. Does not wait until it listens: clients do.
  void KillAndStartAgain();
  void StartAgain();  // after it has ended

  const std::string& address() const { return address_; }  // "grpc://127.0.0.1:PORT", or grpcs://
  int port() const;
  Process& process() { return *process_; }
  std::vector<std::string> LogLines() const;
  // Names in its folder of temporary files.
  std::vector<std::string> TemporaryFiles() const;

 private:
  void Start(const std::string& listen);

  const WorkerProcessOptions options_;
  const std::string log_, temporary_;
  int kept_port_ = -1;  // a socket
  std::string address_;
  std::unique_ptr<Process> process_;
};

// What a process holds at the moment.
struct Held {
  int64_t megabytes = 0;  // resident
  int64_t threads = 0, descriptors = 0;
};
Held HeldBy(pid_t process);

// A folder that is removed with this object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace penstock::tests
