// IndexPermutation: a pseudorandom permutation of 0 .. n-1 that is computed on the fly, for a
// global shuffle of all records by index. It takes no memory and no setup time for any n, and is
// the same for the same seed on every machine.
//
//   const IndexPermutation order(1'281'167, MixSeeds(seed, epoch));
//   for (uint64_t i = 0; i < order.size(); ++i) Read(order(i));    // each index once
//
// A Feistel network (Luby and Rackoff, How to construct pseudorandom permutations, 1988) of 8
// rounds over the smallest power of two that is at least n; a result outside 0 .. n-1 is encrypted
// again until it is inside (cycle walking: Black and Rogaway, Ciphers with arbitrary finite
// domains, 2002), fewer than two rounds on average.
#pragma once

#include <array>
#include <cstdint>

namespace penstock::base {

class IndexPermutation {
 public:
  IndexPermutation(uint64_t size, uint64_t seed);  // requires size <= 2^62

  uint64_t size() const { return size_; }
  // The index at position `i` of the shuffled order. Requires i < size().
  uint64_t operator()(uint64_t i) const;

 private:
  static constexpr int kRounds = 8;  // even, so that both halves end with their original widths

  uint64_t Encrypt(uint64_t x) const;

  uint64_t size_;
  int low_bits_ = 0, high_bits_ = 0;  // the two halves
  std::array<uint64_t, kRounds> keys_;
};

}  // namespace penstock::base
