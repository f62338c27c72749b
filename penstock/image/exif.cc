#include "penstock/image/exif.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "penstock/base/contract_error.h"

namespace penstock::image {
namespace {

// Mapping of an upright pixel (y, x) to the stored pixel: transpose y and x, then mirror rows or
// columns.
struct Turn {
  bool transpose;
  bool flip_rows;
  bool flip_columns;
};
constexpr Turn kTurns[9] = {
    {false, false, false},  // invalid orientation
    {false, false, false},  // 1: row 0 is the top, column 0 the left side
    {false, false, true},   // 2: top, right
    {false, true, true},    // 3: bottom, right
    {false, true, false},   // 4: bottom, left
    {true, false, false},   // 5: left, top
    {true, true, false},    // 6: right, top
    {true, true, true},     // 7: right, bottom
    {true, false, true},    // 8: left, bottom
};

class TiffReader {
 public:
  explicit TiffReader(absl::string_view bytes) : bytes_(bytes) {
    const absl::string_view order = bytes.substr(0, 4);
    little_ = order == absl::string_view("II*\0", 4);
    valid_ = little_ || order == absl::string_view("MM\0*", 4);
  }
  bool valid() const { return valid_; }
  bool Has(uint64_t offset, uint64_t count) const {
    return offset <= bytes_.size() && count <= bytes_.size() - offset;
  }
  // Requires Has.
  uint32_t U16(uint64_t offset) const {
    const uint32_t a = static_cast<uint8_t>(bytes_[offset]);
    const uint32_t b = static_cast<uint8_t>(bytes_[offset + 1]);
    return little_ ? b << 8 | a : a << 8 | b;
  }
  uint32_t U32(uint64_t offset) const {
    const uint32_t a = U16(offset);
    const uint32_t b = U16(offset + 2);
    return little_ ? b << 16 | a : a << 16 | b;
  }

 private:
  absl::string_view bytes_;
  bool little_ = false;
  bool valid_ = false;
};

template <int kChannels>
void OrientPixels(ImageView stored, Turn turn, const MutableImageView& out) {
  // Strides in the stored image for one step down and one step right in the upright image.
  int64_t down = stored.row_stride;
  int64_t right = kChannels;
  const uint8_t* corner = stored.data;
  if (turn.flip_rows) {
    corner = stored.row(stored.height - 1);
    down = -down;
  }
  if (turn.flip_columns) {
    corner += int64_t{stored.width - 1} * kChannels;
    right = -right;
  }
  if (turn.transpose) std::swap(down, right);
  for (int y = 0; y < out.height; ++y) {
    const uint8_t* from = corner + y * down;
    uint8_t* to = out.row(y);
    for (int x = 0; x < out.width; ++x) {
      std::copy_n(from + x * right, kChannels, to + int64_t{x} * kChannels);
    }
  }
}

}  // namespace

int ExifOrientation(absl::string_view tiff) {
  constexpr uint32_t kOrientationTag = 274;
  constexpr uint32_t kShort = 3;
  const TiffReader reader(tiff);
  if (!reader.valid() || !reader.Has(4, 4)) return 1;
  const uint64_t directory = reader.U32(4);
  if (!reader.Has(directory, 2)) return 1;
  const uint64_t num_entries = reader.U16(directory);
  for (uint64_t i = 0; i < num_entries; ++i) {
    const uint64_t entry = directory + 2 + 12 * i;
    if (!reader.Has(entry, 12)) return 1;
    if (reader.U16(entry) != kOrientationTag) continue;
    if (reader.U16(entry + 2) != kShort || reader.U32(entry + 4) != 1) return 1;
    const uint32_t value = reader.U16(entry + 8);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

Size OrientedSize(Size stored, int orientation) {
  return kTurns[orientation].transpose ? Size{stored.width, stored.height} : stored;
}

Box StoredBox(const Box& oriented, Size stored, int orientation) {
  const Turn turn = kTurns[orientation];
  Box box = oriented;
  if (turn.transpose) box = {oriented.x, oriented.y, oriented.width, oriented.height};
  if (turn.flip_rows) box.y = stored.height - box.y - box.height;
  if (turn.flip_columns) box.x = stored.width - box.x - box.width;
  return box;
}

Window OrientedWindow(const Window& window, Size stored, int orientation) {
  const Turn turn = kTurns[orientation];
  Window out = window;
  if (turn.flip_rows) out.y = stored.height - window.y - window.height;
  if (turn.flip_columns) out.x = stored.width - window.x - window.width;
  if (turn.transpose) return {out.x, out.y, out.width, out.height};
  return out;
}

void Orient(ImageView stored, int orientation, const MutableImageView& out) {
  base::Require(orientation >= 1 && orientation <= 8, "an EXIF orientation must be from 1 to 8");
  base::Require(out.size() == OrientedSize(stored.size(), orientation),
                "the output of Orient must have the size OrientedSize");
  base::Require(out.channels == stored.channels && (out.channels == 1 || out.channels == 3),
                "input and output of Orient must have the same 1 or 3 channels");
  const Turn turn = kTurns[orientation];
  out.channels == 1 ? OrientPixels<1>(stored, turn, out) : OrientPixels<3>(stored, turn, out);
}

}  // namespace penstock::image
