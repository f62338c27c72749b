#include <cstddef>
#include <cstdint>

#include "penstock/base/status.h"
#include "penstock/formats/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const auto arrays = formats::ParseNpz({reinterpret_cast<const char*>(data), size});
  if (!arrays.ok()) return 0;
  const auto written = formats::SerializeNpz(*arrays, {.compress = size % 2 == 0});
  if (!written.ok()) return 0;
  const auto again = formats::ParseNpz(*written);
  PENSTOCK_CHECK_OK(again);
  PENSTOCK_CHECK(again->size() == arrays->size());
  for (size_t i = 0; i < arrays->size(); ++i) {
    PENSTOCK_CHECK(BitwiseEqual((*arrays)[i].second, (*again)[i].second));
  }
  return 0;
}
