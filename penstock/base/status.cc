#include "penstock/base/status.h"

#include <cstdio>
#include <cstdlib>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace penstock::base {

absl::Status WithContext(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  absl::Status out(status.code(), absl::StrCat(context, ": ", status.message()));
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { out.SetPayload(url, payload); });
  return out;
}

namespace internal {

void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
  std::abort();
}

void CheckOkFailed(const absl::Status& status, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: unexpected error: %s\n", file, line, status.ToString().c_str());
  std::abort();
}

}  // namespace internal
}  // namespace penstock::base
