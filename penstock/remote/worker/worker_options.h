// What a worker's options mean, and its small words. Internal to room remote.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"

#include "penstock/remote/worker/worker.h"

namespace penstock::remote {

absl::Status CheckOptions(const WorkerOptions& options);
// "TLS, client certificates".
std::string Security(const WorkerOptions& options);

// "1 device", "8 devices".
std::string CountOfDevices(size_t count);
// Two digits for each byte.
std::string RandomHex(int bytes);

}  // namespace penstock::remote
