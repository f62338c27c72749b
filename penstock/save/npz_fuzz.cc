// Arbitrary bytes: an error, or weights that survive a round trip.
#include <cstddef>
#include <cstdint>

#include "penstock/save/npz.h"
#include "penstock/save/testing/fuzz_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock::save;
  testing::CheckFile(NpzFormat(), {reinterpret_cast<const char*>(data), size});
  return 0;
}
