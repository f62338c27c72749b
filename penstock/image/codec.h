// Registry of image formats. A format is one .cc with one Codec, one row in codec.cc, and its test;
// everything else (orientation, crop, resize, limits) is shared and lives in image.cc.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/image/image.h"
#include "penstock/image/view.h"

namespace penstock::image {

// A growable buffer that keeps its memory between uses. Get discards the contents.
class GrowingBuffer {
 public:
  uint8_t* Get(int64_t bytes);

 private:
  std::unique_ptr<uint8_t[]> data_;
  int64_t capacity_ = 0;
};

// Scratch memory of codecs that a Decoder keeps between images.
struct CodecScratch {
  GrowingBuffer bytes;  // temporary memory of any codec during one image
  absl::flat_hash_map<Format, std::shared_ptr<void>> own;  // state of each codec
};

// Parameters of Codec::decode.
struct CodecRequest {
  absl::string_view bytes;
  ImageInfo info;  // result of this codec's read_info for the same bytes
  Box box;         // the crop, in pixels of the stored, reduced image
  // Downscaling factor: each side is divided by it, rounded up. 1, or 2 or 4 if the codec reduces.
  int reduction = 1;
  // Padding before and after each row of the output, in samples, that the codec may overwrite, so
  // that it can write whole blocks there.
  int row_padding = 0;
  CodecScratch* scratch = nullptr;

  Size reduced_size() const {
    return {(info.height + reduction - 1) / reduction, (info.width + reduction - 1) / reduction};
  }
};

struct Codec {
  Format format;
  absl::string_view name;
  bool reduces;  // supports `reduction`
  // Detects the format from the first bytes.
  bool (*matches)(absl::string_view bytes);
  absl::StatusOr<ImageInfo> (*read_info)(absl::string_view bytes);
  // Decodes the box into `out`, which has the box's size and 1 or 3 channels. `info` was checked
  // against max_pixels.
  absl::Status (*decode)(const CodecRequest& request, const MutableImageView& out);
};

extern const Codec kJpegCodec;
extern const Codec kPngCodec;

absl::Span<const Codec* const> Codecs();
// The codec of a file; the error names the first bytes and the supported formats.
absl::StatusOr<const Codec*> FindCodec(absl::string_view bytes);

inline uint32_t BigEndian16(const char* p) {
  return static_cast<uint32_t>(static_cast<uint8_t>(p[0])) << 8 | static_cast<uint8_t>(p[1]);
}
inline uint32_t BigEndian32(const char* p) { return BigEndian16(p) << 16 | BigEndian16(p + 2); }

// Luma, 0.299 R + 0.587 G + 0.114 B, rounded: the Y of JPEG (JFIF 1.02), in 16-bit fixed point.
inline uint8_t Luma(int r, int g, int b) {
  return static_cast<uint8_t>((19595 * r + 38470 * g + 7471 * b + 32768) >> 16);
}

}  // namespace penstock::image
