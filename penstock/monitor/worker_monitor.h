// WorkerMonitor: feeds a registry from what a worker says of itself (remote::DescribeWorker, or
// Worker::Describe in its process).
//
//   monitor::Registry registry;
//   monitor::WorkerMonitor worker(registry);
//   PENSTOCK_ASSIGN_OR_RETURN(auto reply, remote::DescribeWorker({.address = "10.0.0.2:8470"}));
//   worker.Update(reply);                     // again every second
//   Snapshot snapshot = registry.Take();
//
// Rates are those between two updates, so the first one has none. A session's label is its short id
// and its client, "4f3a91c2 ada@laptop".
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "penstock/monitor/registry.h"
#include "penstock/remote/protocol.pb.h"

namespace penstock::monitor {

class WorkerMonitor {
 public:
  // `registry` must outlive it.
  explicit WorkerMonitor(Registry& registry) : registry_(registry) {}

  // By one thread at a time.
  void Update(const remote::DescribeReply& reply);

 private:
  struct Counters {
    double executions = 0, bytes = 0, busy = 0;
  };
  void UpdateSession(const remote::SessionInfo& session, const std::string& label, double seconds);
  void RemoveEnded(const std::map<std::string, Counters>& now);

  Registry& registry_;
  double updated_ = -1;  // by the registry's clock; negative: never
  std::map<std::string, Counters> before_;
};

// Updates a registry every second, on a thread of its own, until it is destroyed.
class WorkerWatch {
 public:
  // `registry` and what `describe` uses must outlive it.
  WorkerWatch(Registry& registry, std::function<remote::DescribeReply()> describe);
  ~WorkerWatch();
  WorkerWatch(const WorkerWatch&) = delete;
  WorkerWatch& operator=(const WorkerWatch&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace penstock::monitor
