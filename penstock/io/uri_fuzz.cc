// Arbitrary text: FormatUri is the inverse of ParseUri, and joining is the inverse of splitting.
#include <cstdint>

#include "penstock/base/status.h"
#include "penstock/io/uri.h"

using penstock::io::Uri;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto uri = penstock::io::ParseUri(text);
  (void)penstock::io::Dirname(text);
  (void)penstock::io::Basename(text);
  if (!uri.ok()) return 0;
  const auto again = penstock::io::ParseUri(penstock::io::FormatUri(*uri));
  PENSTOCK_CHECK_OK(again);
  PENSTOCK_CHECK(again->scheme == uri->scheme && again->user == uri->user &&
                 again->bucket == uri->bucket && again->path == uri->path &&
                 again->options == uri->options);
  for (const char* name : {"x", "x y?a=b", "%?&"}) {
    const std::string joined = penstock::io::JoinPath(text, name);
    PENSTOCK_CHECK(penstock::io::Basename(joined) == name);
    const auto parsed = penstock::io::ParseUri(joined);
    if (!parsed.ok()) continue;
    PENSTOCK_CHECK(parsed->bucket == uri->bucket && parsed->options == uri->options);
    PENSTOCK_CHECK(penstock::io::DisplayUri(*parsed).size() <= joined.size());
  }
  return 0;
}
