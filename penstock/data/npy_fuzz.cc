#include <cstddef>
#include <cstdint>

#include "penstock/base/status.h"
#include "penstock/data/npy.h"

// Whatever can be read can be written, and reads the same again.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const auto array = data::ParseNpy({reinterpret_cast<const char*>(data), size});
  if (!array.ok()) return 0;
  const auto written = data::SerializeNpy(*array);
  if (!written.ok()) return 0;
  const auto again = data::ParseNpy(*written);
  PENSTOCK_CHECK_OK(again);
  PENSTOCK_CHECK(BitwiseEqual(*array, *again));
  return 0;
}
