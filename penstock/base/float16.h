// bfloat16 and float16 (half precision) as storage types: they convert to and from float, rounding
// to nearest even, and arithmetic is done in float. (g++ 12 and clang 14 have no common 16-bit
// float.)
#pragma once

#include <bit>
#include <cstdint>

namespace penstock::base {

struct bfloat16 {
  uint16_t bits = 0;

  bfloat16() = default;
  bfloat16(float value) : bits(FromFloat(value)) {}  // NOLINT: converts like a float does
  operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }

 private:
  static uint16_t FromFloat(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    if ((u & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((u >> 16) | 0x40);  // quiet NaN
    return static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
};

struct float16 {
  uint16_t bits = 0;

  float16() = default;
  float16(float value) : bits(FromFloat(value)) {}  // NOLINT: converts like a float does
  operator float() const { return ToFloat(bits); }

 private:
  static uint16_t FromFloat(float value);
  static float ToFloat(uint16_t bits);
};

static_assert(sizeof(bfloat16) == 2 && sizeof(float16) == 2);

}  // namespace penstock::base
