// Bytes of an HDF5 file: checked reads of its blocks, and of the fields in a block. Internal to
// this folder.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/base/status.h"
#include "penstock/io/file_system.h"
#include "penstock/save/read_exactly.h"

namespace penstock::save::hdf5 {

// The address of what does not exist.
inline constexpr uint64_t kUndefined = UINT64_MAX;

inline absl::Status Corrupt(uint64_t offset, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("offset ", offset, ": ", what));
}

// Reads blocks of a file. Small requests are extended to a window, since groups and attributes are
// spread over the file in small pieces.
class Source {
 public:
  explicit Source(io::RandomAccessFile& file)
      : file_(file), budget_(8 * static_cast<uint64_t>(file.size()) + (1 << 20)) {}

  uint64_t size() const { return static_cast<uint64_t>(file_.size()); }

  // Whether the range is in the file.
  bool Contains(uint64_t offset, uint64_t bytes) const {
    return offset <= size() && bytes <= size() - offset;
  }

  // `what` is read: "a heap".
  absl::Status Read(uint64_t offset, absl::Span<char> out, absl::string_view what) {
    if (!Contains(offset, out.size())) {
      return Corrupt(offset, absl::StrCat(what, " of ", out.size(), " bytes is beyond the end of ",
                                          "the file, which has ", size()));
    }
    if (out.empty()) return absl::OkStatus();
    const auto at = static_cast<int64_t>(offset), bytes = static_cast<int64_t>(out.size());
    if (bytes >= kWindow) return ReadExactly(file_, at, out);
    if (at < window_offset_ || at + bytes > window_offset_ + static_cast<int64_t>(window_.size())) {
      window_.resize(static_cast<size_t>(std::min(kWindow, file_.size() - at)));
      window_offset_ = at;
      if (const absl::Status status = ReadExactly(file_, at, absl::MakeSpan(window_));
          !status.ok()) {
        window_.clear();
        return status;
      }
    }
    std::memcpy(out.data(), window_.data() + (at - window_offset_), out.size());
    return absl::OkStatus();
  }

  // Counts metadata of that many bytes, which are copied from a block.
  absl::Status Charge(uint64_t offset, uint64_t bytes) {
    if (bytes + kCost > budget_) {
      return Corrupt(offset, "groups and attributes refer to the same bytes many times");
    }
    budget_ -= bytes + kCost;
    return absl::OkStatus();
  }

  // A block of metadata. Each is read once or a few times in a sound file, so their sum is limited:
  // blocks that overlap or refer to each other in circles end there.
  absl::StatusOr<std::string> Block(uint64_t offset, uint64_t bytes, absl::string_view what) {
    if (Contains(offset, bytes)) PENSTOCK_RETURN_IF_ERROR(Charge(offset, bytes));
    std::string block(Contains(offset, bytes) ? static_cast<size_t>(bytes) : 0, '\0');
    if (block.size() != bytes) {
      return Corrupt(offset, absl::StrCat(what, " of ", bytes, " bytes is beyond the end of the ",
                                          "file, which has ", size()));
    }
    PENSTOCK_RETURN_IF_ERROR(Read(offset, absl::MakeSpan(block), what));
    return block;
  }

 private:
  static constexpr int64_t kWindow = 256 << 10;
  static constexpr uint64_t kCost = 8;  // of a block

  io::RandomAccessFile& file_;
  uint64_t budget_;
  std::string window_;
  int64_t window_offset_ = 0;
};

// Fields of a block, one after another. After a field beyond the end of the block, ok() is false
// and further fields are 0 and empty.
class Cursor {
 public:
  // `offset`: of the bytes in the file, for messages.
  Cursor(absl::string_view bytes, uint64_t offset) : bytes_(bytes), offset_(offset) {}

  bool ok() const { return ok_; }
  size_t left() const { return bytes_.size(); }
  uint64_t offset() const { return offset_; }

  // An unsigned number, little-endian.
  uint64_t Number(size_t width) {
    const absl::string_view field = Take(width);
    uint64_t value = 0;
    if (!field.empty()) std::memcpy(&value, field.data(), field.size());
    return value;
  }
  absl::string_view Take(uint64_t bytes) {
    if (!ok_ || bytes > bytes_.size()) {
      ok_ = false;
      return {};
    }
    const absl::string_view field = bytes_.substr(0, static_cast<size_t>(bytes));
    bytes_.remove_prefix(static_cast<size_t>(bytes));
    offset_ += bytes;
    return field;
  }
  // Whether the field is the signature.
  bool Is(absl::string_view signature) { return Take(signature.size()) == signature; }

 private:
  absl::string_view bytes_;
  uint64_t offset_;
  bool ok_ = true;
};

}  // namespace penstock::save::hdf5
