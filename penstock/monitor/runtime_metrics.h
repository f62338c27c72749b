// RuntimeMetrics: reads what libtpu says about the TPUs of this machine (duty cycle, memory) from
// its metrics service, for as long as it exists.
//
//   RuntimeMetrics tpu(registry);       // localhost:8431; nothing listens there without a TPU
//   tpu.Read();                         // one round of requests, at most a second
//
// A service that does not answer, or answers with anything else, is no error: its numbers are not
// shown. Read blocks; Poll runs it on a thread of its own.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "penstock/monitor/registry.h"

namespace penstock::monitor {

class RuntimeMetrics {
 public:
  static constexpr char kAddress[] = "localhost:8431";

  // `registry` must outlive this.
  explicit RuntimeMetrics(Registry& registry, const std::string& address = kAddress);
  ~RuntimeMetrics();
  RuntimeMetrics(const RuntimeMetrics&) = delete;
  RuntimeMetrics& operator=(const RuntimeMetrics&) = delete;

  // Reads all metrics into the registry; false if the service did not answer.
  bool Read();
  // Calls Read every few seconds from now on.
  void Poll();

 private:
  class Stub;

  Registry& registry_;
  const std::unique_ptr<Stub> stub_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace penstock::monitor
