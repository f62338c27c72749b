#include "penstock/base/random.h"

#include <random>

#include "penstock/base/contract_error.h"

namespace penstock::base {
namespace {

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;

uint64_t Finalize(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

uint64_t MixSeeds(uint64_t a, uint64_t b) {
  return Finalize(Finalize(a + kGolden) ^ (b + kGolden));
}

uint64_t Random::Next() { return Finalize(state_ += kGolden); }

// Lemire's method: the high half of a 64x64-bit product, redrawn in the few cases that would bias
// it.
uint64_t Random::Below(uint64_t bound) {
  if (bound == 0) throw ContractError("Random::Below(0): the bound must be at least 1");
  const uint64_t threshold = -bound % bound;
  for (;;) {
    const unsigned __int128 product = static_cast<unsigned __int128>(Next()) * bound;
    if (static_cast<uint64_t>(product) >= threshold) return static_cast<uint64_t>(product >> 64);
  }
}

double Random::Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

uint64_t EntropySeed() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace penstock::base
