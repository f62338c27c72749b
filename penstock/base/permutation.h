// A random order of 0 .. n-1 that is computed instead of kept: the same for the same seed on every
// machine, with no memory and no start-up, for any n.
//
//   const IndexPermutation order(1'281'167, MixSeeds(seed, epoch));
//   for (uint64_t i = 0; i < order.size(); ++i) Read(order(i));    // each index once
//
// A Feistel network (Luby and Rackoff, How to construct pseudorandom permutations, 1988) of 8
// rounds over the smallest power of two that holds n; a result outside 0 .. n-1 goes through again
// until it is inside (cycle walking: Black and Rogaway, Ciphers with arbitrary finite domains,
// 2002), fewer than two rounds on average.
#pragma once

#include <array>
#include <cstdint>

namespace penstock::base {

class IndexPermutation {
 public:
  IndexPermutation(uint64_t size, uint64_t seed);  // size at most 2^62 (contract)

  uint64_t size() const { return size_; }
  // The index at place `i`; i < size() (contract).
  uint64_t operator()(uint64_t i) const;

 private:
  static constexpr int kRounds = 8;  // even: the halves come back to their widths

  uint64_t Encrypt(uint64_t x) const;

  uint64_t size_;
  int low_bits_ = 0, high_bits_ = 0;  // the two halves
  std::array<uint64_t, kRounds> keys_;
};

}  // namespace penstock::base
