// Asks the worker to read a data set into the memory of its devices (Cache("device")). Internal to room remote.
#pragma once

#include <memory>

#include "absl/status/statusor.h"

#include "penstock/remote/client/client_session.h"
#include "penstock/remote/client/remote_buffer.h"
#include "penstock/train/feed_host.h"

namespace penstock::remote {

// train::FeedHost::ReadToDevices. Blocks until the rows are there.
absl::StatusOr<train::RowsThere> ReadRowsToDevices(const std::shared_ptr<ClientSession>& session,
                                                   const Devices& devices,
                                                   train::FeedRequest request);

}  // namespace penstock::remote
