// Programs of `bench/run remote`: a worker process on this machine, a proxy with delay before it, and what is
// measured through them. main.cc says how they are called and what they print.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include <sys/types.h>

#include "penstock/remote/testing/fault_proxy.h"
#include "penstock/runtime/client.h"

namespace penstock::remote {

// A program that runs until this object is destroyed, then is killed.
class ChildProcess {
 public:
  // Returns when the program has printed a line; `line` is that line.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(
      const std::vector<std::string>& command);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  const std::string& line() const { return line_; }
  // CPU time that it has used so far, in seconds.
  double CpuSeconds() const;

 private:
  ChildProcess() = default;
  pid_t process_ = -1;
  int output_ = -1;
  std::string line_;
};

// `penstock worker --device cpu` behind a proxy, if there is a delay.
class BenchWorker {
 public:
  struct Options {
    std::string program;        // penstock
    double delay_ms = 0;        // of a round trip
    bool count_bytes = false;   // goes through a proxy in any case
    std::string readable = "";  // a folder that pipelines may read
  };
  static absl::StatusOr<std::unique_ptr<BenchWorker>> Start(const Options& options);

  absl::StatusOr<std::shared_ptr<runtime::Client>> Connect() const;
  double CpuSeconds() const { return process_->CpuSeconds(); }
  // Bytes in both directions so far; 0 without a proxy.
  int64_t Bytes() const;

 private:
  BenchWorker() = default;
  std::string address_;
  std::unique_ptr<ChildProcess> process_;
  std::unique_ptr<FaultProxy> proxy_;
};

// CPU time of this process in seconds.
double OwnCpuSeconds();
// The path of this program.
absl::StatusOr<std::string> OwnPath();

// A round, whose result is a line of JSON.
using Round = std::function<absl::StatusOr<std::string>()>;

// bench_remote links: the sides alternate within one process.
void MeasureLinks();
// The smallest step, one at a time and pipelined.
absl::StatusOr<Round> StepRounds(std::shared_ptr<runtime::Client> client);
// A tensor of 256 MiB until the worker has it.
absl::StatusOr<Round> UploadRounds(std::shared_ptr<runtime::Client> client,
                                   const BenchWorker& worker);
// Both with gRPC alone: raw slices, no frames, no checksums, nothing kept for a reconnect. `server_port`: of
// ServeBare in another process.
absl::StatusOr<Round> BareStepRounds(int server_port);
absl::StatusOr<Round> BareUploadRounds(int server_port);
// Prints its port, serves until the end of stdin.
absl::Status ServeBare();

// Trainings: resnet20, iris_32, iris_auto.
absl::StatusOr<Round> TrainingRounds(absl::string_view work,
                                     std::shared_ptr<runtime::Client> client,
                                     const BenchWorker* worker);
// An epoch over a dataset that the worker caches in its memory; after the first one it reads nothing more.
absl::StatusOr<Round> CachedEpochRounds(std::shared_ptr<runtime::Client> client,
                                        const BenchWorker& worker, const std::string& folder);

}  // namespace penstock::remote
