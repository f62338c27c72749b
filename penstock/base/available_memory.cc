#include "penstock/base/available_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace penstock::base {
namespace {

std::optional<std::string> ReadText(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The number that a file consists of; no value for "max".
std::optional<int64_t> ReadNumber(const std::string& path) {
  const auto text = ReadText(path);
  uint64_t number = 0;
  if (!text.has_value() || !absl::SimpleAtoi(*text, &number)) return std::nullopt;
  return static_cast<int64_t>(std::min<uint64_t>(number, INT64_MAX));
}

// The number after `key` at the beginning of a line; 0 if not found.
int64_t FindNumber(const std::string& text, absl::string_view key) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    int64_t number = 0;
    if (words.size() >= 2 && words[0] == key && absl::SimpleAtoi(words[1], &number)) return number;
  }
  return 0;
}

// File names of one cgroup version.
struct CgroupFiles {
  const char* mount;
  const char* limit;
  const char* usage;
  const char* cached[2];  // in memory.stat
};
constexpr CgroupFiles kVersion1 = {"/sys/fs/cgroup/memory",
                                   "memory.limit_in_bytes",
                                   "memory.usage_in_bytes",
                                   {"total_inactive_file", "total_active_file"}};
constexpr CgroupFiles kVersion2 = {
    "/sys/fs/cgroup", "memory.max", "memory.current", {"inactive_file", "active_file"}};

// The limits of a cgroup and of all its ancestors apply. In a container the cgroup's own folder may
// not be mounted; the root of the mount then represents it.
void LimitByCgroup(const CgroupFiles& files, const std::string& root, std::string group,
                   MemoryHeadroom* room) {
  for (;;) {
    const std::string folder = absl::StrCat(root, files.mount, group == "/" ? "" : group, "/");
    const auto limit = ReadNumber(folder + files.limit);
    const auto usage = ReadNumber(folder + files.usage);
    if (limit.has_value() && usage.has_value()) {
      int64_t used = *usage;
      const std::string stat = ReadText(folder + "memory.stat").value_or("");
      for (const char* cached : files.cached) used -= FindNumber(stat, cached);
      const int64_t left = std::max<int64_t>(*limit - std::max<int64_t>(used, 0), 0);
      if (left < room->bytes) *room = {left, absl::StrCat("the cgroup '", group, "'")};
    }
    if (group == "/") return;
    group.resize(group.rfind('/'));
    if (group.empty()) group = "/";
  }
}

}  // namespace

MemoryHeadroom AvailableMemory(const std::string& root) {
  MemoryHeadroom room;
  if (const auto meminfo = ReadText(root + "/proc/meminfo"); meminfo.has_value()) {
    const int64_t kilobytes = FindNumber(*meminfo, "MemAvailable:");
    if (kilobytes > 0) room = {kilobytes * 1024, "this machine"};
  }
  const std::string groups = ReadText(root + "/proc/self/cgroup").value_or("");
  for (absl::string_view line : absl::StrSplit(groups, '\n')) {
    // number:controllers:path; version 2 has no controllers.
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || parts[2].empty() || parts[2][0] != '/') continue;
    for (absl::string_view controller : absl::StrSplit(parts[1], ',')) {
      if (controller == "memory") LimitByCgroup(kVersion1, root, parts[2], &room);
    }
    if (parts[1].empty()) LimitByCgroup(kVersion2, root, parts[2], &room);
  }
  return room;
}

std::string PrintBytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  double value = static_cast<double>(bytes);
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  if (unit == 0) return absl::StrCat(bytes, " bytes");
  return absl::StrFormat("%.*f %s", value < 10 ? 1 : 0, value, kUnits[unit]);
}

}  // namespace penstock::base
