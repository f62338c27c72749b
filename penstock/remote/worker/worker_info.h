// What a worker tells its clients about its devices.
#pragma once

#include <vector>

#include "penstock/remote/protocol.pb.h"
#include "penstock/runtime/client.h"

namespace penstock::remote {

// Registers the CPU kernels with the client (once per client and process is enough, more does no harm), and
// describes it: platform, version, devices, kernels. `devices`: those of the session; empty: all. The other
// fields of WorkerInfo are the worker's.
WorkerInfo DescribeClient(runtime::Client& client, const std::vector<int>& devices = {});

}  // namespace penstock::remote
