// The files in ~/.aws, and names with %XX: any bytes are taken apart without harm.
#include <cstddef>
#include <cstdint>

#include "penstock/base/status.h"
#include "penstock/io/aws_credentials.h"
#include "penstock/io/percent_encoding.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string value = penstock::io::IniValue(text, "default", "region");
  PENSTOCK_CHECK(value.find('\n') == std::string::npos && value.size() <= size);
  PENSTOCK_CHECK(penstock::io::PercentDecode(text).size() <= size);
  PENSTOCK_CHECK(penstock::io::PercentDecode(penstock::io::PercentEncode(text)) == text);
  return 0;
}
