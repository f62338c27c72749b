// Arbitrary bytes: our Huffman decoder and libjpeg's must agree on the pixels or on failure.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "penstock/image/testing/jpeg_outcome.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock::image;  // NOLINT: a standalone program
  static JpegHuffman ours;          // reused: tables of earlier files must not affect this one
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  constexpr uint64_t kMaxPixels = 1 << 16;
  const JpegOutcome want = DecodeJpegWith(nullptr, bytes, JCS_UNKNOWN, kMaxPixels);
  const JpegOutcome got = DecodeJpegWith(&ours, bytes, JCS_UNKNOWN, kMaxPixels);
  if (got.ok != want.ok || got.pixels != want.pixels) std::abort();
  return 0;
}
