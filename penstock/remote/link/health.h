// Health: grpc.health.v1, which load balancers and probes ask
// (github.com/grpc/grpc/blob/master/src/proto/grpc/health/v1/health.proto). Everybody may ask, without
// credentials.
//
// gRPC's own service is not used: it needs threads of gRPC that poll the connections of all sessions, too, and
// make each of their messages slower.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "absl/strings/string_view.h"

#include "penstock/remote/link/stream.h"

namespace penstock::remote {

class Health {
 public:
  // Whether `method` is one of this service.
  static bool Has(absl::string_view method);

  // Answers a call of Check or Watch. `request_seconds`: the time in which its request must come.
  void OnCall(const std::shared_ptr<ServerStream>& stream, PollingThreads& threads,
              double request_seconds);
  // NOT_SERVING from now on; sent to all watchers.
  void Drain();
  // Ends the calls of watchers.
  void End();

 private:
  // A call of Watch. Guarded by mutex_.
  struct Watcher {
    std::shared_ptr<ServerStream> stream;
    bool known = true;     // the service
    int sent = -1;         // the last status
    bool writing = false;  // one write may be outstanding
    std::shared_ptr<PollingThreads::Timer> timer;
  };

  void OnRequest(const std::shared_ptr<ServerStream>& stream, PollingThreads& threads,
                 const grpc::ByteBuffer& request);
  void Watch(const std::shared_ptr<ServerStream>& stream, PollingThreads& threads, bool known);
  void Repeat(const std::shared_ptr<Watcher>& watcher, PollingThreads& threads);
  void Forget(const std::shared_ptr<Watcher>& watcher);
  // Sends the status if it has changed and no write is outstanding.
  void Tell(const std::shared_ptr<Watcher>& watcher);

  std::mutex mutex_;
  bool serving_ = true, ended_ = false;
  std::set<std::shared_ptr<Watcher>> watchers_;
};

}  // namespace penstock::remote
