// Arbitrary bytes as an index: an error, or names of files in the same folder.
#include <cstddef>
#include <cstdint>

#include "absl/strings/match.h"

#include "penstock/base/status.h"
#include "penstock/save/safetensors_index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto index =
      penstock::save::ParseSafetensorsIndex({reinterpret_cast<const char*>(data), size});
  if (!index.ok()) return 0;
  for (const auto& [name, file] : index->weight_map) {
    PENSTOCK_CHECK(absl::EndsWith(file, ".safetensors") && !absl::StrContains(file, '/'));
  }
  return 0;
}
