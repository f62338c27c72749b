// TrainingProcess: the process of a training, a child of the worker's. It ends (SIGKILL) when the worker's process
// ends, however that happens, so that two processes never write the same checkpoints.
//
//   TrainingProcess process({.command = {"/usr/bin/penstock", "train", "--epochs", "5"},
//                            .environment = {{"PENSTOCK_DEVICE", "grpc://127.0.0.1:40001"}},
//                            .output = [](absl::string_view bytes) { std::cout << bytes; }});
//   const absl::StatusOr<int> status = process.Run();   // on a thread of its own: blocks until it has ended
//   process.Signal(SIGTERM);                            // from any other thread
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include <sys/types.h>

#include "penstock/io/local/file_descriptor.h"

namespace penstock::remote {

struct TrainingProcessOptions {
  std::vector<std::string> command;  // the program's path and its arguments
  // Added to this process's; an empty value removes the variable.
  std::map<std::string, std::string> environment = {};
  // Receives what it prints to stdout and stderr, on the thread of Run.
  std::function<void(absl::string_view bytes)> output;
};

class TrainingProcess {
 public:
  explicit TrainingProcess(TrainingProcessOptions options) : options_(std::move(options)) {}
  TrainingProcess(const TrainingProcess&) = delete;
  TrainingProcess& operator=(const TrainingProcess&) = delete;

  // Runs the command once, and returns its wait status (waitpid(2)). The kernel watches the thread that calls this:
  // the process dies with it. Processes that it leaves behind may go on; what they print is lost.
  absl::StatusOr<int> Run();
  // Sends a signal to the process; one that comes before it has started is sent then.
  void Signal(int signal);

 private:
  // The end of the pipe from which its output is read.
  absl::StatusOr<io::FileDescriptor> Start();
  void CopyUntilItEnds(io::FileDescriptor output);

  const TrainingProcessOptions options_;
  std::mutex mutex_;
  pid_t process_ = -1;  // -1: not started, or ended
  int pending_ = 0;     // signal to send at the start
  bool ended_ = false;
};

}  // namespace penstock::remote
