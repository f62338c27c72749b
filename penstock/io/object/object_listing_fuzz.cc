// Arbitrary bytes as listings: either rejected, or all names are below the prefix and all sizes
// nonnegative.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/match.h"

#include "penstock/base/status.h"
#include "penstock/io/object/object_listing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using penstock::io::ObjectPage;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t bar = std::min(bytes.find('|'), bytes.size());
  const absl::string_view prefix = bytes.substr(0, bar);
  const absl::string_view body = bytes.substr(std::min(bar + 1, bytes.size()));
  for (const auto& page :
       {penstock::io::ParseGcsListing(body, prefix), penstock::io::ParseS3Listing(body, prefix)}) {
    if (!page) continue;
    for (const ObjectPage::Object& object : page->objects) {
      PENSTOCK_CHECK(!object.path.empty() && absl::StartsWith(object.path, prefix));
      PENSTOCK_CHECK(object.size >= 0);
    }
    for (const std::string& folder : page->folders) {
      PENSTOCK_CHECK(absl::StartsWith(folder, prefix) && folder.size() > prefix.size());
    }
  }
  return 0;
}
