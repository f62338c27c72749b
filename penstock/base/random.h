// Seeds and host-side random numbers that are the same on every machine and in every version: a
// saved seed must give the same shuffle years later, which std::shuffle and std::mt19937
// distributions do not promise.
#pragma once

#include <cstdint>

namespace penstock::base {

// A well-mixed 64-bit function of two numbers: derive a seed for (epoch, shard, worker, ...) from
// another.
uint64_t MixSeeds(uint64_t a, uint64_t b);

// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next();
  // Uniform in [0, bound), without bias; bound 0 is a ContractError.
  uint64_t Below(uint64_t bound);
  // Uniform in [0, 1), 53 bits.
  double Uniform();

  // The whole state: Random(r.state()) goes on where r is.
  uint64_t state() const { return state_; }

 private:
  uint64_t state_;
};

// A seed from the system's entropy, for when the user gave none (it is then printed, so that a run
// can be repeated).
uint64_t EntropySeed();

}  // namespace penstock::base
