// Arbitrary bytes as a pickle, and as a file: an error, or weights that survive a round trip.
#include <cstddef>
#include <cstdint>

#include "penstock/save/pickle.h"
#include "penstock/save/pytorch.h"
#include "penstock/save/pytorch_state.h"
#include "penstock/save/testing/fuzz_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock::save;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  // Few mutations of an archive have the right checksum; a pickle has none.
  const auto pickle = Pickle::Parse(bytes, PyTorchNames());
  if (pickle.ok()) InterpretPyTorch(*pickle).IgnoreError();
  testing::CheckFile(PyTorchZipFormat(), bytes);
  return 0;
}
