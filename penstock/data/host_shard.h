// What stages that make batches share for IteratorOptions.host. Internal to room data.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

#include "penstock/data/iterator.h"
#include "penstock/data/spec.h"

namespace penstock::data {

// A batch has from 1 to 2^31 rows, and at least one for each machine.
absl::Status CheckBatch(int64_t size, const HostShard& host);
// Rows of a whole batch on every machine; -1 where they have not all the same number.
int64_t KnownRows(const HostShard& host, int64_t size);
// Checks that these batches have the same shape on every machine, whichever rows it has.
absl::Status CheckSameShapes(const ElementSpec& batches);
// As parameters are printed: "", or ", machine 1 of 4".
std::string PrintHost(const HostShard& host);
// Of `rows` rows, or kInfiniteCardinality or kUnknownCardinality; the same on every machine.
int64_t NumBatches(int64_t rows, int64_t size, bool drop_remainder, const HostShard& host);

}  // namespace penstock::data
