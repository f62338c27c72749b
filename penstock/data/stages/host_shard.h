// HostShard support of stages that make batches (IteratorOptions.host). Internal to room data.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

#include "penstock/data/iterator.h"
#include "penstock/data/spec.h"

namespace penstock::data {

// Checks that a batch has from 1 to 2^31 rows, and at least one for each host.
absl::Status CheckBatch(int64_t size, const HostShard& host);
// Number of rows of a full batch on every host; -1 if the hosts' numbers differ.
int64_t RowsPerHost(const HostShard& host, int64_t size);
// Checks that these batches have the same shape on every host, whichever rows it has.
absl::Status CheckSameShapes(const ElementSpec& batches);
// The host shard as a printed parameter: "", or ", machine 1 of 4".
std::string PrintHost(const HostShard& host);
// Number of batches of `rows` rows, which may be kInfiniteCardinality or kUnknownCardinality; the
// same on every host.
int64_t NumBatches(int64_t rows, int64_t size, bool drop_remainder, const HostShard& host);

}  // namespace penstock::data
