#include <cstddef>
#include <cstdint>

#include "penstock/base/status.h"
#include "penstock/formats/npy.h"

// Round trip: an array that was parsed can be written, and parses to the same array again.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const auto array = formats::ParseNpy({reinterpret_cast<const char*>(data), size});
  if (!array.ok()) return 0;
  const auto written = formats::SerializeNpy(*array);
  if (!written.ok()) return 0;
  const auto again = formats::ParseNpy(*written);
  PENSTOCK_CHECK_OK(again);
  PENSTOCK_CHECK(BitwiseEqual(*array, *again));
  return 0;
}
