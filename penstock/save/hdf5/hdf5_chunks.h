// Elements of an HDF5 dataset that are stored in chunks, possibly compressed. Internal to this
// folder.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "penstock/base/shape.h"
#include "penstock/save/hdf5/hdf5_bytes.h"
#include "penstock/save/hdf5/hdf5_messages.h"

namespace penstock::save::hdf5 {

struct Chunk {
  std::vector<uint64_t> origin;    // index of its first element
  uint64_t address = 0, size = 0;  // as stored
  uint64_t skipped_filters = 0;    // a bit for each
};

// Chunks of a dataset of this shape, checked: each is present once, lies inside the file, and is
// large enough for its elements after decompression. UNIMPLEMENTED if one was never written.
absl::StatusOr<std::vector<Chunk>> ReadChunkIndex(Source& source, const Layout& layout,
                                                  const base::Shape& shape,
                                                  absl::Span<const FilterStep> filters);

// Reads the chunks into an array of that shape with elements of layout.element_size bytes.
absl::Status ReadChunks(Source& source, const Layout& layout, const base::Shape& shape,
                        absl::Span<const FilterStep> filters, absl::Span<const Chunk> chunks,
                        absl::Span<char> out);

}  // namespace penstock::save::hdf5
