#include "penstock/estimator/feature_column/fingerprint.h"

#include <utility>

namespace penstock::feature_column {
namespace {

// Primes between 2^63 and 2^64.
constexpr uint64_t kPrime0 = 0xc3a5c85c97cb3127, kPrime1 = 0xb492b66fbe98f273,
                   kPrime2 = 0x9ae16a3b2f90404f;

// Little-endian number of `bytes` bytes, on every platform.
uint64_t Fetch(const char* p, int bytes = 8) {
  uint64_t value = 0;
  for (int i = bytes - 1; i >= 0; --i) value = value << 8 | static_cast<uint8_t>(p[i]);
  return value;
}

uint64_t Rotate(uint64_t value, int shift) { return value >> shift | value << (64 - shift); }
uint64_t ShiftMix(uint64_t value) { return value ^ value >> 47; }

// Murmur-inspired hash of 16 bytes.
uint64_t Hash16(uint64_t u, uint64_t v, uint64_t mul) {
  const uint64_t a = ShiftMix((u ^ v) * mul);
  return ShiftMix((v ^ a) * mul) * mul;
}

uint64_t HashUpTo16(const char* s, size_t size) {
  if (size >= 8) {
    const uint64_t mul = kPrime2 + size * 2;
    const uint64_t a = Fetch(s) + kPrime2, b = Fetch(s + size - 8);
    return Hash16(Rotate(b, 37) * mul + a, (Rotate(a, 25) + b) * mul, mul);
  }
  if (size >= 4) {
    return Hash16(size + (Fetch(s, 4) << 3), Fetch(s + size - 4, 4), kPrime2 + size * 2);
  }
  if (size == 0) return kPrime2;
  const uint64_t a = Fetch(s, 1), b = Fetch(s + size / 2, 1), c = Fetch(s + size - 1, 1);
  const uint64_t y = a + (b << 8), z = size + (c << 2);
  return ShiftMix((y * kPrime2) ^ (z * kPrime0)) * kPrime2;
}

uint64_t HashUpTo32(const char* s, size_t size) {
  const uint64_t mul = kPrime2 + size * 2;
  const uint64_t a = Fetch(s) * kPrime1, b = Fetch(s + 8);
  const uint64_t c = Fetch(s + size - 8) * mul, d = Fetch(s + size - 16) * kPrime2;
  return Hash16(Rotate(a + b, 43) + Rotate(c, 30) + d, a + Rotate(b + kPrime2, 18) + c, mul);
}

uint64_t HashUpTo64(const char* s, size_t size) {
  const uint64_t mul = kPrime2 + size * 2;
  const uint64_t a = Fetch(s) * kPrime2, b = Fetch(s + 8);
  const uint64_t c = Fetch(s + size - 8) * mul, d = Fetch(s + size - 16) * kPrime2;
  const uint64_t y = Rotate(a + b, 43) + Rotate(c, 30) + d;
  const uint64_t z = Hash16(y, a + Rotate(b + kPrime2, 18) + c, mul);
  const uint64_t e = Fetch(s + 16) * mul, f = Fetch(s + 24);
  const uint64_t g = (y + Fetch(s + size - 32)) * mul, h = (z + Fetch(s + size - 24)) * mul;
  return Hash16(Rotate(e + f, 43) + Rotate(g, 30) + h, e + Rotate(f + a, 18) + g, mul);
}

using Pair = std::pair<uint64_t, uint64_t>;

Pair WeakHash32(const char* s, uint64_t a, uint64_t b) {
  const uint64_t w = Fetch(s), x = Fetch(s + 8), y = Fetch(s + 16), z = Fetch(s + 24);
  a += w;
  b = Rotate(b + a + z, 21);
  const uint64_t c = a;
  a += x + y;
  b += Rotate(a, 44);
  return {a + z, b + c};
}

}  // namespace

uint64_t Fingerprint64(absl::string_view bytes) {
  const char* s = bytes.data();
  const size_t size = bytes.size();
  if (size <= 16) return HashUpTo16(s, size);
  if (size <= 32) return HashUpTo32(s, size);
  if (size <= 64) return HashUpTo64(s, size);

  // 56 bytes of state: v, w, x, y, z.
  constexpr uint64_t kSeed = 81;
  uint64_t x = kSeed * kPrime2 + Fetch(s), y = kSeed * kPrime1 + 113;
  uint64_t z = ShiftMix(y * kPrime2 + 113) * kPrime2;
  Pair v{0, 0}, w{0, 0};
  const char* const end = s + (size - 1) / 64 * 64;
  const char* const last64 = end + ((size - 1) & 63) - 63;
  // One block of 64 bytes; the last one, which may overlap, has other factors.
  const auto mix = [&](uint64_t mul, uint64_t weight) {
    x = Rotate(x + y + v.first + Fetch(s + 8), 37) * mul;
    y = Rotate(y + v.second + Fetch(s + 48), 42) * mul;
    x ^= w.second * weight;
    y += v.first * weight + Fetch(s + 40);
    z = Rotate(z + w.first, 33) * mul;
    v = WeakHash32(s, v.second * mul, x + w.first);
    w = WeakHash32(s + 32, z + w.second, y + Fetch(s + 16));
    std::swap(z, x);
  };
  for (; s != end; s += 64) mix(kPrime1, 1);
  const uint64_t mul = kPrime1 + ((z & 0xff) << 1);
  s = last64;
  w.first += (size - 1) & 63;
  v.first += w.first;
  w.first += v.first;
  mix(mul, 9);
  return Hash16(Hash16(v.first, w.first, mul) + ShiftMix(y) * kPrime0 + z,
                Hash16(v.second, w.second, mul) + x, mul);
}

}  // namespace penstock::feature_column
