#include <cstddef>
#include <cstdint>

#include "absl/strings/match.h"

#include "penstock/base/status.h"
#include "penstock/runtime/out_of_memory.h"

// Arbitrary plugin messages: the advice is appended to the message, and parsing terminates.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view message(reinterpret_cast<const char*>(data), size);
  const absl::Status advised = penstock::runtime::AdviseBatch(
      absl::ResourceExhaustedError(message), {.examples = 128, .fixed_bytes = 1 << 20});
  PENSTOCK_CHECK(absl::IsResourceExhausted(advised));
  PENSTOCK_CHECK(absl::StartsWith(advised.message(), message));
  return 0;
}
