#include "penstock/save/hdf5/hdf5_superblock.h"

#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace penstock::save {
namespace hdf5_superblock {
namespace {

constexpr uint64_t kUndefined = UINT64_MAX;

template <typename T>
T At(absl::string_view head, size_t offset) {
  T value;
  std::memcpy(&value, head.data() + offset, sizeof(T));
  return value;
}

// The fields that all versions have.
struct Superblock {
  int offset_bytes = 0, length_bytes = 0;
  uint64_t base = 0, end = 0, root = 0;
  uint64_t driver = kUndefined;  // address of the description of a driver of several files
  size_t size = 0;               // of the superblock
};

}  // namespace
}  // namespace hdf5_superblock

absl::StatusOr<uint64_t> ParseHdf5Superblock(absl::string_view head, int64_t file_size) {
  using namespace hdf5_superblock;
  if (!absl::StartsWith(head, kHdf5Signature)) {
    return absl::DataLossError("offset 0: is not an HDF5 file: its signature is missing");
  }
  if (static_cast<int64_t>(head.size()) < kHdf5SuperblockBytes) {
    return absl::DataLossError(
        absl::StrCat("offset ", head.size(), ": the HDF5 superblock is cut short"));
  }
  const int version = static_cast<uint8_t>(head[8]);
  Superblock block;
  if (version <= 1) {
    block.offset_bytes = static_cast<uint8_t>(head[13]);
    block.length_bytes = static_cast<uint8_t>(head[14]);
    // Version 1 has 4 bytes more in front of the addresses: base, free space, end, driver; then the
    // symbol table entry of the root group: name, object header, ...
    const size_t at = version == 0 ? 24 : 28;
    block.base = At<uint64_t>(head, at);
    block.end = At<uint64_t>(head, at + 16);
    block.driver = At<uint64_t>(head, at + 24);
    block.root = At<uint64_t>(head, at + 40);
    block.size = at + 32 + 40;
    if (At<uint16_t>(head, 16) == 0 || At<uint16_t>(head, 18) == 0) {
      return absl::DataLossError("offset 16: the HDF5 superblock has group nodes without entries");
    }
  } else if (version <= 3) {
    block.offset_bytes = static_cast<uint8_t>(head[9]);
    block.length_bytes = static_cast<uint8_t>(head[10]);
    block.base = At<uint64_t>(head, 12);
    block.end = At<uint64_t>(head, 28);
    block.root = At<uint64_t>(head, 36);
    block.size = 48;
  } else {
    return absl::UnimplementedError(
        absl::StrCat("offset 8: the HDF5 superblock has version ", version));
  }
  if (block.offset_bytes != 8 || block.length_bytes != 8) {
    return absl::UnimplementedError(absl::StrCat("the HDF5 file has addresses of ",
                                                 block.offset_bytes, " and lengths of ",
                                                 block.length_bytes, " bytes; both must have 8"));
  }
  if (block.base != 0) {
    return absl::UnimplementedError(
        absl::StrCat("the HDF5 file has a user block of ", block.base, " bytes"));
  }
  if (block.driver != kUndefined) {
    return absl::UnimplementedError("the HDF5 file is one of several files");
  }
  if (block.end > static_cast<uint64_t>(file_size)) {
    return absl::DataLossError(
        absl::StrCat("the HDF5 file is truncated: it has ", file_size, " bytes of ", block.end));
  }
  if (block.end < block.size || block.root < block.size || block.root >= block.end) {
    return absl::DataLossError(absl::StrCat("the HDF5 superblock places the root group at ",
                                            block.root, " of ", block.end, " bytes"));
  }
  return block.root;
}

}  // namespace penstock::save
