#include "penstock/base/permutation.h"

#include <utility>

#include "penstock/base/random.h"
#include "penstock/base/status.h"

namespace penstock::base {
namespace {

constexpr uint64_t Mask(int bits) { return (uint64_t{1} << bits) - 1; }

}  // namespace

IndexPermutation::IndexPermutation(uint64_t size, uint64_t seed) : size_(size) {
  PENSTOCK_CHECK(size <= uint64_t{1} << 62);
  int bits = 0;
  while ((uint64_t{1} << bits) < size) ++bits;
  high_bits_ = bits / 2;
  low_bits_ = bits - high_bits_;
  for (int round = 0; round < kRounds; ++round) keys_[round] = MixSeeds(seed, round);
}

uint64_t IndexPermutation::Encrypt(uint64_t x) const {
  uint64_t high = x >> low_bits_, low = x & Mask(low_bits_);
  int high_bits = high_bits_, low_bits = low_bits_;
  for (uint64_t key : keys_) {
    const uint64_t mixed = (high ^ MixSeeds(key, low)) & Mask(high_bits);
    high = low;
    low = mixed;
    std::swap(high_bits, low_bits);
  }
  return high << low_bits_ | low;
}

uint64_t IndexPermutation::operator()(uint64_t i) const {
  PENSTOCK_CHECK(i < size_);
  do {
    i = Encrypt(i);
  } while (i >= size_);
  return i;
}

}  // namespace penstock::base
