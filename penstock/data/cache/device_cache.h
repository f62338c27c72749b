// Cache("device"): a dataset whose rows stay in the memory of devices. The stages upstream make the rows, once. Those
// downstream only choose rows, so they run on row numbers, and the batches are gathered on the devices
// (train/device_rows.h, train/device_feed.h).
//
//   PENSTOCK_ASSIGN_OR_RETURN(const auto split, SplitAtDeviceCache(dataset));
//   if (split.has_value()) {
//     ... read Dataset::Of(split->rows) once: `rows` elements
//     PENSTOCK_ASSIGN_OR_RETURN(const Dataset numbers, RowNumbers(*split, rows, {}));
//     ... numbers.MakeIterator(): batches of row numbers, column "value" (int64)
//   }
//
// The numbers come in the order in which Cache() would return the rows: same seeds, same iterator states, same printed
// dataset. Read by an iterator of its own (predictions, measurements), the stage keeps nothing: each pass reads the
// first epoch of its input.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/data/dataset.h"
#include "penstock/data/stage.h"

namespace penstock::data {

// What a room below keeps for a Cache("device") as long as the dataset exists: rows on the devices of one client.
class KeptOnDevices {
 public:
  virtual ~KeptOnDevices() = default;
};
struct DeviceCacheSlot {
  std::mutex mutex;  // also held while rows are read and transferred
  std::vector<std::shared_ptr<KeptOnDevices>> kept;
};

struct DeviceCacheSplit {
  std::shared_ptr<const Dataset::Description> rows;   // upstream of the stage
  std::shared_ptr<const Dataset::Description> cache;  // the stage itself
  std::vector<std::shared_ptr<const Stage>> downstream;
  std::shared_ptr<DeviceCacheSlot> slot;
};

// No value: there is no Cache("device"). INVALID_ARGUMENT names a stage downstream that needs more than row numbers.
absl::StatusOr<std::optional<DeviceCacheSplit>> SplitAtDeviceCache(const Dataset& dataset);

inline constexpr int64_t kMaxDeviceRows = INT32_MAX;
// What is downstream, over the numbers of the rows. `rows`: from 0 to kMaxDeviceRows.
absl::StatusOr<Dataset> RowNumbers(const DeviceCacheSplit& split, int64_t rows,
                                   const ResolveContext& context);

std::shared_ptr<const Stage> MakeDeviceCache();

}  // namespace penstock::data
