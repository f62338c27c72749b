// Input: a pattern and a name, one per line. Matching terminates, and invariants hold for any
// input.
#include <cstdint>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/io/glob.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t line = text.find('\n');
  if (line == absl::string_view::npos) return 0;
  const absl::string_view pattern = text.substr(0, line);
  const absl::string_view name = text.substr(line + 1);
  const bool matches = penstock::io::SegmentMatches(pattern, name);
  (void)penstock::io::PathMatches(pattern, name);
  if (!penstock::io::HasWildcard(pattern)) PENSTOCK_CHECK(matches == (pattern == name));
  // A match remains a match with one more star in the pattern.
  if (matches) PENSTOCK_CHECK(penstock::io::SegmentMatches(absl::StrCat(pattern, "*"), name));
  if (!name.empty() && name[0] != '.') PENSTOCK_CHECK(penstock::io::SegmentMatches("*", name));
  return 0;
}
