// The beginning of an HDF5 file.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace penstock::save {

// The first eight bytes of an HDF5 file.
inline constexpr absl::string_view kHdf5Signature("\x89HDF\r\n\x1a\n", 8);
// Bytes that hold the superblock of every supported version.
inline constexpr int64_t kHdf5SuperblockBytes = 96;

// Checks the superblock: its version, the size of its addresses, and that those of the root group
// and of the end of the file lie within `file_size`. Returns the address of the root group's object
// header. DATA_LOSS (a truncated file among others), or UNIMPLEMENTED for what neither Keras nor
// h5py writes: a user block, several files, addresses that are not of 8 bytes.
absl::StatusOr<uint64_t> ParseHdf5Superblock(absl::string_view head, int64_t file_size);

}  // namespace penstock::save
