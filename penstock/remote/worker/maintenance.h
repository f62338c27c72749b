// MaintenanceWatch: asks the metadata server of a Google machine whether the machine will be stopped.
//
//   MaintenanceWatch watch({}, [&](const std::string& reason) { worker.Drain(reason); });
//
// Preemption ("instance/preempted" becomes TRUE) and maintenance that ends the machine
// ("instance/maintenance-event" becomes TERMINATE_ON_HOST_MAINTENANCE) are announced there, 30 seconds
// and more before the machine stops. A live migration only pauses it, and is not reported.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"

#include "penstock/io/http/http_client.h"

namespace penstock::remote {

struct MaintenanceWatchOptions {
  // HOST or HOST:PORT of the metadata server; default: GCE_METADATA_HOST, else metadata.google.internal.
  // "off": none.
  std::string host = {};
  double seconds = 5;  // between two questions
};

class MaintenanceWatch {
 public:
  // Asks on a thread of its own, so that a name that does not resolve delays nothing. `notify` is called
  // on it, once, with the reason. Where the first question is not answered, the watch ends: the machine
  // is none of Google's.
  MaintenanceWatch(MaintenanceWatchOptions options,
                   std::function<void(const std::string& reason)> notify);
  ~MaintenanceWatch();
  MaintenanceWatch(const MaintenanceWatch&) = delete;
  MaintenanceWatch& operator=(const MaintenanceWatch&) = delete;

 private:
  void Run();
  // The reason to stop; none so far; or an error if the server does not answer.
  absl::StatusOr<std::optional<std::string>> Ask();
  absl::StatusOr<std::string> Fetch(const std::string& path);

  const MaintenanceWatchOptions options_;
  const std::function<void(const std::string&)> notify_;
  const std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
  io::HttpClient http_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::thread thread_;
};

}  // namespace penstock::remote
