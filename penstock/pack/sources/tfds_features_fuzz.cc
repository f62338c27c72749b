#include <cstdint>

#include "penstock/pack/sources/tfds_features.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  (void)penstock::pack::ParseTfdsFeatures(
      absl::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
