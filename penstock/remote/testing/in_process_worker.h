// A DeviceSession and its DeviceClient in one process, joined by links without a network.
//
//   PENSTOCK_ASSIGN_OR_RETURN(auto local, runtime::OpenClient({.device = "cpu"}));
//   PENSTOCK_ASSIGN_OR_RETURN(auto client, OpenInProcess(local));
#pragma once

#include <memory>

#include "absl/status/statusor.h"

#include "penstock/remote/client/device_client.h"
#include "penstock/remote/worker/device_session.h"
#include "penstock/runtime/client.h"

namespace penstock::remote {

// A client whose session ends with it.
absl::StatusOr<std::shared_ptr<runtime::Client>> OpenInProcess(
    std::shared_ptr<runtime::Client> local, const DeviceSessionOptions& options = {});

// The connector of OpenInProcess.
DeviceClient::Connect InProcessConnector(std::shared_ptr<runtime::Client> local,
                                         const DeviceSessionOptions& options = {});

}  // namespace penstock::remote
