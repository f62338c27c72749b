// The table of image formats. A format is one .cc with one Codec, one row in codec.cc, and its
// test; everything else (orientation, crop, resize, limits) is common and lives in image.cc.
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

// Memory that grows and is kept. What it held before is gone after Get.
class GrowingBuffer {
 public:
  uint8_t* Get(int64_t bytes);

 private:
  std::unique_ptr<uint8_t[]> data_;
  int64_t capacity_ = 0;
};

// What a Decoder keeps for the codecs from one image to the next.
struct CodecScratch {
  GrowingBuffer bytes;                                     // any codec's, during one image
  absl::flat_hash_map<Format, std::shared_ptr<void>> own;  // what a codec makes for itself
};

// What a codec is asked for.
struct CodecRequest {
  absl::string_view bytes;
  ImageInfo info;  // what this codec's read_info said of the same bytes
  Box box;         // the part wanted, inside the image as stored and reduced
  // Each side is divided by it, rounded up: 1, or 2 or 4 of a codec that reduces.
  int reduction = 1;
  // Samples before and behind each row of the output that the codec may write over, so that it can
  // put whole blocks there.
  int room = 0;
  CodecScratch* scratch = nullptr;

  Size reduced_size() const {
    return {(info.height + reduction - 1) / reduction, (info.width + reduction - 1) / reduction};
  }
};

struct Codec {
  Format format;
  absl::string_view name;
  bool reduces;  // makes smaller images at less cost
  // By the first bytes.
  bool (*matches)(absl::string_view bytes);
  absl::StatusOr<ImageInfo> (*read_info)(absl::string_view bytes);
  // Writes the box into `out`: its size, 1 or 3 channels. Info was checked against max_pixels.
  absl::Status (*decode)(const CodecRequest& request, const MutableImageView& out);
};

extern const Codec kJpegCodec;
extern const Codec kPngCodec;

absl::Span<const Codec* const> Codecs();
// The error names the first bytes and the formats there are.
absl::StatusOr<const Codec*> FindCodec(absl::string_view bytes);

inline uint32_t BigEndian16(const char* p) {
  return static_cast<uint32_t>(static_cast<uint8_t>(p[0])) << 8 | static_cast<uint8_t>(p[1]);
}
inline uint32_t BigEndian32(const char* p) { return BigEndian16(p) << 16 | BigEndian16(p + 2); }

// 0.299 R + 0.587 G + 0.114 B, rounded: the Y of JPEG (JFIF 1.02), in 16-bit fixed point.
inline uint8_t Luma(int r, int g, int b) {
  return static_cast<uint8_t>((19595 * r + 38470 * g + 7471 * b + 32768) >> 16);
}

}  // namespace penstock::image
