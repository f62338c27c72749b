// The rows of a Cache("device") on the devices of a training: read and transferred once, then kept as long as the dataset
// exists and the devices are not lost. Internal to room train.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "penstock/data/cache/device_cache.h"
#include "penstock/data/iterator.h"
#include "penstock/train/device_rows.h"
#include "penstock/train/feed_host.h"

namespace penstock::train {

struct CachedOnDevices {
  std::shared_ptr<const DeviceRows> rows;
  std::shared_ptr<GatherPrograms> programs;
  std::string note = {};  // how much they take, if they were not there before
};

// `dataset`: JSON of the part upstream, which the devices' host reads itself; empty: it is read here, and what is read is
// transferred. RESOURCE_EXHAUSTED before anything is transferred if it does not fit.
absl::StatusOr<CachedOnDevices> CacheOnDevices(const data::DeviceCacheSplit& split,
                                               runtime::Client& client,
                                               absl::Span<const runtime::Device> devices,
                                               const std::string& dataset,
                                               const data::IteratorOptions& read);

}  // namespace penstock::train
