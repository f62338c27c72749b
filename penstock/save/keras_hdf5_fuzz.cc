// Arbitrary bytes as an HDF5 file or an archive with one: an error, or weights that survive a round
// trip.
#include <cstddef>
#include <cstdint>

#include "absl/strings/match.h"

#include "penstock/save/keras_hdf5.h"
#include "penstock/save/testing/fuzz_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock::save;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  // The layout is detected by this attribute; only its own writer accepts the names.
  const bool is_legacy = absl::StrContains(bytes, "layer_names");
  testing::CheckFile(absl::StartsWith(bytes, "PK") ? KerasArchiveFormat()
                     : is_legacy                   ? KerasLegacyFormat()
                                                   : KerasWeightsFormat(),
                     bytes);
  return 0;
}
