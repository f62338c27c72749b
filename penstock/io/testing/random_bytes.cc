#include "penstock/io/testing/random_bytes.h"

#include "penstock/base/random.h"

namespace penstock::io {

std::string RandomBytes(int64_t size, uint64_t seed) {
  base::Random random(base::MixSeeds(seed, static_cast<uint64_t>(size)));
  std::string bytes(static_cast<size_t>(size), '\0');
  uint64_t word = 0;
  for (int64_t i = 0; i < size; ++i) {
    if (i % 8 == 0) word = random.Next();
    bytes[i] = static_cast<char>(word >> (8 * (i % 8)));
  }
  return bytes;
}

}  // namespace penstock::io
