// Benchmark of remote devices, which `bench/run remote` runs beside a local device, gRPC alone and TensorFlow:
//
//   bench_remote step PENSTOCK              the smallest step and its result: {"step_us", "step_p99_us"},
//                                           and many in flight: {"pipelined_us"}
//   bench_remote upload PENSTOCK            a tensor of 256 MiB: {"gb_per_second"}, and the CPU time of both
//                                           processes: {"cpu_ms"}
//   bench_remote bare step|upload           the same messages by gRPC alone, to a process of its own
//   bench_remote train WORK                 trains on this process's CPU device: {"items_per_second",
//                                           "cpu_us_per_item"}
//   bench_remote train WORK PENSTOCK MS     trains on a worker that is a round trip of MS away; the CPU time
//                                           is that of both processes
//   bench_remote cached PENSTOCK FOLDER     an epoch from a dataset that the worker has in its memory:
//                                           {"megabytes"} in both directions
//   bench_remote links                      the links beside gRPC alone, in one process; prints a table
//
// All but the last run a round of about a second for each line of stdin and print a line of JSON. PENSTOCK is the
// program `penstock`, whose worker is started on a free port. WORK is resnet20 (ResNet-20 on shuffled batches of
// 128 images in this process's memory), or iris_32 or iris_auto (an MLP 4-10-3 on shuffled batches of 16 of 150
// flowers, 32 or automatically many steps per execution). Items are images, or steps of iris.
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"

#include "penstock/base/status.h"

#include "bench/remote/remote.h"

namespace penstock::remote {
namespace {

absl::Status Serve(const absl::StatusOr<Round>& round) {
  PENSTOCK_RETURN_IF_ERROR(round.status());
  for (std::string line; std::getline(std::cin, line);) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string answer, (*round)());
    std::cout << answer << std::endl;
  }
  return absl::OkStatus();
}

absl::Status Bare(const std::string& what) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string own, OwnPath());
  PENSTOCK_ASSIGN_OR_RETURN(const auto server, ChildProcess::Start({own, "bare_server"}));
  int port = 0;
  if (!absl::SimpleAtoi(server->line(), &port)) return absl::InternalError(server->line());
  return Serve(what == "step" ? BareStepRounds(port) : BareUploadRounds(port));
}

absl::Status TrainRemotely(const std::string& work, const std::string& program, double delay_ms) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto worker,
                            BenchWorker::Start({.program = program, .delay_ms = delay_ms}));
  PENSTOCK_ASSIGN_OR_RETURN(auto client, worker->Connect());
  return Serve(TrainingRounds(work, std::move(client), worker.get()));
}

absl::Status TrainHere(const std::string& work) {
  PENSTOCK_ASSIGN_OR_RETURN(auto client, runtime::OpenClient({.device = "cpu"}));
  return Serve(TrainingRounds(work, std::move(client), nullptr));
}

absl::Status Main(const std::vector<std::string>& arguments) {
  const std::string what = arguments.empty() ? "" : arguments[0];
  const size_t count = arguments.size();
  if (what == "links" && count == 1) {
    MeasureLinks();
    return absl::OkStatus();
  }
  if (what == "bare_server" && count == 1) return ServeBare();
  if (what == "bare" && count == 2) return Bare(arguments[1]);
  if (what == "train" && count == 2) return TrainHere(arguments[1]);
  double delay_ms = 0;
  if (what == "train" && count == 4 && absl::SimpleAtod(arguments[3], &delay_ms) && delay_ms >= 0) {
    return TrainRemotely(arguments[1], arguments[2], delay_ms);
  }
  if ((what == "step" || what == "upload") && count == 2) {
    PENSTOCK_ASSIGN_OR_RETURN(const auto worker, BenchWorker::Start({.program = arguments[1]}));
    PENSTOCK_ASSIGN_OR_RETURN(auto client, worker->Connect());
    return Serve(what == "step" ? StepRounds(std::move(client))
                                : UploadRounds(std::move(client), *worker));
  }
  if (what == "cached" && count == 3) {
    PENSTOCK_ASSIGN_OR_RETURN(const auto worker, BenchWorker::Start({.program = arguments[1],
                                                                     .count_bytes = true,
                                                                     .readable = arguments[2]}));
    PENSTOCK_ASSIGN_OR_RETURN(auto client, worker->Connect());
    return Serve(CachedEpochRounds(std::move(client), *worker, arguments[2]));
  }
  return absl::InvalidArgumentError(
      "usage: bench_remote step PENSTOCK | upload PENSTOCK | bare step|upload | train WORK "
      "[PENSTOCK MS] | "
      "cached PENSTOCK FOLDER | links");
}

}  // namespace
}  // namespace penstock::remote

int main(int argc, char** argv) {
  const absl::Status status = penstock::remote::Main({argv + 1, argv + argc});
  if (!status.ok()) std::fprintf(stderr, "bench_remote: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
