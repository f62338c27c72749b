// What a worker tells its clients about its devices.
#pragma once

#include <vector>

#include "absl/strings/string_view.h"

#include "penstock/remote/protocol.pb.h"
#include "penstock/runtime/client.h"

namespace penstock::remote {

// The version of this program: "0.1.0".
absl::string_view PenstockVersion();

// Registers the CPU kernels with the client (once per client and process is enough, more does no harm), and
// describes it: platform, version, devices, kernels. `devices`: those of the session; empty: all. The other
// fields of WorkerInfo are the worker's.
WorkerInfo DescribeClient(runtime::Client& client, const std::vector<int>& devices = {});

}  // namespace penstock::remote
