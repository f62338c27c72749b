// Host-side pseudorandom numbers and seed derivation, reproducible on every machine and in every
// version: a saved seed gives the same shuffle years later, which std::shuffle and the standard
// distributions do not guarantee.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace penstock::base {

// A 64-bit hash of two numbers, for deriving seeds (fold in the epoch, shard, worker, ...). Depends
// on the order of its arguments.
uint64_t MixSeeds(uint64_t a, uint64_t b);

// The generator SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators,
// 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next();
  // A uniform integer in [0, bound), without bias; bound 0 is a ContractError.
  uint64_t Below(uint64_t bound);
  // A uniform double in [0, 1) with 53 random bits.
  double Uniform();

  // The complete state: Random(r.state()) continues the sequence of r.
  uint64_t state() const { return state_; }

 private:
  uint64_t state_;
};

// Shuffles `values` uniformly (Fisher-Yates): every permutation is equally likely. The result
// depends only on the state of `random` and the number of values.
template <typename T>
void Shuffle(Random& random, std::vector<T>& values) {
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random.Below(i)]);
}

// A seed from the system's entropy, used when the user gives none (it is then printed, so that the
// run can be reproduced).
uint64_t EntropySeed();

}  // namespace penstock::base
