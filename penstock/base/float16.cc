#include "penstock/base/float16.h"

#include <cmath>

namespace penstock::base {

// IEEE 754 binary16: 1 sign bit, 5 exponent bits (bias 15), 10 fraction bits.
uint16_t float16::FromFloat(float value) {
  const uint32_t u = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((u >> 16) & 0x8000);
  const uint32_t magnitude = u & 0x7fffffff;
  if (magnitude > 0x7f800000) {  // NaN: quiet, and keep the upper payload bits
    return static_cast<uint16_t>(sign | 0x7e00 | ((magnitude >> 13) & 0x1ff));
  }
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // rounds beyond 65504: infinity
  if (magnitude < 0x38800000) {                       // below 2^-14: subnormal, in units of 2^-24
    const float scaled = std::bit_cast<float>(magnitude) * 16777216.0f;
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(scaled)));
  }
  const uint32_t rebiased = magnitude - (uint32_t{127 - 15} << 23);
  return static_cast<uint16_t>(sign | ((rebiased + 0xfff + ((rebiased >> 13) & 1)) >> 13));
}

float float16::ToFloat(uint16_t bits) {
  const uint32_t sign = uint32_t{static_cast<uint16_t>(bits & 0x8000)} << 16;
  const uint32_t exponent = (bits >> 10) & 0x1f;
  const uint32_t fraction = bits & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000 | (fraction << 13));
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 127 - 15) << 23) | (fraction << 13));
}

}  // namespace penstock::base
