// CRC-32C (Castagnoli; RFC 3720, appendix B.4) and the masked form that TFRecord files store.
//
//   Crc32c("123456789") == 0xe3069283
//   ExtendCrc32c(Crc32c("1234"), "56789") == 0xe3069283
//
// Uses the processor's CRC instructions if available (SSE4.2, detected at run time; ARMv8 CRC, if
// compiled for it) and lookup tables otherwise; the result is the same.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace penstock::record {

// Extends a CRC: given the CRC of some bytes, returns the CRC of those bytes followed by `data`.
// The CRC of no bytes is 0.
uint32_t ExtendCrc32c(uint32_t crc, absl::string_view data);
// The same, and copies the bytes to `to`, past the caches: one pass over memory that is read much later.
uint32_t CopyCrc32c(uint32_t crc, absl::string_view data, char* to);
inline uint32_t Crc32c(absl::string_view data) { return ExtendCrc32c(0, data); }

// Masked CRC: TFRecord stores CRCs rotated and offset, because the CRC of bytes that contain CRCs
// is weak (tensorflow/core/lib/hash/crc32c.h).
inline constexpr uint32_t kCrcMaskDelta = 0xa282ead8u;
constexpr uint32_t MaskCrc(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + kCrcMaskDelta; }
constexpr uint32_t UnmaskCrc(uint32_t masked) {
  const uint32_t rotated = masked - kCrcMaskDelta;
  return (rotated >> 17) | (rotated << 15);
}

namespace internal {
// Table-based ExtendCrc32c, used without CRC instructions; a test compares the two.
uint32_t ExtendCrc32cByTable(uint32_t crc, absl::string_view data);
// CopyCrc32c without such stores.
uint32_t CopyCrc32cPlainly(uint32_t crc, absl::string_view data, char* to);
}  // namespace internal

}  // namespace penstock::record
