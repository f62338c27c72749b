// Detection of formats that are zip archives by the beginning of the file. Internal to npz.cc and
// pytorch*.cc.
#pragma once

#include <cstdint>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace penstock::save {

// Bytes of small members that are read by one request.
inline constexpr int64_t kReadWindow = 8 << 20;

// Whether a file with these first bytes is a zip archive without members.
inline bool IsEmptyZip(absl::string_view head) {
  return absl::StartsWith(head, "PK\5\6") || absl::StartsWith(head, "PK\6\6");
}

// Name of the first member of a zip archive with these first bytes; empty if they are not those of a
// zip archive.
inline absl::string_view FirstZipName(absl::string_view head) {
  constexpr size_t kName = 30;
  if (!absl::StartsWith(head, "PK\3\4") || head.size() < kName) return {};
  uint16_t length;
  std::memcpy(&length, head.data() + 26, sizeof(length));
  return head.substr(kName, length);
}

}  // namespace penstock::save
