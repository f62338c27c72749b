#include "penstock/lazy/xmp.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/lazy/replicas.h"
#include "penstock/lazy/xm.h"

namespace penstock::lazy::xmp {
namespace {

// The client that the replicas run on, with at least nprocs devices.
absl::StatusOr<std::shared_ptr<runtime::Client>> ClientOf(const SpawnOptions& options) {
  if (options.client != nullptr) return options.client;
  const xm::DeviceOptions device_options = {.device = options.device,
                                            .cpu_devices = std::max(1, options.nprocs)};
  PENSTOCK_ASSIGN_OR_RETURN(const Device device, xm::xla_device(0, device_options));
  const std::shared_ptr<runtime::Client>& client = device.client();
  const int devices = static_cast<int>(client->devices().size());
  const bool fits =
      (options.device.empty() || options.device == client->platform()) && devices >= options.nprocs;
  if (fits || (client->platform() != "cpu" && options.device != "cpu")) return client;
  // The process's client is another device's, or was opened with fewer CPU devices.
  return runtime::OpenClient({.device = options.device, .cpu_devices = options.nprocs});
}

// The body of the thread of one ordinal.
void RunReplica(const std::shared_ptr<Replicas>& replicas, int ordinal, const Device& device,
                const std::function<absl::Status(int)>& fn) {
  const ReplicaScope scope({.replicas = replicas, .ordinal = ordinal, .device = device});
  replicas->Ended(ordinal, base::CatchExceptions([&] { return fn(ordinal); }));
}

// Blocks until the threads end. If some go on after the group has failed, spawn cannot return the
// error, so it is printed.
void WarnIfNotEnding(const Replicas& replicas) {
  constexpr double kSeconds = 10;
  const std::vector<int> running = replicas.AwaitEnd(kSeconds);
  if (running.empty()) return;
  std::fprintf(stderr,
               "warning: xmp::spawn: %s; %s still running %g s later; spawn returns when the "
               "function of every ordinal has returned\n",
               std::string(replicas.first_error().message()).c_str(),
               absl::StrCat(OrdinalsText(running), running.size() == 1 ? " is" : " are").c_str(),
               kSeconds);
}

}  // namespace

absl::Status spawn(const std::function<absl::Status(int index)>& fn, const SpawnOptions& options) {
  if (options.nprocs < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "xmp::spawn: nprocs must be at least 1, or 0 for all devices; it is ", options.nprocs));
  }
  if (!(options.timeout_seconds > 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "xmp::spawn: timeout_seconds must be above 0; it is ", options.timeout_seconds));
  }
  if (CurrentReplica() != nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("xmp::spawn inside of xmp::spawn, by ordinal ", CurrentReplica()->ordinal,
                     ": call it once, outside"));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const std::shared_ptr<runtime::Client> client, ClientOf(options));
  const int devices = static_cast<int>(client->devices().size());
  const int nprocs = options.nprocs == 0 ? devices : options.nprocs;
  if (nprocs > devices) {
    return absl::InvalidArgumentError(absl::StrCat("xmp::spawn: nprocs is ", nprocs, ", but ",
                                                   client->platform(), " has ", devices,
                                                   " device(s)"));
  }
  const auto replicas = std::make_shared<Replicas>(nprocs, options.timeout_seconds);
  std::vector<std::thread> threads;
  for (int i = 0; i < nprocs; ++i) {
    try {
      threads.emplace_back([&, i] { RunReplica(replicas, i, Device(client, i), fn); });
    } catch (const std::system_error& error) {
      const std::string message = absl::StrCat("cannot start a thread: ", error.what());
      for (; i < nprocs; ++i) replicas->Ended(i, absl::ResourceExhaustedError(message));
    }
  }
  WarnIfNotEnding(*replicas);
  for (std::thread& thread : threads) thread.join();
  return replicas->first_error();
}

}  // namespace penstock::lazy::xmp
