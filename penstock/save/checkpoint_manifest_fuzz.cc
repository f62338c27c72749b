// Any bytes, also behind a checksum that fits: an error, or a manifest that comes back the same.
#include <cstdint>
#include <string>

#include "absl/strings/str_format.h"

#include "penstock/base/status.h"
#include "penstock/save/checkpoint_manifest.h"

namespace penstock::save {
namespace {

void Check(absl::string_view text) {
  const absl::StatusOr<Manifest> manifest = ParseManifest(text);
  if (!manifest.ok()) return;
  const absl::StatusOr<std::string> written = WriteManifest(*manifest);
  PENSTOCK_CHECK_OK(written);
  const absl::StatusOr<Manifest> again = ParseManifest(*written);
  PENSTOCK_CHECK_OK(again);
  PENSTOCK_CHECK(again->step == manifest->step && again->score == manifest->score);
  PENSTOCK_CHECK(again->state == manifest->state && again->files.size() == manifest->files.size());
}

}  // namespace
}  // namespace penstock::save

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  penstock::save::Check(bytes);
  const uint32_t crc = penstock::save::Crc32(0, bytes);
  penstock::save::Check(absl::StrFormat("{\"crc32\": \"%08x\",%s", crc, bytes));
  return 0;
}
