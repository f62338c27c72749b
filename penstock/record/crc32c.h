// CRC-32C (Castagnoli; RFC 3720, appendix B.4) and the masked form that TFRecord files store.
//
//   Crc32c("123456789") == 0xe3069283
//   ExtendCrc32c(Crc32c("1234"), "56789") == 0xe3069283
//
// Uses the processor's CRC instructions where it has them (SSE4.2, found at run time; ARMv8 CRC,
// when compiled for it) and tables elsewhere; the result is the same.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace penstock::record {

// The CRC of what `crc` stands for followed by `data`; 0 stands for no bytes.
uint32_t ExtendCrc32c(uint32_t crc, absl::string_view data);
inline uint32_t Crc32c(absl::string_view data) { return ExtendCrc32c(0, data); }

// TFRecord stores CRCs rotated and offset, so that the CRC of bytes that hold CRCs stays a good
// one (tensorflow/core/lib/hash/crc32c.h).
inline constexpr uint32_t kCrcMaskDelta = 0xa282ead8u;
constexpr uint32_t MaskCrc(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + kCrcMaskDelta; }
constexpr uint32_t UnmaskCrc(uint32_t masked) {
  const uint32_t rotated = masked - kCrcMaskDelta;
  return (rotated >> 17) | (rotated << 15);
}

namespace internal {
// What ExtendCrc32c does without CRC instructions; a test compares the two.
uint32_t ExtendCrc32cByTable(uint32_t crc, absl::string_view data);
}  // namespace internal

}  // namespace penstock::record
