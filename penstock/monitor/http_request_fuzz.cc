// Fuzz target: bytes from the network as a request.

#include <cstddef>
#include <cstdint>
#include <string>

#include "penstock/base/status.h"
#include "penstock/monitor/http_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto whole = penstock::monitor::ParseHttpRequest(bytes);
  // A head that is complete stays the same, whatever follows.
  if (whole.ok() && whole->has_value()) {
    PENSTOCK_CHECK((*whole)->path.starts_with("/"));
    PENSTOCK_CHECK_OK(penstock::monitor::ParseHttpRequest(std::string(bytes) + "x"));
  }
  return 0;
}
