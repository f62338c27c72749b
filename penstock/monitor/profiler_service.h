// ProfilerService: answers tensorflow.ProfilerService/Monitor with a registry's numbers.
//
//   PENSTOCK_ASSIGN_OR_RETURN(auto service, ProfilerService::Start(registry, "127.0.0.1:8466"));
//
// TensorFlow's tools show them, in Python
// tf.profiler.experimental.client.monitor("grpc://127.0.0.1:8466", 1000).
//
// The numbers are those of the last ten seconds, so it answers at once, whatever duration is asked
// for. Other methods of the service are UNIMPLEMENTED. gRPC without TLS, on loopback only.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "penstock/monitor/registry.h"

namespace penstock::monitor {

class ProfilerService {
 public:
  // `registry` must outlive the service. INVALID_ARGUMENT for an address that is not loopback,
  // UNAVAILABLE if it cannot be bound.
  static absl::StatusOr<std::unique_ptr<ProfilerService>> Start(Registry& registry,
                                                                const std::string& address);
  virtual ~ProfilerService() = default;
  virtual int port() const = 0;
};

// The text of a response; `level` 2 adds step times and infeed.
std::string ProfilerText(const Snapshot& snapshot, int level, bool timestamp);

}  // namespace penstock::monitor
