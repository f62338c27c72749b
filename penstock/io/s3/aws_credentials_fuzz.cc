// Arbitrary bytes as files in ~/.aws, and as percent-encoded names: parsing is safe.
#include <cstddef>
#include <cstdint>

#include "penstock/base/status.h"
#include "penstock/io/http/percent_encoding.h"
#include "penstock/io/s3/aws_credentials.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string value = penstock::io::IniValue(text, "default", "region");
  PENSTOCK_CHECK(value.find('\n') == std::string::npos && value.size() <= size);
  PENSTOCK_CHECK(penstock::io::PercentDecode(text).size() <= size);
  PENSTOCK_CHECK(penstock::io::PercentDecode(penstock::io::PercentEncode(text)) == text);
  return 0;
}
