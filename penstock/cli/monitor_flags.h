// --monitor and --monitor-profiler of `penstock train`.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"

#include "penstock/cli/options.h"
#include "penstock/train/callback.h"

namespace penstock::cli {

// Token that a monitor requires and that `penstock monitor` sends: the environment variable
// PENSTOCK_MONITOR_TOKEN (command lines can be read by every user of the machine).
std::string MonitorToken();

class MonitorFlags {
 public:
  MonitorFlags();
  ~MonitorFlags();

  void Describe(Options& options);
  // Starts what the flags ask for; an error if a port is in use. Prints the address of the page to
  // stderr. Called once, before any slow work.
  absl::Status Start();
  // The callback that feeds it; null without these flags.
  std::shared_ptr<train::Callback> Callback();

 private:
  struct Running;

  std::string address_, profiler_;
  std::unique_ptr<Running> running_;
};

}  // namespace penstock::cli
